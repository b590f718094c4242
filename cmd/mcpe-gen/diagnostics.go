package main

import (
	"fmt"
	"os"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
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
	return c.judge(source.Sort(all), failed, exitDiagnostics)
}

// judge reports what a library call found and turns it into the outcome of the verb. An err comes
// before diagnostics, whose exit code is the one given.
func (c *command) judge(ds []source.Diagnostic, err error, code int) error {
	var failing []source.Diagnostic
	for _, d := range ds {
		if c.fails(d) {
			failing = append(failing, d)
		}
	}
	if c.quiet {
		c.report(failing)
	} else {
		c.report(ds)
	}
	switch {
	case err != nil:
		return err
	case len(failing) == 0:
		return nil
	case source.HasErrors(ds):
		return silent(code)
	}
	return &exit{code: code, err: fmt.Errorf("stopped by --strict: %s", count(len(failing), "warning", "warnings"))}
}

// fails reports whether a diagnostic stops the run.
func (c *command) fails(d source.Diagnostic) bool {
	return d.Severity == source.Error || c.strict && d.Severity == source.Warning
}

// report prints diagnostics on standard error.
func (c *command) report(ds []source.Diagnostic) {
	// A failure to write has nowhere to go: standard error is where it would be told.
	_ = source.Write(c.stderr, ds, source.WriteOptions{
		Format:   source.Format(c.format),
		Excerpt:  c.stderrIsTerminal(),
		Color:    c.colored(),
		ReadFile: os.ReadFile,
	})
}
