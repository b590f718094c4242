package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/clitest"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

var update = flag.Bool("update", false, "rewrite docs/reference and compare nothing")

// TestReference holds docs/reference to the command: every verb and flag, every code and rule. "make golden" rewrites
// it.
func TestReference(t *testing.T) {
	root := newRoot(newCommand(io.Discard, io.Discard, cli.VersionOf(nil)))
	clitest.Current(t, "docs/reference/command.md", clitest.Reference(t, root), *update)
	clitest.Current(t, "docs/reference/diagnostics.md", diagnosticsPage(t), *update)
}

// diagnosticsPage is what explain says of every code and rule, but for the examples.
func diagnosticsPage(t *testing.T) string {
	t.Helper()
	var page strings.Builder
	page.WriteString("# Diagnostics\n\nEvery code and rule that mcpe-gen reports. `mcpe-gen explain CODE` shows an example that gives it, and one that does not.\n")
	section := ""
	for _, id := range explainableIDs() {
		e, ok := explain(id)
		if !ok {
			t.Fatalf("%s is not explained", id)
		}
		about := e.Severity.String()
		heading := "Codes"
		if e.Verb != "" {
			heading, about = "Rules of "+e.Verb, e.Category+", "+about
		}
		if heading != section {
			section = heading
			fmt.Fprintf(&page, "\n## %s\n", section)
		}
		fmt.Fprintf(&page, "\n### %s\n\n**%s** (%s)\n\n%s\n", e.ID, e.Title, about, wrapText(e.Cause, 120))
	}
	if len(source.Codes()) < 50 {
		t.Fatalf("%d codes", len(source.Codes()))
	}
	return page.String()
}
