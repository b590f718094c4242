package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/gen/breaking/against"
	"github.com/mcpe-gen/mcpe-gen/gen/docs"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
)

const docsHelp = `Write reference pages for event files: what each event type tells, the arguments of
a subscription and how they filter, the payload with a valid example, delivery
modes with diagrams, deprecations, and with --since what has changed.

Files are chosen as with generate: FILE arguments, or else those of mcpe.yaml.
With -o each package gets NAME.md and NAME.html in the directory. --markdown and
--html write one page of all files; with none of the three the Markdown goes to
standard output. The HTML page asks for nothing from elsewhere and has light and
dark colors.

--since compares with git:REF, a directory or an event file; breaking changes are
marked.`

// docPages is what the verb was asked for.
type docPages struct {
	out, html, markdown, title, since string
}

func newDocs(c *command) *cobra.Command {
	var d docPages
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
	flags.StringVarP(&d.out, "out", "o", "", "`dir` for one Markdown and one HTML page a package")
	flags.StringVar(&d.markdown, "markdown", "", "`file` for a Markdown page of all files")
	flags.StringVar(&d.html, "html", "", "`file` for an HTML page of all files")
	flags.StringVar(&d.title, "title", "", "`title` of the page (default: made of the package or file)")
	flags.StringVar(&d.since, "since", "", "older `version` to compare with: git:REF, a directory or an event file")
	_ = cmd.MarkFlagDirname("out")
	_ = cmd.MarkFlagFilename("markdown", "md")
	_ = cmd.MarkFlagFilename("html", "html")
	return cmd
}

func (c *command) docs(ctx context.Context, files []string, d docPages) error {
	requests, err := c.requests(files, outputs{})
	if err != nil {
		return err
	}
	if d.out != "" {
		if len(requests) > 1 && d.title != "" {
			return usagef("--title with -o needs event files or a config with one package")
		}
		for _, r := range requests {
			if err := c.docsOf(ctx, r, d); err != nil {
				return err
			}
		}
		if c.partial = len(files) > 0; !c.partial {
			if err := c.judge(c.unused(), nil, exitDiagnostics); err != nil {
				return err
			}
		}
		if d.html == "" && d.markdown == "" {
			return nil
		}
	}
	set, err := c.load(ctx, files)
	if err != nil {
		return err
	}
	page, err := c.page(ctx, set, d)
	if err != nil {
		return err
	}
	if d.html == "" && d.markdown == "" {
		return c.print(page.Markdown())
	}
	return c.writePages(page, d.markdown, d.html)
}

// docsOf writes the pages of one package into the directory.
func (c *command) docsOf(ctx context.Context, r gen.Request, d docPages) error {
	set, err := c.load(ctx, r.Files)
	if err != nil {
		return err
	}
	page, err := c.page(ctx, set, d)
	if err != nil {
		return err
	}
	name := pageName(r, set)
	return c.writePages(page, filepath.Join(d.out, name+".md"), filepath.Join(d.out, name+".html"))
}

// pageName is the base name of a package's pages.
func pageName(r gen.Request, set *schema.Set) string {
	switch {
	case r.Package != "":
		return r.Package
	case set.Files[0].Package != "":
		return set.Files[0].Package
	}
	return set.Files[0].Stem
}

func (c *command) page(ctx context.Context, set *schema.Set, d docPages) (*docs.Page, error) {
	o := docs.Options{Title: d.title, Since: d.since}
	if o.Title == "" {
		o.Title = titleOf(set)
	}
	if d.since != "" {
		old, err := c.before(ctx, set, d.since)
		if err != nil {
			return nil, err
		}
		o.Changes = docs.Changes(old, set)
	}
	return docs.New(set, o), nil
}

// before is the set as it was in the older version.
func (c *command) before(ctx context.Context, set *schema.Set, since string) (*schema.Set, error) {
	var given []string
	for _, f := range set.Files {
		if f.Given {
			given = append(given, f.Path)
		}
	}
	packages, found, err := against.Load(ctx, since, against.New{Files: given, Refs: c.settings().Refs, Dialect: c.settings().Dialect, Overrides: c.settings().Overrides})
	if err != nil {
		err = fmt.Errorf("--since %w", err)
		if _, wrong := errors.AsType[*against.RevisionError](err); wrong {
			err = refuse(err)
		}
	}
	if err := c.judge(found, err, exitDiagnostics); err != nil {
		return nil, err
	}
	if len(packages) == 0 {
		return &schema.Set{}, nil
	}
	return packages[0].Set, nil
}

func (c *command) writePages(page *docs.Page, markdown, html string) error {
	if markdown != "" {
		if err := c.write(markdown, page.Markdown()); err != nil {
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
	return c.write(html, text)
}
