package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking/against"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/docs"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

const docsHelp = `Write reference pages for event files: what each event type means, its arguments and
how they filter, the payload with a valid example, delivery modes with diagrams,
deprecations, and with --since the changes.

Files are chosen as with generate: FILE arguments, or else those of mcpe.yaml.
-o writes NAME.md and NAME.html for each package to the directory, and does not follow
symbolic links out of it. --markdown and --html write one page for all files. Without
any of the three, the Markdown goes to standard output. The HTML page loads nothing from
other hosts and has light and dark colors.

--since compares with git:REF, a directory or an event file; breaking changes are
marked.`

// docsFlags holds the flags of docs.
type docsFlags struct {
	out, html, markdown, title, since string
}

func newDocs(c *command) *cobra.Command {
	var d docsFlags
	cmd := &cobra.Command{
		Use:   "docs [FILE...]",
		Short: "Write reference pages for event files, as Markdown and HTML",
		Long:  docsHelp + overwriteHelp,
		Example: `  mcpe-gen docs -o docs/events
  mcpe-gen docs incidents.yaml --html incidents.html --since git:v1.2.0
  mcpe-gen docs incidents.yaml >incidents.md`,
		ValidArgsFunction: completeEventFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.docs(cmd.Context(), args, d) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&d.out, "out", "o", "", "`dir` for one Markdown and one HTML page per package")
	flags.StringVar(&d.markdown, "markdown", "", "`file` for a Markdown page of all files")
	flags.StringVar(&d.html, "html", "", "`file` for an HTML page of all files")
	flags.StringVar(&d.title, "title", "", "`title` of the page (default: made of the package or file)")
	flags.StringVar(&d.since, "since", "", "older `version` to compare with: git:REF, a directory or an event file")
	_ = cmd.MarkFlagDirname("out")
	_ = cmd.MarkFlagFilename("markdown", "md")
	_ = cmd.MarkFlagFilename("html", "html")
	return cmd
}

func (c *command) docs(ctx context.Context, files []string, d docsFlags) error {
	sets, err := c.loadSets(files)
	if err != nil {
		return err
	}
	if d.out != "" && len(sets) > 1 && d.title != "" {
		return cli.Usagef("--title with -o needs event files or a config with one package")
	}
	var packages []docs.Package
	var found []source.Diagnostic
	for _, s := range sets {
		found = append(found, s.found...)
	}
	if err := c.reportAll(source.Sort(found), nil, exitDiagnostics); err != nil {
		return err
	}
	for _, s := range sets {
		p, err := c.withModel(s.set)
		if err != nil {
			return err
		}
		packages = append(packages, p)
	}
	changes, err := c.changesSince(ctx, files, sets, packages, d.since)
	if err != nil {
		return err
	}
	if d.out != "" {
		for i, s := range sets {
			name := pageName(s.request, s.set)
			page := docs.New(packages[i:i+1], docs.Options{Title: d.titleOf(s.set), Since: d.since, Changes: changes[i]})
			below := func(name string, text []byte) error { return c.writeFileIn(d.out, name, text) }
			if err := writePages(page, name+".md", name+".html", below); err != nil {
				return err
			}
		}
		if d.html == "" && d.markdown == "" {
			return nil
		}
	}
	page := docs.New(packages, docs.Options{Title: d.titleOf(sets[0].set), Since: d.since, Changes: slices.Concat(changes...)})
	if d.html == "" && d.markdown == "" {
		return c.Print(page.Markdown())
	}
	return writePages(page, d.markdown, d.html, c.writeFile)
}

// withModel returns a set with the model of its types. Pages do not show Go names, so the model serves only to report
// errors.
func (c *command) withModel(set *schema.Set) (docs.Package, error) {
	p, found := ir.Build(set, ir.Options{})
	found = slices.DeleteFunc(found, func(d source.Diagnostic) bool { return d.Severity != source.Error })
	if err := c.reportAll(found, nil, exitDiagnostics); err != nil {
		return docs.Package{}, err
	}
	return docs.Package{Set: set, Model: p.Describe()}, nil
}

// changesSince returns the changes of each package, followed by those of removed packages.
func (c *command) changesSince(ctx context.Context, files []string, sets []loadedPackage, packages []docs.Package, since string) ([][]docs.Change, error) {
	changes := make([][]docs.Change, len(sets))
	if since == "" {
		return changes, nil
	}
	old, found, err := against.Load(ctx, since, against.New{Files: files, Config: c.runConfig()})
	if err != nil {
		err = fmt.Errorf("--since %w", err)
	}
	if err := c.reportAll(found, err, exitDiagnostics); err != nil {
		return nil, err
	}
	none, err := c.withModel(&schema.Set{})
	if err != nil {
		return nil, err
	}
	for i := range packages {
		was := none
		for j, o := range old {
			if o.Set != nil && (len(old) == 1 && len(sets) == 1 || o.Key == against.KeyOf(c.runConfig(), sets[i].request.Place())) {
				if was, err = c.withModel(o.Set); err != nil {
					return nil, err
				}
				old[j].Set = nil
			}
		}
		changes[i] = docs.Changes(was, packages[i])
	}
	for _, o := range old {
		if o.Set != nil {
			was, err := c.withModel(o.Set)
			if err != nil {
				return nil, err
			}
			changes = append(changes, docs.Changes(was, none))
		}
	}
	return changes, nil
}

// titleOf returns the title of a page that begins with set.
func (d docsFlags) titleOf(set *schema.Set) string {
	if d.title != "" {
		return d.title
	}
	return titleOf(set)
}

// pageName returns the base name of the pages of a package.
func pageName(r gen.Request, set *schema.Set) string {
	switch {
	case r.Package != "":
		return r.Package
	case set.Files[0].Package != "":
		return set.Files[0].Package
	}
	return set.Files[0].Stem
}

func writePages(page *docs.Page, markdown, html string, write func(name string, text []byte) error) error {
	if markdown != "" {
		if err := write(markdown, page.Markdown()); err != nil {
			return err
		}
	}
	if html == "" {
		return nil
	}
	text, err := page.HTML()
	if err != nil {
		return err
	}
	return write(html, text)
}
