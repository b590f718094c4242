package clitest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// Block matches a fenced code block on a page. Its submatches are the language and the text.
var Block = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// Current checks that a repository file has the content want. If update is true, it writes the file instead.
func Current(t *testing.T, path, want string, update bool) {
	t.Helper()
	path = filepath.Join("..", "..", filepath.FromSlash(path))
	if update {
		if err := os.WriteFile(path, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not current: run make golden", path)
	}
}

// Reference returns cobra's documentation of all verbs on a single page, with the global flags once at the top.
func Reference(t *testing.T, root *cobra.Command) string {
	t.Helper()
	root.DisableAutoGenTag = true
	name := root.Name()
	var page strings.Builder
	fmt.Fprintf(&page, "# The command %s\n\n`%s COMMAND --help` prints the same. The global flags are those of [%s](#%s).\n", name, name, name, name)
	var write func(*cobra.Command)
	write = func(verb *cobra.Command) {
		verb.Long = fenceCommands(verb.Long)
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

// indentedLines matches the lines of a help text that form lists or show commands.
var indentedLines = regexp.MustCompile(`(?m)(?:^  .*\n)+`)

// fenceCommands wraps the indented lines of a help text in code blocks.
func fenceCommands(text string) string {
	return strings.TrimSuffix(indentedLines.ReplaceAllString(text+"\n", "```text\n$0```\n"), "\n")
}

// CommandsOfPages checks the command lines in the code blocks of the documentation. The verb and its flags must exist,
// and the number of arguments must be valid. It requires at least min command lines.
func CommandsOfPages(t *testing.T, min int, newRoot func() *cobra.Command) {
	t.Helper()
	name := newRoot().Name()
	// The command is at the beginning of a line or follows one of these prefixes.
	line := regexp.MustCompile(`(?m)^(?: *\$ | +|)(?:[A-Z_]+=\S* )*(?:until |SUB=\$\()?(?:\./bin/|go tool (?:-modfile=tools/go\.mod )?|go run \./cmd/)?` + name + ` ((?:.*\\\n)*.*)$`)
	seen := 0
	for _, page := range pagePaths(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range Block.FindAllStringSubmatch(string(text), -1) {
			if b[1] != "" && b[1] != "sh" && b[1] != "console" && b[1] != "text" {
				continue
			}
			for _, m := range line.FindAllStringSubmatch(b[2], -1) {
				if m[1] == "…" || strings.HasSuffix(m[1], "[flags]") || strings.HasSuffix(" "+m[1], " COMMAND") { // output of version, or a synopsis
					continue
				}
				seen++
				if err := Parses(newRoot(), m[1]); err != nil {
					t.Errorf("%s: %s %s: %v", page, name, m[1], err)
				}
			}
		}
	}
	if seen < min {
		t.Errorf("only %d commands were found", seen)
	}
}

// pagePaths returns the paths of the pages that show commands.
func pagePaths(t *testing.T) (all []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "skills/*/*.md"} {
		found, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		all = append(all, found...)
	}
	return all
}

// Parses parses a shell command line without running it, and returns the command's error.
func Parses(root *cobra.Command, line string) error {
	verb, rest, err := root.Find(splitCommand(strings.ReplaceAll(line, "\\\n", " ")))
	if err != nil {
		return err
	}
	verb.InitDefaultHelpFlag()
	if err := verb.ParseFlags(rest); err != nil {
		return err
	}
	asked := false
	verb.Flags().Visit(func(f *pflag.Flag) { asked = asked || f.Name == "help" || f.Name == "version" })
	if asked {
		return nil
	}
	return verb.ValidateArgs(verb.Flags().Args())
}

// splitCommand splits a command line like a shell, up to the end of the command's arguments.
func splitCommand(line string) []string {
	var all []string
	var word strings.Builder
	var quote rune
	started := false
	end := func() {
		if started {
			all = append(all, word.String())
		}
		word.Reset()
		started = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, started = r, true
		case r == ' ' || r == '\t':
			end()
		case strings.ContainsRune("|>&;)", r), r == '#' && !started:
			if r == '>' && strings.Trim(word.String(), "0123456789") == "" {
				word.Reset() // 2>
				started = false
			}
			end()
			return all
		default:
			word.WriteRune(r)
			started = true
		}
	}
	end()
	return all
}
