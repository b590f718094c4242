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

// each calls the library once per request and judges all diagnostics together: it shows every diagnostic of a run, and
// only once if several packages share it.
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

// judge reports the diagnostics of a library call and returns the verb's outcome. An err takes precedence over
// diagnostics, whose exit code is the given one.
func (c *command) judge(ds []source.Diagnostic, err error, code int) error {
	c.report(ds)
	if err != nil {
		return err
	}
	return c.verdict(ds, code)
}

// result prints the diagnostics that the verb was run to find. They are its result rather than its errors, so they go
// to standard output.
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

// verdict returns the outcome of a run after its diagnostics were printed.
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

// ofConfig reports whether a diagnostic is about mcpe.yaml.
func ofConfig(d source.Diagnostic) bool { return strings.HasPrefix(d.Code, "MCPE4") }

// fails reports whether a diagnostic stops the run.
func (c *command) fails(d source.Diagnostic) bool {
	return d.Severity == source.Error || c.strict && d.Severity == source.Warning
}

// report prints diagnostics on standard error.
func (c *command) report(ds []source.Diagnostic) {
	ds = slices.Clone(ds)
	for i := range ds {
		ds[i].Message = plain.Lines(ds[i].Message) // they may contain names from an imported server
	}
	o := c.writing(c.Stderr)
	if o.Format == source.SARIF {
		o.Format = source.Text // standard output has the log
	}
	// There is nowhere to report a failure to write to standard error.
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
