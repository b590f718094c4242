package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/config"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/foreign"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schemadir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
)

const importHelp = `Write an event file for existing event types.

import reads them from a live server, named by its URL or started by the command
after "--"; from a document: AsyncAPI 2 or 3, or OpenAPI 3 (webhooks,
callbacks, the schemas that Stripe marks with x-stripeEvent, and with --components
schemas by their names); or from a directory of JSON Schema files. "mcpe-gen generate" then writes a client from the
event file, as it does for your own events.

A server's schemas are kept as published: a server generated from the file would
advertise the same ones, and a generated client notices when the server changes.
Definitions that several event types have in common become shared schemas. So do
repeated objects of three or more members, enumerations of three or more values and
unions in a document. With --force, equal schemas keep their names in the overwritten
file. The import leaves out parts that an event file cannot express, with a warning
and a comment in the file.

References to other files are followed, relative to the file that has them, within
the directory of the document; --ref-root names another directory, such as one above
it. URLs are never fetched: refs in mcpe.yaml maps them to files, which may be
anywhere. Its dialect and overrides also apply.

For a directory, --event-from says how the events are named: "filename" after the
file (files that others refer to become shared schemas), "title" after its title, and
a JSON Pointer, such as /properties/type/const, after the value at that place in the
file.`

// importTimeout is the timeout for reading all event types of a server.
const importTimeout = time.Minute

// importFlags holds the flags of import.
type importFlags struct {
	target   peer.Target
	path     string
	out, pkg string
	from     string
	force    bool
	dialect  string
	refRoot  string
	// components are name patterns for OpenAPI schemas.
	components []string
}

func newImport(c *command) *cobra.Command {
	var i importFlags
	cmd := &cobra.Command{
		Use:   "import URL|FILE|DIR|-- COMMAND...",
		Short: "Write an event file from a live server or a document",
		Long:  importHelp + overwriteHelp,
		Example: `  mcpe-gen import https://mcp.example.com/ --token $TOKEN -o events/example.yaml
  mcpe-gen import -o events/local.yaml -- ./server -stdio
  mcpe-gen import asyncapi.yaml -o events/lights.yaml
  mcpe-gen import openapi.json -o events/github.yaml
  mcpe-gen import openapi.json --components '*Event' -o events/shop.yaml
  mcpe-gen import schemas --event-from /properties/type/const -o events/cloud.yaml`,
		ValidArgsFunction: completeEventFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := i.parseArguments(args, cmd.ArgsLenAtDash()); err != nil {
				return err
			}
			return c.importEvents(cmd.Context(), i)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&i.out, "out", "o", "", "`file` to write to (default: standard output)")
	flags.BoolVar(&i.force, "force", false, "overwrite an existing file")
	flags.StringVar(&i.pkg, "package", "", "`name` of the Go package that the event file asks for")
	flags.StringVar(&i.from, "event-from", "", "what names the events of a directory: filename, title or a JSON `pointer`")
	cli.CompleteWords(cmd, "event-from", schemadir.ByFilename, schemadir.ByTitle)
	flags.StringVar(&i.dialect, "dialect", "", "`dialect` of schemas that name none, or an unsupported one: "+strings.Join(schema.Dialects, " or "))
	cli.CompleteWords(cmd, "dialect", schema.Dialects...)
	flags.StringVar(&i.refRoot, "ref-root", "", "`directory` in which files may be that the document refers to (default: that of the document)")
	flags.StringArrayVar(&i.components, "components", nil, "`pattern` of names: schemas of OpenAPI's components that are event types, such as '*Event'; may be repeated")
	peer.TokenFlag(cmd, &i.target.Token)
	_ = cmd.MarkFlagFilename("out", "yaml", "yml")
	_ = cmd.MarkFlagDirname("ref-root")
	return cmd
}

// parseArguments parses the arguments. dash is the number of arguments before "--", or negative if there is no "--".
func (i *importFlags) parseArguments(args []string, dash int) error {
	if i.from != "" {
		if err := schemadir.CheckFrom(i.from); err != nil {
			return cli.Usagef("--event-from: %v", err)
		}
	}
	if i.dialect != "" && !schema.ValidDialect(i.dialect) {
		return cli.Usagef("--dialect %s: must be %s", i.dialect, strings.Join(schema.Dialects, " or "))
	}
	if dash >= 0 {
		i.target.Command = args[dash:]
		args = args[:dash]
		if len(i.target.Command) == 0 {
			return cli.Usagef("no command after --")
		}
	}
	if len(i.components) > 0 && (len(args) != 1 || peer.IsURL(args[0])) {
		return cli.Usagef("--components is for a document")
	}
	for _, p := range i.components {
		if _, err := path.Match(p, ""); err != nil {
			return cli.Usagef("--components %q is not a pattern: * stands for any characters, ? for one, [a-z] for one of these", p)
		}
	}
	if i.refRoot != "" && (len(args) != 1 || peer.IsURL(args[0])) {
		return cli.Usagef("--ref-root is for a document")
	}
	switch {
	case len(args) > 1:
		return cli.Usagef("import takes one server or document, got %d", len(args))
	case len(args) == 1 && peer.IsURL(args[0]):
		i.target.URL = args[0]
	case len(args) == 1 && len(i.target.Command) > 0:
		return cli.Usagef("import takes one server or document, got %s and a command", args[0])
	case len(args) == 1:
		i.path = args[0]
		return nil
	}
	i.target.Token = peer.TokenFor(i.target)
	if err := i.target.Check(); err != nil {
		return cli.Usagef("%v", err)
	}
	return nil
}

