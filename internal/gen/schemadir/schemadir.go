// Package schemadir reads event types from a directory of JSON Schema files. Each file describes a payload.
//
// Start with [Read]. References between the files become references to shared schemas.
package schemadir

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// Values of the parameter from of [Read], besides a JSON Pointer.
const (
	ByFilename = "filename"
	ByTitle    = "title"
)

// CheckFrom returns an error unless from is a valid way to name events for [Read].
func CheckFrom(from string) error {
	if from == ByFilename || from == ByTitle || strings.HasPrefix(from, "/") {
		return nil
	}
	return fmt.Errorf("%q is not a way to name events: filename, title, or a JSON Pointer into each file such as /properties/type/const", from)
}

// A file is a schema file in the directory.
type file struct {
	path, name   string // below the directory; derived from the path
	root         *source.Node
	id           *url.URL
	isReferenced bool // another file refers to it
}

// reader reads the files of a directory.
type reader struct {
	files  []*file
	byPath map[string]*file
	byID   map[string]*file
	names  map[string]bool
	found  []source.Diagnostic
	// others maps the path of each file that is not a schema to the file's format.
	others map[string]string
	// overrides contains changes to apply to files when they are read.
	overrides *schema.Overrides
}

// Read reads all .json, .yaml and .yml files in dir and its subdirectories. from specifies the event types and their
// names. If it is "filename", every file to which no other file refers is an event type. Its name is the path of the
// file without extension, with dots instead of slashes. If it is "title", every file with a title is an event type. If
// it is a JSON Pointer, every file in which it refers to a string, a const or an enum with one value is an event type.
// Read skips files that are not schemas, with a warning (MCPE511). shown is the path prefix in diagnostics and for
// matching overrides. overrides may be nil.
func Read(dir fs.FS, shown, from string, overrides *schema.Overrides) (importer.Document, []source.Diagnostic, error) {
	r := &reader{byPath: map[string]*file{}, byID: map[string]*file{}, names: map[string]bool{}, others: map[string]string{}, overrides: overrides}
	err := fs.WalkDir(dir, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains([]string{".json", ".yaml", ".yml"}, path.Ext(p)) {
			return err
		}
		shown := filepath.Join(shown, filepath.FromSlash(p))
		if info, err := fs.Stat(dir, p); !d.Type().IsRegular() && (err != nil || !info.Mode().IsRegular()) {
			r.found = append(r.found, source.New("MCPE511", source.InFile(shown), "%s is left out: it is neither a regular file nor a symbolic link to one in the directory", p))
			return nil
		}
		data, err := fs.ReadFile(dir, p)
		if err == nil {
			r.add(p, shown, data)
		}
		return err
	})
	if err != nil {
		return importer.Document{}, nil, err
	}
	for _, f := range r.files {
		for to := range r.referencedFiles(f) {
			to.isReferenced = to.isReferenced || to != f
		}
	}
	r.removeData()
	var out importer.Document
	names := map[string]*file{}
	for _, f := range r.files {
		name, at := r.eventName(f, from)
		if name == "" {
			continue
		}
		if first := names[name]; first != nil {
			r.found = append(r.found, source.New("MCPE511", at, "%s is left out: %s describes the event %q too", f.path, first.path, name))
			continue
		}
		names[name] = f
		if e, err := r.payload(f, name, at); err != nil {
			r.found = append(r.found, source.New("MCPE511", at, "%s is left out: %v", f.path, err))
		} else {
			out.Events = append(out.Events, e)
		}
	}
	for _, f := range r.files {
		if !f.isReferenced {
			continue
		}
		if err := r.localize(f, f.root); err != nil {
			r.found = append(r.found, source.New("MCPE511", f.root.Range, "%s is left out: %v", f.path, err))
			continue
		}
		out.Schemas = append(out.Schemas, importer.Schema{Name: f.name, Node: f.root, At: f.root.Range})
	}
	return out, source.Sort(r.found), nil
}

// removeData removes data files. A data file is not a schema, or its $schema is another file of the directory, and no
// other file refers to it.
func (r *reader) removeData() {
	r.files = slices.DeleteFunc(r.files, func(f *file) bool {
		why := ""
		if to := r.obeyed(f); to != nil {
			why = "it is data, since its $schema is " + to.path + ", a schema and not a dialect of JSON Schema"
		} else if !isSchema(f.root) {
			why = "it is not a JSON Schema, since it has no keyword such as type or properties"
		}
		data := !f.isReferenced && why != ""
		if data {
			r.found = append(r.found, source.New("MCPE511", f.root.Range, "%s is left out: %s", f.path, why).
				WithHint("if it is one, name its dialect: \"$schema\": \"https://json-schema.org/draft/2020-12/schema\""))
		}
		return data
	})
}

// obeyed returns the schema file that the $schema of f names, or nil. A metaschema defines a dialect for schemas.
func (r *reader) obeyed(f *file) *file {
	to, _, err := r.resolve(f, f.root.Word("$schema"))
	if err != nil || to == f || to.root.Get("$vocabulary") != nil {
		return nil
	}
	return to
}

