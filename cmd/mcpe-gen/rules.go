package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/lint"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
)

// rulebooks contains the verbs with rules, in the order of the list.
var rulebooks = []struct {
	verb    string
	rules   func() []rule.Rule
	example func(id string) []byte
}{
	{"lint", lint.Rules, lint.Example},
	{"breaking", breaking.Rules, breaking.Example},
}

// A ruleRow is one row of the table.
type ruleRow struct {
	Verb string `json:"verb"`
	rule.Rule
}

func newRules(c *command) *cobra.Command {
	verbs := []string{"lint", "breaking"}
	return &cobra.Command{
		Use:   "rules [lint|breaking]",
		Short: "List the rules of lint and breaking",
		Long: `List the rules of lint and breaking, each with its ID, category, severity and
requirement. "mcpe-gen explain RULE" gives the reason and an example.

With --format json the list is one JSON document on one line.`,
		Example: `  mcpe-gen rules
  mcpe-gen rules breaking
  mcpe-gen --format json rules | jq -r '.rules[] | select(.category == "WIRE") | .id'`,
		ValidArgs: verbs,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && !slices.Contains(verbs, args[0]) {
				return cli.Usagef("rules takes at most one argument: %s", strings.Join(verbs, " or "))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return c.rules(args) },
	}
}

func (c *command) rules(args []string) error {
	list := []ruleRow{}
	for _, book := range rulebooks {
		if len(args) == 0 || args[0] == book.verb {
			for _, r := range book.rules() {
				list = append(list, ruleRow{book.verb, r})
			}
		}
	}
	if c.Format == "json" {
		return c.PrintJSON(map[string]any{"rules": list})
	}
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VERB\tRULE\tCATEGORY\tSEVERITY\tPURPOSE")
	for _, l := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", l.Verb, l.ID, l.Category, l.Severity, l.Purpose)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return c.Print(b.Bytes())
}