func (c *command) importEvents(ctx context.Context, i importFlags) error {
	if stem := strings.TrimSuffix(filepath.Base(i.out), filepath.Ext(i.out)); i.out != "" {
		if err := gen.CheckStem(i.out, stem); err != nil {
			return cli.Refuse(err)
		}
	}
	if i.out != "" {
		info, err := os.Lstat(i.out)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			return cli.Refusef("%s is a symbolic link, and import does not write through links; give the file itself to -o", i.out)
		case !i.force:
			return cli.Refusef("%s exists; give --force to overwrite it, or another -o", i.out)
		}
	}
	reading, err := c.schemaOptions()
	if err != nil {
		return err
	}
	if i.dialect != "" {
		reading.Dialect = i.dialect
	}
	doc, from, found, err := i.readEvents(ctx, reading)
	if err != nil || source.HasErrors(found) {
		return c.reportAll(found, err, exitDiagnostics)
	}
	overwritten, _ := source.ReadFile(i.out) // an absent or invalid file has no names to keep
	previous, _ := source.Parse(i.out, overwritten)
	text, more, err := importer.Write(doc, importer.Options{From: from, Package: i.pkg, Dialect: reading.Dialect, Previous: previous})
	if errors.Is(err, importer.ErrNothing) {
		err = &cli.Exit{Code: exitDiagnostics, Err: fmt.Errorf("%s: %w", from, err)}
	}
	if err := c.reportAll(append(found, more...), err, exitDiagnostics); err != nil {
		return err
	}
	if i.out == "" {
		return c.Print(text)
	}
	if err := os.MkdirAll(filepath.Dir(i.out), 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(i.out, text, 0o666); err != nil {
		return err
	}
	if c.Format == "json" {
		return c.PrintJSON(map[string]any{"file": i.out, "events": len(doc.Events)})
	}
	return c.Printf("%s written; next: mcpe-gen generate %s -o DIR\n", i.out, i.out)
}

// schemaOptions returns the options for reading schemas. They come from mcpe.yaml if it exists.
func (c *command) schemaOptions() (schema.Options, error) {
	path, found := c.config, c.config != ""
	if !found {
		path, found = config.Find(".")
	}
	if found {
		if _, err := c.loadConfig(path); err != nil {
			return schema.Options{}, err
		}
	}
	return c.runConfig().Reading(), nil
}

// readEvents reads the event types and describes their origin.
func (i importFlags) readEvents(ctx context.Context, reading schema.Options) (doc importer.Document, from string, found []source.Diagnostic, err error) {
	if i.path != "" {
		return i.readFile(reading)
	}
	ctx, cancel := context.WithTimeout(ctx, importTimeout)
	defer cancel()
	cl, err := i.target.Connect(ctx, client.Options{})
	if err != nil {
		return doc, "", nil, err
	}
	defer cl.Close()
	descriptors, err := cl.List(ctx)
	if errors.Is(err, client.ErrNoEvents) {
		return doc, "", nil, fmt.Errorf("%s is an MCP server without events", i.target)
	}
	if err != nil {
		return doc, "", nil, fmt.Errorf("listing the event types of %s: %w", i.target, err)
	}
	for _, bad := range cl.Unreadable() {
		found = append(found, source.New("MCPE501", source.InFile(i.target.String()), "event %q is left out: %s", bad.Event, plain.Text(bad.Err.Error())))
	}
	return importer.Events(toWire(descriptors)), i.target.String(), found, nil
}

// toWire converts descriptors to their wire form.
func toWire(list []client.Descriptor) []wire.Descriptor {
	ds := make([]wire.Descriptor, len(list))
	for i, d := range list {
		ds[i] = wire.Descriptor(d)
	}
	return ds
}

// readFile reads a document or a directory of schemas.
func (i importFlags) readFile(reading schema.Options) (doc importer.Document, from string, found []source.Diagnostic, err error) {
	info, err := os.Stat(i.path)
	if err != nil {
		return doc, "", nil, err
	}
	switch {
	case info.IsDir() && i.refRoot != "":
		return doc, "", nil, cli.Usagef("--ref-root is for a document, and %s is a directory", i.path)
	case info.IsDir() && len(i.components) > 0:
		return doc, "", nil, cli.Usagef("--components is for a document, and %s is a directory", i.path)
	case info.IsDir() && i.from == "":
		return doc, "", nil, cli.Usagef("%s is a directory: say with --event-from what names its events: filename, title or a JSON Pointer into each file", i.path)
	case info.IsDir():
		root, err := os.OpenRoot(i.path) // other users may have created links in it
		if err != nil {
			return doc, "", nil, err
		}
		defer root.Close()
		from = filepath.Base(filepath.Clean(i.path))
		doc, found, err = schemadir.Read(root.FS(), i.path, i.from, reading.Overrides)
		return doc, from, found, err
	case i.from != "":
		return doc, "", nil, cli.Usagef("--event-from is for a directory, and %s is a file", i.path)
	case !info.Mode().IsRegular():
		return doc, "", nil, cli.Usagef("%s is not a regular file", i.path)
	}
	data, err := os.ReadFile(i.path)
	if err != nil {
		return doc, "", nil, err
	}
	doc, found = foreign.Read(i.path, data, foreign.Options{Options: reading, RefRoot: i.refRoot, Components: i.components})
	from = filepath.Base(i.path)
	if doc.Title != "" {
		from = doc.Title + " (" + from + ")"
	}
	return doc, from, found, nil
}
