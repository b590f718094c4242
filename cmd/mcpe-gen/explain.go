package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/tools/txtar"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
)

// An explanation describes a code or a rule.
type explanation struct {
	ID       string          `json:"id"`
	Title    string          `json:"title"`
	Severity source.Severity `json:"severity"`
	// Verb and Category are set only for rules.
	Verb     string `json:"verb,omitempty"`
	Category string `json:"category,omitempty"`
	// Cause is one paragraph.
	Cause string `json:"cause"`
	// Examples are files with labels.
	Examples []example `json:"examples"`
}

// An example is one file.
type example struct {
	Label string `json:"label"`
	File  string `json:"file"`
	Text  string `json:"text"`
}

func newExplain(c *command) *cobra.Command {
	return &cobra.Command{
		Use:   "explain CODE",
		Short: "Explain a diagnostic or a rule",
		Long: `Explain a diagnostic such as MCPE141, or a rule of lint or breaking: its cause, an
example that triggers it, and a corrected one.`,
		Example: `  mcpe-gen explain MCPE141
  mcpe-gen explain INPUT_OPEN
  mcpe-gen --format json explain FIELD_REMOVED`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return explainableIDs(), cobra.ShellCompDirectiveNoFileComp
		},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("explain takes one argument: a code such as MCPE141, or a rule")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return c.explain(args[0]) },
	}
}

func (c *command) explain(id string) error {
	e, ok := explain(strings.ToUpper(id))
	if !ok {
		if near := suggest.Nearest(strings.ToUpper(id), explainableIDs()); near != "" {
			return cli.Usagef("%q is not a code or rule; did you mean %s?", id, near)
		}
		return cli.Usagef("%q is not a code or rule; codes are MCPE and three digits, and \"mcpe-gen rules\" lists the rules", id)
	}
	if c.Format == "json" {
		return c.PrintJSON(e)
	}
	var b bytes.Buffer
	about := e.Severity.String()
	if e.Verb != "" {
		about = fmt.Sprintf("%s rule, %s, %s", e.Verb, e.Category, about)
	}
	fmt.Fprintf(&b, "%s: %s (%s)\n\n%s\n", e.ID, e.Title, about, wrapText(e.Cause, 80))
	for _, x := range e.Examples {
		fmt.Fprintf(&b, "\n%s\n\n%s", x.Label, indent(x.Text))
	}
	return c.Print(b.Bytes())
}

// explain returns the explanation of a code or a rule.
func explain(id string) (explanation, bool) {
	if code, ok := source.Lookup(id); ok {
		e := explanation{ID: id, Title: code.Title, Severity: code.Severity, Cause: code.Explanation}
		e.Examples = examplesIn(source.Example(id), map[string]string{"wrong": "What gives it", "right": "What does not"})
		return e, true
	}
	for _, book := range rulebooks {
		for _, r := range book.rules() {
			if r.ID != id {
				continue
			}
			archive := book.example(id)
			e := explanation{
				ID: id, Title: strings.TrimSuffix(r.Purpose, "."), Severity: r.Severity, Verb: book.verb, Category: r.Category,
				Cause: strings.Join(strings.Fields(string(txtar.Parse(archive).Comment)), " "),
			}
			e.Examples = examplesIn(archive, map[string]string{
				"bad.yaml": "What gives it", "good.yaml": "What does not", "old.yaml": "The old version", "new.yaml": "A new version that breaks it",
			})
			return e, true
		}
	}
	return explanation{}, false
}

// examplesIn reads the examples in a txtar archive. The keys of labels are the names of files or their directories.
func examplesIn(archive []byte, labels map[string]string) []example {
	list := []example{}
	for _, f := range txtar.Parse(archive).Files {
		top, name, inDir := strings.Cut(f.Name, "/")
		label := labels[top]
		if !inDir {
			name = "events.yaml"
		}
		if inDir {
			label += fmt.Sprintf(" (%s)", name)
		}
		list = append(list, example{Label: label + ":", File: name, Text: string(f.Data)})
	}
	return list
}

// sarifDescription returns the SARIF description of a code or a rule.
func sarifDescription(id string) (source.Code, bool) {
	e, ok := explain(id)
	return source.Code{ID: e.ID, Title: e.Title, Severity: e.Severity, Explanation: e.Cause}, ok
}

// explainableIDs returns the IDs of all codes and rules.
func explainableIDs() []string {
	var ids []string
	for _, c := range source.Codes() {
		ids = append(ids, c.ID)
	}
	for _, book := range rulebooks {
		for _, r := range book.rules() {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// wrapText breaks a paragraph into lines of at most width characters.
func wrapText(text string, width int) string {
	var b strings.Builder
	line := 0
	for i, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case line+1+n > width:
			b.WriteByte('\n')
			line = 0
		default:
			b.WriteByte(' ')
			line++
		}
		b.WriteString(word)
		line += n
	}
	return b.String()
}

func indent(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = "    " + line
		}
	}
	return strings.Join(lines, "\n") + "\n"
}
