package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// each calls the library once per request and then evaluates all diagnostics together. It prints every diagnostic of
// the run, and prints it only once if several packages share it.
func (c *command) each(requests []gen.Request, call func(gen.Request) ([]source.Diagnostic, error)) error {
	var all []source.Diagnostic
	var failed error
	for _, r := range requests {
		ds, err := call(r)
		all = append(all, ds...)
		if failed == nil {
			failed = err
		}
	}
	all = append(all, c.unused()...)
	return c.judge(source.Sort(all), failed, exitDiagnostics)
}

// judge reports the diagnostics of a library call and returns the result of the verb. An err takes precedence over
// diagnostics. code is the exit code for diagnostics.
func (c *command) judge(ds []source.Diagnostic, err error, code int) error {
	c.report(ds)
	if err != nil {
		return err
	}
	return c.verdict(ds, code)
}

// result prints the diagnostics that are the result of the verb. It writes them to standard output because they are not
// errors of the verb.
func (c *command) result(ds []source.Diagnostic, code int) error {
	var b bytes.Buffer
	if err := c.diagnose(&b, ds, c.writing(c.Stdout)); err != nil {
		return err
	}
	if err := c.Print(b.Bytes()); err != nil {
		return err
	}
	return c.verdict(ds, code)
}

// verdict returns the result of a run after its diagnostics have been printed.
func (c *command) verdict(ds []source.Diagnostic, code int) error {
	failing := 0
	for _, d := range ds {
		if c.fails(d) {
			failing++
		}
	}
	switch {
	case failing == 0:
		return nil
	case !slices.ContainsFunc(ds, func(d source.Diagnostic) bool { return d.Severity == source.Error && !ofConfig(d) }) && source.HasErrors(ds):
		return cli.Silent(cli.Usage)
	case source.HasErrors(ds):
		return cli.Silent(code)
	}
	return &cli.Exit{Code: exitDiagnostics, Err: fmt.Errorf("stopped by --strict: %s", count(failing, "warning", "warnings"))}
}

// ofConfig reports whether a diagnostic concerns mcpe.yaml.
func ofConfig(d source.Diagnostic) bool { return strings.HasPrefix(d.Code, "MCPE4") }

// fails reports whether a diagnostic makes the run fail.
func (c *command) fails(d source.Diagnostic) bool {
	return d.Severity == source.Error || c.strict && d.Severity == source.Warning
}

// report prints diagnostics to standard error.
func (c *command) report(ds []source.Diagnostic) {
	ds = slices.Clone(ds)
	for i := range ds {
		ds[i].Message = plain.Lines(ds[i].Message) // they may contain names from an imported server
	}
	o := c.writing(c.Stderr)
	if o.Format == source.SARIF {
		o.Format = source.Text // standard output has the log
	}
	// If writing to standard error fails, the error cannot be reported anywhere.
	_ = c.diagnose(c.Stderr, ds, o)
}

func (c *command) writing(to io.Writer) source.WriteOptions {
	return source.WriteOptions{
		Format:   source.Format(c.Format),
		Excerpt:  c.Excerpts(to),
		Color:    c.Colored(to),
		ReadFile: source.ReadFile,
		Describe: describe,
	}
}
