package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

var update = flag.Bool("update", false, "rewrite docs/reference and compare nothing")

// TestReference holds docs/reference to the command: every verb and flag, every code and rule. "make golden" rewrites it.
func TestReference(t *testing.T) {
	for name, want := range map[string]string{"command.md": commandPage(t), "diagnostics.md": diagnosticsPage(t)} {
		path := filepath.Join("..", "..", "docs", "reference", name)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got := readText(t, path); got != want {
			t.Errorf("docs/reference/%s is not current: run make golden", name)
		}
	}
}

// commandPage is cobra's own documentation of all verbs on one page. The global flags stand once, at the top.
func commandPage(t *testing.T) string {
	t.Helper()
	root := newRoot(&command{stdout: io.Discard, stderr: io.Discard, version: versionOf(nil)})
	root.DisableAutoGenTag = true
	var page strings.Builder
	page.WriteString("# The command\n\n`mcpe-gen COMMAND --help` prints the same. The global flags are those of [mcpe-gen](#mcpe-gen).\n")
	var write func(*cobra.Command)
	write = func(verb *cobra.Command) {
		verb.Long = fenced(verb.Long)
		var b bytes.Buffer
		if err := doc.GenMarkdown(verb, &b); err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(b.String(), "### Options inherited")
		text, _, _ = strings.Cut(text, "### SEE ALSO")
		fmt.Fprintf(&page, "\n%s\n", strings.TrimSpace(text))
		for _, below := range verb.Commands() {
			if below.IsAvailableCommand() {
				write(below)
			}
		}
	}
	write(root)
	return page.String()
}

// indented are the lines of a help text that are a list or commands.
var indented = regexp.MustCompile(`(?m)(?:^  .*\n)+`)

// fenced puts the indented lines of a help text into code blocks.
func fenced(text string) string {
	return strings.TrimSuffix(indented.ReplaceAllString(text+"\n", "```text\n$0```\n"), "\n")
}

// diagnosticsPage is what explain says of every code and rule, but for the examples.
func diagnosticsPage(t *testing.T) string {
	t.Helper()
	var page strings.Builder
	page.WriteString("# Diagnostics\n\nEvery code and rule that mcpe-gen reports. `mcpe-gen explain CODE` shows an example that gives it, and one that does not.\n")
	section := ""
	for _, id := range explainable() {
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
		fmt.Fprintf(&page, "\n### %s\n\n**%s** (%s)\n\n%s\n", e.ID, e.Title, about, wrap(e.Cause, 120))
	}
	if len(source.Codes()) < 50 {
		t.Fatalf("%d codes", len(source.Codes()))
	}
	return page.String()
}
