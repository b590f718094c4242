// Package schemadir reads event types from a directory of JSON Schema files, each of which describes the
// payload of one.
//
// Start with [Read]. References between the files become references to shared schemas.
//
// The package makes no promise of compatibility.
package schemadir

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/gen/yaml"
)

// The ways in which a file says of which event it is, beside a JSON Pointer.
const (
	ByFilename = "filename"
	ByTitle    = "title"
)

// CheckFrom refuses what is no way to name events.
func CheckFrom(from string) error {
	if from == ByFilename || from == ByTitle || strings.HasPrefix(from, "/") {
		return nil
	}
	return fmt.Errorf("%q is not a way to name events: filename, title, or a JSON Pointer into each file such as /properties/type/const", from)
}

// A file is one schema of the directory.
type file struct {
	path, name string // below the directory; made of the path
	root       *source.Node
	id         *url.URL
	shared     bool // another file refers to it
}

// reader holds the files of a directory.
type reader struct {
	files  []*file
	byPath map[string]*file
	byID   map[string]*file
	found  []source.Diagnostic
	// overrides change the files as they are read.
	overrides *schema.Overrides
}

// Read reads all .json, .yaml and .yml files below dir of the file system. From says what an event is
// called: by "filename", without extension and with dots for directories, all files but those that
// others refer to are event types; by "title", those that have one; by a JSON Pointer, those in which it
// leads to a text, a const or an enum of one value. Files that are no schemas are left out with a warning
// (MCPE511). Shown is how paths begin in diagnostics, and for the patterns of the overrides, which may be nil.
func Read(dir fs.FS, shown, from string, overrides *schema.Overrides) (importer.Document, []source.Diagnostic, error) {
	r := &reader{byPath: map[string]*file{}, byID: map[string]*file{}, overrides: overrides}
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
		for to := range r.targets(f) {
			to.shared = to.shared || to != f
		}
	}
	var out importer.Document
	names := map[string]*file{}
	for _, f := range r.files {
		name, at := r.event(f, from)
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
		if !f.shared {
			continue
		}
		n, err := r.moved(f, f.root)
		if err != nil {
			r.found = append(r.found, source.New("MCPE511", f.root.Range, "%s is left out: %v", f.path, err))
			continue
		}
		out.Schemas = append(out.Schemas, importer.Schema{Name: f.name, Node: n, At: f.root.Range})
	}
	return out, source.Sort(r.found), nil
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
	r.overrides.Apply(shown, root)
	stem := strings.TrimSuffix(strings.TrimSuffix(p, path.Ext(p)), ".schema")
	f := &file{path: p, name: importer.CleanName(stem), root: root}
	for i := 2; slices.ContainsFunc(r.files, func(g *file) bool { return g.name == f.name }); i++ {
		f.name = fmt.Sprintf("%s_%d", importer.CleanName(stem), i)
	}
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

// event names the event of a file and says where that stands; empty when the file describes none.
func (r *reader) event(f *file, from string) (string, source.Range) {
	switch from {
	case ByFilename:
		if f.shared {
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
	e.Name, e.Description = name, "The event "+name+"."
	for _, k := range []string{"description", "title"} {
		if d := f.root.Get(k); d != nil && strings.TrimSpace(d.Text) != "" {
			e.Description = d.Text
			break
		}
	}
	e.InputSchema = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	if f.shared {
		e.PayloadSchema = json.RawMessage(`{"$ref":` + string(yaml.Text("#/schemas/"+f.name).JSON()) + `}`)
		return e, nil
	}
	n, err := r.moved(f, f.root)
	if err != nil {
		return e, err
	}
	e.PayloadSchema = n.JSON()
	return e, nil
}

// resolve finds the file that a reference in f leads to, and the fragment in it.
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
	if to := r.byPath[path.Join(path.Dir(f.path), u.Path)]; to != nil && u.Scheme == "" {
		return to, fragment, nil
	}
	return nil, "", fmt.Errorf("it refers to %s, which is not in the directory", ref)
}

// targets are the files that f refers to.
func (r *reader) targets(f *file) map[*file]bool {
	out := map[*file]bool{}
	var visit func(n *source.Node)
	visit = func(n *source.Node) {
		for _, m := range n.Members {
			if m.Key == "$ref" && m.Value.Kind == source.String {
				if to, _, err := r.resolve(f, m.Value.Text); err == nil {
					out[to] = true
				}
			}
			visit(m.Value)
		}
		for _, item := range n.Items {
			visit(item)
		}
	}
	visit(f.root)
	return out
}

// named are the keywords whose members are schemas with free names.
var named = map[string]bool{"properties": true, "patternProperties": true, "$defs": true, "definitions": true, "dependentSchemas": true}

// moved copies a schema of f for the event file: references to other files lead to shared schemas. The
// $id of the file goes with it, because what it names is reached otherwise now.
func (r *reader) moved(f *file, n *source.Node) (*source.Node, error) {
	out := *n
	out.Members, out.Items = nil, nil
	for _, m := range n.Members {
		v := m.Value
		var err error
		switch {
		case n == f.root && m.Key == "$id" || m.Key == "examples" || m.Key == "example":
			continue
		case named[m.Key] && v.Kind == source.Object: // by any name, such as default
			list := yaml.Object()
			for _, inner := range v.Members {
				schema, err := r.moved(f, inner.Value)
				if err != nil {
					return nil, err
				}
				yaml.Set(list, inner.Key, schema)
			}
			v = list
		case m.Key == "$ref" && v.Kind == source.String:
			v, err = r.reference(f, v)
		case m.Key == "const" || m.Key == "enum" || m.Key == "default":
		default:
			v, err = r.moved(f, v)
		}
		if err != nil {
			return nil, err
		}
		out.Members = append(out.Members, source.Member{Key: m.Key, Value: v})
	}
	for _, item := range n.Items {
		v, err := r.moved(f, item)
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, v)
	}
	return &out, nil
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
