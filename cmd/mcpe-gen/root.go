package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking/against"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/config"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/templates"
)

// A command is one execution of mcpe-gen with its outputs and global flags.
type command struct {
	cli.Program

	config string // -c
	dir    string // -C
	strict bool   // --strict
	notes  bool   // --notes

	// runConfigFile is the configuration of the run, or nil if none was read.
	runConfigFile *config.Config
	// ownFiles contains the absolute paths of the run's event files.
	ownFiles map[string]bool
	// isPartial reports whether the run reads only some of the event files.
	isPartial bool
}

// run executes mcpe-gen without using process state.
func run(args []string, stdout, stderr io.Writer, v cli.Version) int {
	c := newCommand(stdout, stderr, v)
	verb, e := c.Execute(newRoot(c), args)
	switch {
	case e.Err == nil:
	case c.Format == "github":
		fmt.Fprintf(c.Stderr, "::error::%s\n", source.CommandData(plain.Text(e.Error())))
	default:
		c.Fail(verb, e)
	}
	return e.Code
}

func newCommand(stdout, stderr io.Writer, v cli.Version) *command {
	return &command{Program: cli.Program{Stdout: stdout, Stderr: stderr, Version: v, Misuse: isMisuse}}
}

// isMisuse reports whether an error of the generator or of the scaffolds is a usage error.
func isMisuse(err error) bool {
	_, usage := errors.AsType[*gen.UsageError](err)
	_, revision := errors.AsType[*against.RevisionError](err)
	_, exists := errors.AsType[*templates.ExistsError](err)
	return usage || revision || exists
}

const rootHelp = `Mcpe-gen turns event files into typed Go for the MCP Events extension.

An event file describes event types in YAML: what a subscriber may ask for
(inputSchema) and what an event carries (payloadSchema). From it mcpe-gen writes
Go packages: typed arguments and payloads, registration, emitters and tool
descriptors for servers, and subscriptions for clients. Generated code is
short, committed next to yours, and the same bytes on every machine.

A new project starts with "mcpe-gen init". In a project with an mcpe.yaml,
"mcpe-gen generate" writes what it describes, and in CI
"mcpe-gen generate --check" fails when generated code is out of date.

Diagnostics go to standard error as "file:line:col: error CODE: message",
followed on a terminal by the line and a caret; "mcpe-gen explain CODE" explains one.
At most three notes and warnings per code and 50 errors are shown; the rest are
counted. --notes shows all of them. Notes about files that only a $ref reaches are
left out; "silence" in mcpe.yaml hides more. The other formats are complete:
--format json prints one JSON object per line, and --format github prints workflow
commands for GitHub Actions. Findings of lint and breaking go to standard output;
--format sarif prints them as one SARIF log.

Exit codes:
  0  done; warnings do not count, unless --strict is given
  1  an internal failure, a file that could not be read or written, or a server
     that could not be reached
  2  a mistake in the command line or in mcpe.yaml
  3  errors in event files, or warnings with --strict; init found a server that
     it does not know
  4  generate --check found files to create, update or delete
  5  breaking found breaking changes

mcpe-conform tests servers, clients and receivers against the protocol. mcpe-ops looks
at databases and at the events that a consumer gave up on.`

// newRoot returns the command tree.
func newRoot(c *command) *cobra.Command {
	root := &cobra.Command{
		Use:   "mcpe-gen",
		Short: "Turn event files into typed Go for the MCP Events extension",
		Long:  rootHelp,
		Example: `  mcpe-gen init demo --module example.com/demo
  mcpe-gen generate
  mcpe-gen generate incidents.yaml -o internal/incidents --package incidents
  mcpe-gen generate --check
  mcpe-gen lint
  mcpe-gen breaking --against git:main`,
	}
	flags := root.PersistentFlags()
	flags.SortFlags = false
	flags.StringVarP(&c.config, "config", "c", "", "read this `file` instead of the mcpe.yaml found in the directory or above")
	flags.StringVarP(&c.dir, "directory", "C", "", "change to this `dir` before doing anything else")
	flags.BoolVarP(&c.Quiet, "quiet", "q", false, "print only errors and the result")
	flags.BoolVar(&c.strict, "strict", false, "treat warnings as errors, including those that are not shown")
	flags.BoolVar(&c.notes, "notes", false, "show every diagnostic (text format otherwise shows 3 notes and warnings per code and 50 errors)")
	c.Root(root, "text", "json", "github", "sarif")
	cli.Group(root)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return c.applyGlobalFlags(cmd) }

	root.AddCommand(newInit(c), newGenerate(c), newLint(c), newBreaking(c), newRules(c), newExplain(c), newInspect(c), newSchema(c), newImport(c),
		newExport(c), newDocs(c), newServe(c), newListen(c), newBridge(c), newAdmin(c))
	return root
}

// applyGlobalFlags checks the global flags and changes the working directory before a verb is executed.
func (c *command) applyGlobalFlags(verb *cobra.Command) error {
	if err := c.Check(); err != nil {
		return err
	}
	if c.Format == "sarif" && verb.Annotations["sarif"] == "" {
		c.Format = "text"
		return cli.Usagef("--format sarif: only lint and breaking write it")
	}
	if c.dir != "" {
		if err := os.Chdir(c.dir); err != nil {
			return cli.Refusef("-C: %w", err)
		}
	}
	return nil
}
