package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/gen/plugin"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/typescript"
)

const generateHelp = `Write Go packages for event files.

Without FILE arguments, generate writes every package of mcpe.yaml. It looks for that
file in the current directory and its parents; paths in it are relative to it. FILE
arguments become one package in the directory that -o names; a config is then read
only when -c names it.

A package called notes becomes three Go packages: notes has the types, notesserver the
code for servers and notesclient the code for clients, so that a server links no client
and a client no server. The last two are in directories below the first, unless
server: {out: DIR} and client: {out: DIR} in mcpe.yaml name others. They import the
first, which must be in a Go module.

Each is written whole: one NAME.mcpe.go for each event file, those reached by $ref
included, plus mcpe.go; the one for servers also has mcpe.schemas.json and tools.json. Files
that mcpe-gen wrote earlier and whose event file is gone are deleted; your own files
are never touched.
Generated files in other directories below mcpe.yaml, such as those of a package that
was renamed, stay; a warning names them.
Nothing is written when anything is wrong, and a file that would not change
keeps its time stamp. The go.mod above the directory must not require a release of
mcpe-gen with another minor version than that of the command.

The parts that --emit chooses from:
  server   registration, hooks and emitters
  client   subscriptions
  tools    tool descriptors for MCP clients that do not support events
  ingress  webhook handlers for events that have "from"; written only when
           requested, and adds server
Types are always written, and "--emit types" writes nothing else, also outside a Go
module. tools and ingress belong to the package for servers. A package without content
is not written.

TypeScript is written if mcpe.yaml has typescript: {out: DIR} or --typescript names a
directory. events.ts has the types. emit in mcpe.yaml, or --emit-typescript, adds code
that receives them: ai-sdk, client, webhook, schemas.

Plugins in mcpe.yaml are programs that write more files from the same model. They run
with your privileges, unless FILE arguments or --no-plugins are given.`

// generateFlags holds the flags of generate except the global flags.
type generateFlags struct {
	outputFlags
	check, diff, dryRun, verify, watch bool
	// noPlugins skips the plugins of the config.
	noPlugins bool
}

func newGenerate(c *command) *cobra.Command {
	var f generateFlags
	cmd := &cobra.Command{
		Use:   "generate [FILE...]",
		Short: "Write Go and TypeScript for event files",
		Long:  generateHelp,
		Example: `  # everything that mcpe.yaml describes
  mcpe-gen generate

  # without a config
  mcpe-gen generate incidents.yaml -o internal/incidents --package incidents

  # in CI: fail with exit code 4 when generated code is not current
  mcpe-gen generate --check

  # what would change, as a unified diff
  mcpe-gen generate --diff

  # while editing event files
  mcpe-gen generate --watch

  # TypeScript, without Go
  mcpe-gen generate incidents.yaml --typescript web/src/events

  # only the types and the code for clients
  mcpe-gen generate incidents.yaml -o incidents --emit client`,
		ValidArgsFunction: completeEventFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(f.emitTypeScript) > 0 && f.typescript == "":
				return cli.Usagef("--emit-typescript goes with --typescript")
			case !f.watch:
				return c.generate(cmd.Context(), args, f)
			case f.check || f.diff || f.dryRun:
				return cli.Usagef("--watch writes; it cannot be combined with --check, --diff or --dry-run")
			}
			return c.watch(cmd.Context(), args, f)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.out, "out", "o", "", "`dir` of the types, and of the other packages below it (default: the config's; with FILE arguments the current one)")
	flags.StringVar(&f.pkg, "package", "", "`name` of the Go package with the types (default: the config's, the event file's, the directory's)")
	flags.StringSliceVar(&f.emit, "emit", nil, "`parts` to write, of server,client,tools,ingress (default the first three)")
	flags.StringVar(&f.typescript, "typescript", "", "`dir` to write TypeScript to; with FILE arguments and without -o, nothing else")
	flags.StringSliceVar(&f.emitTypeScript, "emit-typescript", nil, "`parts` to write in addition to events.ts, of ai-sdk,client,webhook,schemas")
	flags.BoolVar(&f.check, "check", false, "write nothing; list what is not current and exit with code 4")
	flags.BoolVar(&f.diff, "diff", false, "write nothing; print what would change as a unified diff")
	flags.BoolVar(&f.dryRun, "dry-run", false, "write nothing; list what would change")
	flags.BoolVar(&f.watch, "watch", false, "write again whenever an event file, the config or a plugin changes, until Ctrl-C")
	flags.BoolVar(&f.verify, "verify", false, "type-check the code before writing it (needs the module's dependencies)")
	flags.BoolVar(&f.noPlugins, "no-plugins", false, "do not run the plugins of the config")
	cli.CompleteWords(cmd, "emit", "server", "client", "tools", "ingress", "types")
	cli.CompleteWords(cmd, "emit-typescript", typescript.Parts...)
	_ = cmd.MarkFlagDirname("out")
	_ = cmd.MarkFlagDirname("typescript")
	return cmd
}

