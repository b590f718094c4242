package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/gen/config"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// A command is one run of mcpe-gen: where it writes and what the global flags say.
type command struct {
	stdout, stderr io.Writer
	version        version

	config string // -c
	dir    string // -C
	color  string // --color
	format string // --format
	quiet  bool   // -q
	strict bool   // --strict
	notes  bool   // --notes

	// loaded is the configuration that was read, nil when none was.
	loaded *config.Config
	// own are the absolute paths of the event files of the run.
	own map[string]bool
	// partial tells that the run is about some of its event files.
	partial bool
}

// run is mcpe-gen without the process around it.
func run(args []string, stdout, stderr io.Writer, v version) int {
	c := &command{stdout: stdout, stderr: stderr, version: v}
	root := newRoot(c)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	verb, err := root.ExecuteC()
	if verb.Name() == "help" {
		verb = root
	}
	e := asExit(err)
	if e.err != nil {
		c.fail(verb, e)
	}
	return e.code
}

// fail prints why a run failed, in one line.
func (c *command) fail(verb *cobra.Command, e *exit) {
	// A server's text may be in it.
	message := plain.Text(e.Error())
	switch c.format {
	case "json":
		line, _ := json.Marshal(failure{"error", e.Error(), e.lines})
		fmt.Fprintf(c.stderr, "%s\n", plain.JSON(line))
		return
	case "github":
		fmt.Fprintf(c.stderr, "::error::%s\n", source.CommandData(message))
		return
	}
	if e.misused {
		message += fmt.Sprintf(" (see %s --help)", verb.CommandPath())
	}
	if len(e.lines) > 0 {
		message += ":"
	}
	fmt.Fprintf(c.stderr, "mcpe-gen: %s\n", message)
	for _, line := range e.lines {
		fmt.Fprintln(c.stderr, plain.Text(line))
	}
}

// A failure is an error without a position, as --format json prints it: a diagnostic without code
// and range.
type failure struct {
	Severity string `json:"severity"`
	Message  string `json:"message"`
	// Lines are what to write by hand instead.
	Lines []string `json:"lines,omitempty"`
}

const rootHelp = `Mcpe-gen turns event files into typed Go for the MCP Events extension.

An event file describes event types in YAML: what a subscriber may ask for
(inputSchema) and what an event carries (payloadSchema). From it mcpe-gen writes
a Go package: typed arguments and payloads, registration and emitters for
servers, subscriptions for clients, and tool descriptors. Generated code is
short, committed beside yours, and the same bytes on every machine.

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
  3  errors in event files, or warnings with --strict
  4  generate --check found files to create, update or delete
  5  breaking found changes that break somebody
  6  conform found a requirement that does not hold
  7  doctor found something wrong with a database`

// newRoot is the command tree.
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
		SilenceErrors:     true,
		SilenceUsage:      true,
		Version:           c.version.Text + " " + c.version.Go,
		Args:              unknownVerb,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return c.begin(cmd) },
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	flags := root.PersistentFlags()
	flags.SortFlags = false
	flags.StringVarP(&c.config, "config", "c", "", "read this `file` instead of the mcpe.yaml found in the directory or above")
	flags.StringVarP(&c.dir, "directory", "C", "", "change to this `dir` before doing anything else")
	flags.BoolVarP(&c.quiet, "quiet", "q", false, "print only errors and what was asked for")
	flags.BoolVar(&c.strict, "strict", false, "treat warnings as errors, including those that are not shown")
	flags.BoolVar(&c.notes, "notes", false, "show every diagnostic (text format otherwise shows 3 notes and warnings per code and 50 errors)")
	flags.StringVar(&c.format, "format", "text", "print results and diagnostics as `text|json|github|sarif`")
	flags.StringVar(&c.color, "color", "auto", "color diagnostics: `auto|always|never`; always also shows source lines in a pipe")
	completeWords(root, "format", formats...)
	completeWords(root, "color", "auto", "always", "never")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usagef("%w", err) })
	root.SetHelpCommand(newHelp())
	root.SetUsageTemplate(usageTemplate)
	root.SetVersionTemplate("mcpe-gen {{.Version}}\n")
	root.Flags().Bool("version", false, "print the version of mcpe-gen")

	root.AddCommand(newInit(c), newGenerate(c), newLint(c), newBreaking(c), newRules(c), newExplain(c), newInspect(c), newSchema(c), newImport(c), newExport(c), newDocs(c), newServe(c), newListen(c), newBridge(c), newConform(c), newAdmin(c), newDeadLetters(c), newDoctor(c),
		newVersion(c), newCompletion(c), newMan(c))
	return root
}

// formats are the values of --format.
var formats = []string{"text", "json", "github", "sarif"}

// begin checks the global flags and changes the directory, before any verb runs.
func (c *command) begin(verb *cobra.Command) error {
	switch given := c.format; {
	case !slices.Contains(formats, given):
		c.format = "text"
		return usagef("--format %s: must be text, json, github or sarif", given)
	case given == "sarif" && verb.Annotations["sarif"] == "":
		c.format = "text"
		return usagef("--format sarif: only lint and breaking write it")
	}
	if !slices.Contains([]string{"auto", "always", "never"}, c.color) {
		return usagef("--color %s: must be auto, always or never", c.color)
	}
	if c.dir != "" {
		if err := os.Chdir(c.dir); err != nil {
			return refuse(fmt.Errorf("-C: %w", err))
		}
	}
	return nil
}

// unknownVerb refuses arguments of the root command, with the verb that was probably meant.
func unknownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return usagef("unknown command %q; did you mean %s?", args[0], strings.Join(near, " or "))
	}
	return usagef("unknown command %q", args[0])
}

// noArgs is cobra.NoArgs with our exit code.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, got %q", cmd.Name(), args[0])
	}
	return nil
}

func completeWords(cmd *cobra.Command, flag string, words ...string) {
	// The only error is a flag that does not exist, and a missing completion is no reason to stop.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// completeEventFiles offers files that may be event files.
func completeEventFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

// newHelp is "mcpe-gen help [verb]", with our exit code for a verb that does not exist.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Explain a command",
		Long:  "Explain a command: the same text as \"mcpe-gen COMMAND --help\".",
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil || of == nil || (len(args) > 0 && len(rest) == len(args)) || len(rest) > 0 {
				return unknownVerb(cmd.Root(), args)
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

// usageTemplate is cobra's, in the order that a reader needs: examples before flags.
const usageTemplate = `Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableInheritedFlags}}

Global flags:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

"{{.CommandPath}} COMMAND --help" explains a command.{{end}}
`
