package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/lint"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

const lintHelp = `Check event files for what is valid but regretted later: inconsistent names, arguments
without descriptions, payloads larger than an agent wants to read.

Files are chosen as with generate: FILE arguments, or else those of mcpe.yaml.
Findings go to standard output. The exit code is 3 if there is an error or, with
--strict, a warning; notes do not count.

"mcpe-gen rules lint" lists the rules, and "mcpe-gen explain RULE" explains one.
mcpe.yaml selects them:

  lint:
    use: [STANDARD]                   # MINIMAL, STANDARD (default), STRICT, or rules
    except: [ARGUMENT_UNMATCHED]      # rules that do not count
    severity: {TIME_FORMAT: error}    # error, warning or note
    ignore:                           # places where rules do not count
      - {path: events/legacy, rules: [EVENT_NAME_STYLE]}
      - {event: 'internal.*'}

A category includes the smaller ones. In an event file, a comment with a reason turns a
rule off for one place, on the same line or alone on the line above:

  body: {type: string}  # mcpe:ignore PAYLOAD_FREE_TEXT the text is what is wanted`

func newLint(c *command) *cobra.Command {
	return &cobra.Command{
		Use:   "lint [FILE...]",
		Short: "Check event files against named rules",
		Long:  lintHelp,
		Example: `  mcpe-gen lint
  mcpe-gen lint incidents.yaml
  mcpe-gen --strict lint                       # warnings count too
  mcpe-gen --format github lint                # annotations in a pull request
  mcpe-gen --format sarif lint > lint.sarif    # for code scanning`,
		Annotations:       map[string]string{"sarif": "yes"},
		ValidArgsFunction: completeEventFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.lint(cmd.Context(), args) },
	}
}

func (c *command) lint(_ context.Context, files []string) error {
	sets, err := c.loadSets(files)
	if err != nil {
		return err
	}
	var all []source.Diagnostic
	for _, s := range sets {
		all = append(all, s.found...)
		if !source.HasErrors(s.found) {
			all = append(all, lint.Check(s.set, lint.Options{Rules: c.runConfig().Lint, Now: now()})...)
		}
	}
	return c.printResult(source.Sort(all), exitDiagnostics)
}