func (c *command) generate(ctx context.Context, files []string, f generateFlags) error {
	requests, err := c.requests(files, f.outputFlags)
	if err != nil {
		return err
	}
	if err := c.checkRuntime(requests); err != nil {
		return err
	}
	plan, err := c.plan(ctx, requests)
	if err != nil {
		return err
	}
	if len(files) == 0 && !f.noPlugins {
		ds, err := plan.Plugins(ctx, "", c.configPlugins())
		if err := c.reportAll(ds, err, exitDiagnostics); err != nil {
			return err
		}
	}
	if len(files) == 0 && f.out == "" && f.typescript == "" {
		// Only a config names all packages.
		ds, err := plan.Abandoned(c.runConfig().Dir, c.configPlugins())
		if err := c.reportAll(ds, err, exitDiagnostics); err != nil {
			return err
		}
	}
	if f.verify {
		ds, err := plan.Verify(ctx)
		if err := c.reportAll(ds, err, exitDiagnostics); err != nil {
			return err
		}
	}
	changes := changesOf(plan, f.diff)
	if f.check || f.diff || f.dryRun {
		return c.showChanges(changes, f)
	}
	if err := plan.Apply(); err != nil {
		return err
	}
	return c.showWritten(changes)
}

// configPlugins returns the plugins in the config of the run.
func (c *command) configPlugins() []gen.Plugin {
	var all []gen.Plugin
	cfg := c.runConfig()
	for _, p := range cfg.Plugins {
		all = append(all, gen.Plugin{
			Name: p.Name, Options: p.Options, Out: p.Out,
			Program: plugin.Program{Command: p.Command, Dir: cfg.Dir, Timeout: p.Timeout},
		})
	}
	return all
}

// plan generates every request. The plan is applied either completely or not at all.
func (c *command) plan(ctx context.Context, requests []gen.Request) (*gen.Plan, error) {
	var plans []*gen.Plan
	err := c.runRequests(requests, func(r gen.Request) ([]source.Diagnostic, error) {
		plan, ds, err := gen.Generate(ctx, r)
		plans = append(plans, plan)
		return ds, err
	})
	if err != nil {
		return nil, err
	}
	return gen.Merge(plans...)
}

// showChanges prints the changes and returns the result of a run that does not write files.
func (c *command) showChanges(changes []change, f generateFlags) error {
	drift := drifted(changes)
	if drift == 0 && !f.check && !f.diff {
		return c.showWritten(changes)
	}
	annotate := c.Format == "github" && f.check
	if !annotate || f.diff {
		if err := c.printChanges(changes, f.diff); err != nil {
			return err
		}
	}
	switch {
	case !f.check || drift == 0:
		return nil
	case annotate:
		c.printDiagnostics(driftDiagnostics(changes))
		return cli.Silent(exitDrift)
	case c.Format == "json":
		return cli.Silent(exitDrift)
	}
	return &cli.Exit{Code: exitDrift, Err: fmt.Errorf("%s not current; run \"mcpe-gen generate\"", count(drift, "generated file is", "generated files are"))}
}

// showWritten prints the changes of a run that wrote files or had nothing to write.
func (c *command) showWritten(changes []change) error {
	if c.Format == "json" {
		return c.PrintJSON(map[string]any{"files": changes})
	}
	if c.Quiet {
		return nil
	}
	if drifted(changes) == 0 {
		return c.Printf("%s\n", count(len(changes), "file is current", "files are current"))
	}
	return c.printChanges(changes, false)
}
