package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// runRequests calls the library once per request and then evaluates all diagnostics together. It prints every
// diagnostic of the run once, even if several packages share it.
func (c *command) runRequests(requests []gen.Request, call func(gen.Request) ([]source.Diagnostic, error)) error {
	var all []source.Diagnostic
	var failed error
	for _, r := range requests {
		ds, err := call(r)
		all = append(all, ds...)
		if failed == nil {
			failed = err
		}
	}
	if failed == nil {
		all = append(all, c.unused(all)...)
	}
	return c.reportAll(source.Sort(all), failed, exitDiagnostics)
}

// configCodes maps keys of mcpe.yaml to the codes of faults that the library finds in their entries.
var configCodes = map[string]string{"types": "MCPE402", "import": "MCPE408"}

// reportAll reports the diagnostics of a library call and returns the result of the verb. An error takes precedence
// over diagnostics. code is the exit code for diagnostics.
func (c *command) reportAll(ds []source.Diagnostic, err error, code int) error {
	if wrong, ok := errors.AsType[*gen.UsageError](err); ok {
		if at, ok := c.runConfig().Places[[2]string{wrong.Key, wrong.Entry}]; ok {
			ds, err, code = append(ds, source.New(configCodes[wrong.Key], at, "%s", wrong.Message)), nil, cli.Usage
		}
	}
	c.printDiagnostics(ds)
	if err != nil {
		return err
	}
	return c.resultOf(ds, code)
}

// printResult prints the diagnostics that are the result of the verb. It writes them to standard output because they
// are not errors of the verb.
func (c *command) printResult(ds []source.Diagnostic, code int) error {
	var b bytes.Buffer
	if err := c.diagnose(&b, ds, c.writing(c.Stdout)); err != nil {
		return err
	}
	if err := c.Print(b.Bytes()); err != nil {
		return err
	}
	return c.resultOf(ds, code)
}

// resultOf returns the result of a run after its diagnostics have been printed.
func (c *command) resultOf(ds []source.Diagnostic, code int) error {
	failing := 0
	for _, d := range ds {
		if c.isFailing(d) {
			failing++
		}
	}
	switch {
	case failing == 0:
		return nil
	case !slices.ContainsFunc(ds, func(d source.Diagnostic) bool { return d.Severity == source.Error && !isConfigDiagnostic(d) }) && source.HasErrors(ds):
		return cli.Silent(cli.Usage)
	case source.HasErrors(ds):
		return cli.Silent(code)
	}
	return &cli.Exit{Code: exitDiagnostics, Err: fmt.Errorf("stopped by --strict: %s", count(failing, "warning", "warnings"))}
}

// isConfigDiagnostic reports whether a diagnostic concerns mcpe.yaml.
func isConfigDiagnostic(d source.Diagnostic) bool { return strings.HasPrefix(d.Code, "MCPE4") }

// isFailing reports whether a diagnostic makes the run fail.
func (c *command) isFailing(d source.Diagnostic) bool {
	return d.Severity == source.Error || c.strict && d.Severity == source.Warning
}

// printDiagnostics prints diagnostics to standard error.
func (c *command) printDiagnostics(ds []source.Diagnostic) {
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
		Describe: sarifDescription,
	}
}
