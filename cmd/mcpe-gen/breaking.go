package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking/against"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/config"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

const breakingHelp = `Compare event files with an older version and report breaking changes: arguments
that are now refused, payloads that receivers no longer understand, and changes to
the generated Go packages.

Files are chosen as with generate: FILE arguments, or else those of mcpe.yaml. The
older version is what --against names:

  git:REF         the same files at a revision: git:main, git:v1.2.0, git:HEAD~1
  git:REF:PATH    a file or directory at a revision; PATH begins at the top of the
                  repository, ./PATH in the current directory
  DIR             the same files in another directory, such as a second checkout
  FILE            one event file

A revision or a directory is read with its own mcpe.yaml, so files may have moved.

There are three categories of changes. Only WIRE counts unless mcpe.yaml or --category
names others:

  WIRE     what is published: an event type or field removed, an argument narrowed, a
           payload field that may be absent, null or of another type
  SOURCE   names and types of the generated Go packages
  STRICT   what breaks only strict receivers: a payload's enum widened, a bound
           relaxed, a field added to a closed object

Event types with "stability: experimental" may change in any way, and one that was
deprecated may go once its removeAfter has passed. What cannot be compared, such as a
changed "not", is reported as SCHEMA_INCOMPARABLE rather than passed over.

  breaking:
    categories: [WIRE, SOURCE]
    except: [DEFAULT_CHANGED]
    ignore:
      - {event: incident.created, rules: [SCHEMA_INCOMPARABLE]}

Findings go to standard output with their position in the new files, or in the old
ones for what was removed. The exit code is 5 if there are any, 3 if the older version
cannot be read, and 2 if the revision does not exist. "mcpe-gen rules breaking" lists
the rules, and "mcpe-gen explain RULE" explains one.`

// breakingFlags holds the flags of breaking.
type breakingFlags struct {
	against    string
	categories []string
}

func newBreaking(c *command) *cobra.Command {
	var o breakingFlags
	cmd := &cobra.Command{
		Use:   "breaking [FILE...] --against OLD",
		Short: "Report breaking changes in event files",
		Long:  breakingHelp,
		Example: `  mcpe-gen breaking --against git:main
  mcpe-gen breaking --against git:origin/main --category WIRE,SOURCE
  mcpe-gen breaking incidents.yaml --against git:v1.2.0:events/incidents.yaml
  mcpe-gen breaking incidents.yaml --against ../release/incidents.yaml
  mcpe-gen --format github breaking --against git:origin/$GITHUB_BASE_REF`,
		Annotations:       map[string]string{"sarif": "yes"},
		ValidArgsFunction: completeEventFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.breaking(cmd.Context(), args, o) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.against, "against", "", "the `old` version: git:REF, git:REF:PATH, a directory or a file")
	flags.StringSliceVar(&o.categories, "category", nil, "the `categories` that count, of WIRE,SOURCE,STRICT (default the config's, else WIRE)")
	cli.CompleteWords(cmd, "category", breaking.Categories...)
	return cmd
}

func (c *command) breaking(ctx context.Context, files []string, o breakingFlags) error {
	if o.against == "" {
		return cli.Usagef("breaking needs --against: git:REF, a directory or a file")
	}
	for _, category := range o.categories {
		if !slices.Contains(breaking.Categories, category) {
			return cli.Usagef("--category %s: must be of %s", category, strings.Join(breaking.Categories, ", "))
		}
	}
	sets, err := c.loadSets(files)
	if err != nil {
		return err
	}
	old, found, err := against.Load(ctx, o.against, against.New{Files: files, Config: c.runConfig()})
	if errors.Is(err, against.ErrNoGit) {
		return fmt.Errorf("--against %s: %w", o.against, err)
	}
	if err != nil {
		return fmt.Errorf("--against %w", err)
	}
	var new []breaking.Package
	for _, s := range sets {
		found = append(found, s.found...)
		key, r := "", s.request
		if len(files) == 0 {
			key = against.KeyOf(c.runConfig(), r.Place())
		}
		p := against.Package(key, r.Package, r.Types, isEmitted(r.Emit, "tools"), s.set)
		if len(files) == 0 {
			against.SetPlaces(&p, c.runConfig(), config.Package{Out: r.Out, Server: r.ServerOut, Client: r.ClientOut, Emit: r.Emit})
		}
		new = append(new, p)
	}
	if source.HasErrors(found) {
		return c.printResult(source.Sort(found), exitDiagnostics)
	}
	rules := c.runConfig().Breaking
	if len(o.categories) > 0 {
		rules.Use = o.categories
	}
	changes := breaking.Compare(old, new, breaking.Options{Rules: rules, Now: now()})
	code := exitBreaking
	if slices.ContainsFunc(changes, func(d source.Diagnostic) bool { return strings.HasPrefix(d.Code, "MCPE") }) {
		code = exitDiagnostics // some changes could not be compared
	}
	return c.printResult(source.Sort(append(found, changes...)), code)
}

// isEmitted reports whether a part is emitted. If parts is empty, all parts are emitted.
func isEmitted(parts []string, part string) bool {
	return len(parts) == 0 || slices.Contains(parts, part)
}
