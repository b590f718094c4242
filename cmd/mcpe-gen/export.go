package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/asyncapi"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

const exportHelp = `Write an AsyncAPI 3.0 document for event files.

Files are chosen as with generate: FILE arguments, or else those of mcpe.yaml, all
of them in one document. Each event type becomes a channel with one message, which
the application sends. What AsyncAPI cannot express, such as subscription arguments
and delivery modes, goes into the channel's x-mcp-event and the document's
x-mcp-package. "mcpe-gen import" turns the document back into one event file with
the same types, schemas, package and comments.

The document is YAML, or JSON when the file's name ends in .json.`

// exportFlags holds the flags of export.
type exportFlags struct {
	out string
	asyncapi.Options
}

func newExport(c *command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Describe event files in another format",
		Long:  "Describe event files in another format: asyncapi.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usagef("export knows asyncapi, not %q", args[0])
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error { return cli.Usagef("export to what? It knows asyncapi") },
	}
	cmd.AddCommand(newExportAsyncAPI(c))
	return cmd
}

func newExportAsyncAPI(c *command) *cobra.Command {
	var e exportFlags
	cmd := &cobra.Command{
		Use:   "asyncapi [FILE...]",
		Short: "Write an AsyncAPI 3.0 document",
		Long:  exportHelp + overwriteHelp,
		Example: `  mcpe-gen export asyncapi -o asyncapi.yaml
  mcpe-gen export asyncapi incidents.yaml --title Incidents --api-version 2.1.0 -o asyncapi.json`,
		ValidArgsFunction: completeEventFiles,
		RunE:              func(_ *cobra.Command, args []string) error { return c.exportAsyncAPI(args, e) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&e.out, "out", "o", "", "`file` to write to (default: standard output)")
	flags.StringVar(&e.Title, "title", "", "`title` of the document (default: made of the package or file)")
	flags.StringVar(&e.Version, "api-version", "1.0.0", "`version` of the described API")
	_ = cmd.MarkFlagFilename("out", "yaml", "yml", "json")
	return cmd
}

func (c *command) exportAsyncAPI(files []string, e exportFlags) error {
	set, err := c.loadSet(files)
	if err != nil {
		return err
	}
	if e.Title == "" {
		e.Title = titleOf(set)
	}
	e.ReadFile = os.ReadFile
	doc, found := asyncapi.Export(set, e.Options)
	if err := c.reportAll(found, nil, exitDiagnostics); err != nil {
		return err
	}
	text, err := asyncapi.Text(doc, strings.EqualFold(filepath.Ext(e.out), ".json"))
	if err != nil {
		return err
	}
	if e.out == "" {
		return c.Print(text)
	}
	return c.writeFile(e.out, text)
}

// loadSet reads a verb's event files into one set.
func (c *command) loadSet(files []string) (*schema.Set, error) {
	requests, err := c.requests(files, outputFlags{})
	if err != nil {
		return nil, err
	}
	var all []string
	for _, r := range requests {
		for _, f := range r.Files {
			if !slices.ContainsFunc(all, func(g string) bool { return absolute(g) == absolute(f) }) {
				all = append(all, f)
			}
		}
	}
	set, found := c.load(all)
	found = append(found, c.unused(found)...)
	if err := c.reportAll(source.Sort(found), nil, exitDiagnostics); err != nil {
		return nil, err
	}
	return set, nil
}

// titleOf returns a title for a set, which is its package name or the name of its first file.
func titleOf(set *schema.Set) string {
	if len(set.Files) == 0 {
		return "Events"
	}
	name := set.Files[0].Package
	if name == "" {
		name = set.Files[0].Stem
	}
	if name == "" {
		return "Events"
	}
	return strings.ToUpper(name[:1]) + name[1:] + " events"
}

// overwriteHelp describes when verbs overwrite a file.
const overwriteHelp = `

export and docs overwrite their output files, which they can always write again. import
overwrites an event file, which is yours to edit, only with --force.`

// writeFile writes a file that contains only the result of a verb.
func (c *command) writeFile(path string, text []byte) error {
	if old, err := os.ReadFile(path); err == nil && string(old) == string(text) {
		return c.Printf("%s is current\n", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o666); err != nil {
		return err
	}
	return c.Printf("%s written\n", path)
}

// writeFileIn writes a file in dir whose name the verb chose. The user did not specify that name, so writeFileIn does
// not follow a symbolic link out of dir.
func (c *command) writeFileIn(dir, name string, text []byte) error {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if old, err := root.ReadFile(name); err == nil && string(old) == string(text) {
		return c.Printf("%s is current\n", path)
	}
	if err := root.WriteFile(name, text, 0o666); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return c.Printf("%s written\n", path)
}