func (r *reader) add(p, shown string, data []byte) {
	root, found := source.ParseForeign(shown, data)
	switch {
	case source.HasErrors(found):
		r.found = append(r.found, source.New("MCPE511", found[0].Range, "%s is left out: %s", p, found[0].Message))
		return
	case root.Kind != source.Object:
		r.found = append(r.found, source.New("MCPE511", root.Range, "%s is left out: it is not a JSON Schema but a JSON %s", p, root.Kind))
		return
	}
	if what, hint := otherFormat(root, shown); what != "" {
		r.others[p] = what
		r.found = append(r.found, source.New("MCPE511", root.Range, "%s is left out: it is %s", p, what).WithHint("%s", hint))
		return
	}
	r.overrides.Apply(shown, root)
	stem := strings.TrimSuffix(strings.TrimSuffix(p, path.Ext(p)), ".schema")
	f := &file{path: p, name: importer.UniqueName(importer.CleanName(stem), "_", r.names), root: root}
	if id := root.Get("$id"); id != nil {
		if u, err := url.Parse(id.Text); err == nil {
			f.id = u
			u.Fragment = ""
			r.byID[u.String()] = f
		}
	}
	r.byPath[p] = f
	r.files = append(r.files, f)
}

// eventName returns the event name of a file and its range, or "" if the file does not describe an event.
func (r *reader) eventName(f *file, from string) (string, source.Range) {
	switch from {
	case ByFilename:
		if f.isReferenced {
			return "", source.Range{}
		}
		return f.name, f.root.Range
	case ByTitle:
		if t := f.root.Get("title"); t != nil && t.Kind == source.String {
			return importer.CleanName(t.Text), t.Range
		}
		return "", source.Range{}
	}
	n := f.root.Lookup(from)
	if n != nil && n.Kind == source.Object {
		if e := n.Get("enum"); e != nil && len(e.Items) == 1 {
			n = e.Items[0]
		} else {
			n = n.Get("const")
		}
	} else if n != nil && n.Kind == source.Array && len(n.Items) == 1 {
		n = n.Items[0]
	}
	if n == nil || n.Kind != source.String {
		return "", source.Range{}
	}
	return importer.CleanName(n.Text), n.Range
}

func (r *reader) payload(f *file, name string, at source.Range) (importer.Event, error) {
	e := importer.Event{At: at}
	e.Name, e.Description = name, cmp.Or(importer.Description([]string{"description", "title"}, f.root), "The event "+name+".")
	e.InputSchema = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	if f.isReferenced {
		e.PayloadSchema = importer.Reference("#/schemas/" + f.name).JSON()
		return e, nil
	}
	if err := r.localize(f, f.root); err != nil {
		return e, err
	}
	e.PayloadSchema = f.root.JSON()
	return e, nil
}

// resolve returns the file and the fragment of a reference in f.
func (r *reader) resolve(f *file, ref string) (to *file, fragment string, err error) {
	u, err := url.Parse(ref)
	if err != nil {
		return nil, "", fmt.Errorf("it refers to %q, which is not a URL", ref)
	}
	fragment = u.Fragment
	u.Fragment, u.RawFragment = "", ""
	if u.String() == "" {
		return f, fragment, nil
	}
	if f.id != nil {
		if to := r.byID[f.id.ResolveReference(u).String()]; to != nil {
			return to, fragment, nil
		}
	}
	if to := r.byID[u.String()]; to != nil {
		return to, fragment, nil
	}
	if at := path.Join(path.Dir(f.path), u.Path); u.Scheme == "" {
		if to := r.byPath[at]; to != nil {
			return to, fragment, nil
		}
		if what := r.others[at]; what != "" {
			return nil, "", fmt.Errorf("it refers to %s, which is %s; move the schema to a file of JSON Schema", ref, what)
		}
	}
	return nil, "", fmt.Errorf("it refers to %s, which is not in the directory", ref)
}

// referencedFiles returns the files that f refers to.
func (r *reader) referencedFiles(f *file) map[*file]bool {
	out := map[*file]bool{}
	importer.EachReference(f.root, func(ref *source.Node) {
		if to, _, err := r.resolve(f, ref.Text); err == nil {
			out[to] = true
		}
	})
	return out
}

// localize changes a schema in f for use in an event file. References to other files become references to shared
// schemas. localize removes the $id, because references no longer use it, and examples.
func (r *reader) localize(f *file, n *source.Node) (err error) {
	n.Members = slices.DeleteFunc(n.Members, func(m source.Member) bool {
		return n == f.root && m.Key == "$id" || m.Key == "examples" || m.Key == "example"
	})
	if ref := n.Member("$ref"); ref != nil && ref.Value.Kind == source.String {
		if ref.Value, err = r.reference(f, ref.Value); err != nil {
			return err
		}
	}
	schematree.Each(schematree.Any, n, func(_, _ string, inner *source.Node) {
		if err == nil {
			err = r.localize(f, inner)
		}
	})
	return err
}

func (r *reader) reference(f *file, ref *source.Node) (*source.Node, error) {
	to, fragment, err := r.resolve(f, ref.Text)
	if err != nil {
		return nil, err
	}
	if to == f {
		if fragment == "" {
			return yaml.Text("#"), nil
		}
		return yaml.Text("#" + (&url.URL{Fragment: fragment}).EscapedFragment()), nil
	}
	if fragment != "" && !strings.HasPrefix(fragment, "/") {
		return nil, fmt.Errorf("it refers to %s, an anchor in another file", ref.Text)
	}
	return yaml.Text("#/schemas/" + to.name + (&url.URL{Fragment: fragment}).EscapedFragment()), nil
}
