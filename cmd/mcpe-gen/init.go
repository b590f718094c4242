package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/templates"
)

const initHelp = `Start a Go module with an MCP server that sends typed events.

The directory (default: the current one) gets an event file, mcpe.yaml, a server
on stdio or on Streamable HTTP, a test, a README, a CI workflow for GitHub Actions, a
Dockerfile, a go.mod with a "tool" line for mcpe-gen, and the generated code. All of
it is written once and is yours then. Existing files are never overwritten: if one is
in the way, nothing is written.

On a terminal you are asked for the module's name, the transport and the source of
events, unless flags say them; "mcpe-gen init DIR </dev/null" takes the defaults.
Nothing is asked elsewhere, with -q, or with a --format other than text.

The source is "emit" when your program tells of each event, and "check" when the
server looks for new ones in a table, a feed or another service.

No network is used. The last lines of the output are the commands to run next;
the first of them, "go mod tidy", fetches the modules.

The go.mod requires the version of this mcpe-gen. A mcpe-gen built from a
checkout has no released version, and then --replace must name a checkout:

  mcpe-gen init demo --replace ~/src/mcpe-gen`

// goVersion is the go line of a new module: that of this one, whose packages it compiles.
const goVersion = "1.26.0"

// generatedDir is the out of the scaffold's mcpe.yaml.
const generatedDir = "internal/notes"

// A start is what init was asked for.
type start struct {
	dir, module, transport, source, replace string
}

func newInit(c *command) *cobra.Command {
	var s start
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Start a module with an MCP server that sends events",
		Long:  initHelp,
		Example: `  mcpe-gen init demo --module example.com/demo
  mcpe-gen init demo --transport http --source check
  mcpe-gen init demo --replace ../mcpe-gen`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("init takes one directory, got %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s.dir = "."
			if len(args) == 1 {
				s.dir = args[0]
			}
			return c.init(cmd.Context(), s, c.questions(cmd.Flags().Changed))
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&s.module, "module", "", "module `path` of the new module (default example.com/ and the directory's name)")
	flags.StringVar(&s.transport, "transport", templates.Transports[0], "what the server speaks: `stdio|http`")
	flags.StringVar(&s.source, "source", templates.Sources[0], "where events come from: `emit|check`")
	flags.StringVar(&s.replace, "replace", "", "`path` of a checkout of mcpe-gen to use instead of a released version")
	completeWords(cmd, "transport", templates.Transports...)
	completeWords(cmd, "source", templates.Sources...)
	_ = cmd.MarkFlagDirname("replace")
	return cmd
}

func (c *command) init(ctx context.Context, s start, ask []question) error {
	// What is wrong with the flags is said before anything is asked.
	scaffold, err := s.scaffold(c.version)
	if err == nil && len(ask) > 0 {
		if err = c.ask(ctx, &s, scaffold, ask); err == nil {
			scaffold, err = s.scaffold(c.version)
		}
	}
	if err != nil {
		return refuse(err)
	}
	files, err := templates.Render(scaffold)
	if err != nil {
		return err
	}
	files = append(files, templates.File{Path: "events/mcpe-events.schema.json", Content: schema.EventFileSchema()})
	if err := templates.Write(s.dir, files, generatedDir); err != nil {
		if _, ok := errors.AsType[*templates.ExistsError](err); ok {
			return refuse(err)
		}
		return err
	}
	generated, err := c.generateIn(ctx, s.dir)
	if err != nil {
		return fmt.Errorf("generating the code of %s: %w", s.dir, err)
	}
	for _, f := range files {
		generated = append(generated, f.Path)
	}
	return c.showStarted(s, scaffold, generated)
}

// scaffold checks what was asked for against the version of this binary.
func (s start) scaffold(v version) (templates.Scaffold, error) {
	t := templates.Scaffold{Module: s.module, Transport: s.transport, Source: s.source, GoVersion: goVersion, Version: v.Text}
	if !slices.Contains(templates.Transports, s.transport) {
		return t, fmt.Errorf("--transport %s: must be %s", s.transport, strings.Join(templates.Transports, " or "))
	}
	if !slices.Contains(templates.Sources, s.source) {
		return t, fmt.Errorf("--source %s: must be %s", s.source, strings.Join(templates.Sources, " or "))
	}
	if t.Module == "" {
		abs, err := filepath.Abs(s.dir)
		if err != nil {
			return t, err
		}
		t.Module = "example.com/" + templates.ProgramName(filepath.ToSlash(abs))
	}
	if err := templates.CheckModule(t.Module); err != nil {
		return t, fmt.Errorf("--module: %w", err)
	}
	t.Name = templates.ProgramName(t.Module)
	if v.Devel {
		if s.replace == "" {
			return t, fmt.Errorf("this mcpe-gen is a development build, %s, which no go.mod can require; name its checkout with --replace PATH", v.Text)
		}
		// With a replace line any version does.
		t.Version = "v0.0.0"
	}
	if s.replace != "" {
		var err error
		if t.Replace, err = templates.Replacement(s.dir, s.replace); err != nil {
			return t, fmt.Errorf("--replace: %w", err)
		}
	}
	return t, nil
}

// generateIn generates what the config in dir describes, and gives the files relative to dir.
func (c *command) generateIn(ctx context.Context, dir string) ([]string, error) {
	in := &command{stdout: c.stdout, stderr: c.stderr, format: c.format, color: c.color, quiet: true, config: filepath.Join(dir, "mcpe.yaml")}
	requests, err := in.requests(nil, outputs{})
	if err != nil {
		return nil, err
	}
	plan, err := in.plan(ctx, requests)
	if err != nil {
		return nil, err
	}
	if err := plan.Apply(); err != nil {
		return nil, err
	}
	var written []string
	for _, f := range plan.Create {
		written = append(written, path.Join(generatedDir, filepath.Base(f.Path)))
	}
	return written, nil
}

// showStarted lists what was written and what to run next.
func (c *command) showStarted(s start, scaffold templates.Scaffold, files []string) error {
	slices.Sort(files)
	var next []string
	if s.dir != "." {
		next = append(next, "cd "+s.dir)
	}
	next = append(next, "go mod tidy", "go test ./...", "go run .")
	if c.format == "json" {
		return c.printJSON(map[string]any{"module": scaffold.Module, "directory": s.dir, "transport": s.transport, "source": s.source, "files": files, "next": next})
	}
	return c.printf("Module %s in %s (%s, %s):\n  %s\n\nNext:\n  %s\n",
		scaffold.Module, s.dir, s.transport, s.source, strings.Join(files, "\n  "), strings.Join(next, "\n  "))
}
