// Package cli implements the shared parts of the commands. These are exit codes and errors, output, global flags, help
// with suggestions, and the verbs completion, man and version.
package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// A Program is a single run of a command, with its outputs and global flag values.
type Program struct {
	Stdout, Stderr io.Writer
	Version        Version
	// Misuse reports whether an error of another package is a usage error. If Misuse is nil, no such error is a usage
	// error.
	Misuse func(error) bool

	Color  string // --color
	Format string // --format
	Quiet  bool   // -q, for commands that have it

	formats []string // the values of --format
}

// Run executes the command tree and returns the exit code of the process.
func (p *Program) Run(root *cobra.Command, args []string) int {
	verb, e := p.Execute(root, args)
	if e.Err != nil {
		p.Fail(verb, e)
	}
	return e.Code
}

// Execute executes the command tree. It returns the executed verb and the result of the run, which it does not print.
func (p *Program) Execute(root *cobra.Command, args []string) (*cobra.Command, *Exit) {
	root.SetArgs(args)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	verb, err := root.ExecuteC()
	if verb.Name() == "help" {
		verb = root
	}
	return verb, p.ExitOf(err)
}

// Fail prints a one-line message that explains why the verb failed.
func (p *Program) Fail(verb *cobra.Command, e *Exit) {
	if p.Format == "json" {
		line, _ := json.Marshal(failure{"error", e.Error(), e.Lines}) // encoding strings cannot fail
		fmt.Fprintf(p.Stderr, "%s\n", plain.JSON(line))
		return
	}
	// The error may contain text from a server.
	message := plain.Text(e.Error())
	if e.Misused {
		message += fmt.Sprintf(" (see %s --help)", verb.CommandPath())
	}
	if len(e.Lines) > 0 {
		message += ":"
	}
	fmt.Fprintf(p.Stderr, "%s: %s\n", verb.Root().Name(), message)
	for _, line := range e.Lines {
		fmt.Fprintln(p.Stderr, plain.Text(line))
	}
}

// A failure is the JSON form of an error without a position. It is a diagnostic without a code and range.
type failure struct {
	Severity string `json:"severity"`
	Message  string `json:"message"`
	// Lines are the lines that the user has to add manually.
	Lines []string `json:"lines,omitempty"`
}
