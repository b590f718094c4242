package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// each calls the library once a request and judges all that it found together: every diagnostic of a
// run is shown, and one that two packages share only once.
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

// judge reports what a library call found and turns it into the outcome of the verb. An err comes
// before diagnostics, whose exit code is the one given.
func (c *command) judge(ds []source.Diagnostic, err error, code int) error {
	c.report(ds)
	if err != nil {
		return err
	}
	return c.verdict(ds, code)
}

// result prints what a verb was asked to find. Findings are its result, not its trouble: they go to
// standard output.
func (c *command) result(ds []source.Diagnostic, code int) error {
	var b bytes.Buffer
	if err := c.diagnose(&b, ds, c.writing(c.stdout)); err != nil {
		return err
	}
	if err := c.print(b.Bytes()); err != nil {
		return err
	}
	return c.verdict(ds, code)
}

// verdict is the outcome of a run whose diagnostics have been shown.
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
		return silent(exitUsage)
	case source.HasErrors(ds):
		return silent(code)
	}
	return &exit{code: exitDiagnostics, err: fmt.Errorf("stopped by --strict: %s", count(failing, "warning", "warnings"))}
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
		ds[i].Message = plain.Lines(ds[i].Message) // names of an imported server may be in it
	}
	o := c.writing(c.stderr)
	if o.Format == source.SARIF {
		o.Format = source.Text // the log is on standard output
	}
	// A failure to write has nowhere to go: standard error is where it would be told.
	_ = c.diagnose(c.stderr, ds, o)
}

func (c *command) writing(to io.Writer) source.WriteOptions {
	return source.WriteOptions{
		Format:   source.Format(c.format),
		Excerpt:  c.excerpts(to),
		Color:    c.coloredOn(to),
		ReadFile: source.ReadFile,
		Describe: describe,
	}
}
