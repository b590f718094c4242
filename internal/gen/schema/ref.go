package schema

import (
	"cmp"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// schemePattern matches the start of an absolute URI. It does not match a single letter, which is a Windows drive.
var schemePattern = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]+:|//)`)

// Resolve returns the target of the $ref in the schema object at. It always succeeds in a set that was loaded without
// errors.
func (s *Set) Resolve(at *source.Node) (Target, *source.Diagnostic) {
	p, ref := s.places[at], at.Get("$ref")
	if p == nil || ref == nil || ref.Kind != source.String {
		d := source.New("MCPE140", at.Range, "there is no $ref in a schema here")
		return Target{}, &d
	}
	if !p.resolved {
		p.resolved = true
		p.target, p.fault = s.resolveOrSuggest(p, ref)
	}
	return p.target, p.fault
}

// ResolveText returns the target of the reference text, as if it were a $ref in the schema object at. Findings are
// reported at text.
func (s *Set) ResolveText(at, text *source.Node) (Target, *source.Diagnostic) {
	p := s.places[at]
	if p == nil || text.Kind != source.String {
		d := source.New("MCPE140", at.Range, "this place cannot have a reference to a schema")
		return Target{}, &d
	}
	return s.resolveOrSuggest(p, text)
}

// resolveOrSuggest resolves a reference. If resolution fails, the finding suggests a similar schema.
func (s *Set) resolveOrSuggest(p *place, ref *source.Node) (Target, *source.Diagnostic) {
	t, d := s.resolve(p, ref)
	if d == nil || strings.HasPrefix(d.Hint, "did you mean") {
		return t, d
	}
	if near := s.nearRef(p, ref.Text); near != "" {
		hinted := d.WithHint("did you mean %q?", near)
		d = &hinted
	}
	return t, d
}

// nearRef returns the valid reference that an author probably meant by ref, which cannot be resolved. If it does not
// find one, it returns "". It considers shared schemas and definitions with an equal or similar name.
func (s *Set) nearRef(p *place, ref string) string {
	path, fragment, _ := strings.Cut(ref, "#")
	file := p.root.file
	switch {
	case !strings.Contains(path, "."): // a name, or a pointer without #
	case schemePattern.MatchString(path):
		return ""
	default:
		name, _, d := s.referencedFile(p, &source.Node{Kind: source.String, Text: ref}, path)
		if d != nil || s.files[absPath(name)] == nil || s.files[absPath(name)].file == nil {
			return ""
		}
		file = s.files[absPath(name)].file
	}
	word := strings.TrimPrefix(cmp.Or(fragment, path), "/")
	word = word[strings.LastIndexByte(word, '/')+1:]
	known := map[string]string{} // references by name
	var names []string
	add := func(name, ref string) {
		if known[name] == "" {
			known[name] = ref
			names = append(names, name)
		}
	}
	prefix := ""
	if file != p.root.file {
		prefix = path
	}
	if !file.Document {
		for _, e := range file.Schemas {
			add(e.Name, prefix+"#/schemas/"+e.Name)
		}
	}
	if file == p.root.file {
		for _, key := range []string{"$defs", "definitions"} {
			if defs := p.root.node.Get(key); defs != nil && defs.Kind == source.Object {
				for _, m := range defs.Members {
					add(m.Key, "#"+wire.Pointer(key, m.Key))
				}
			}
		}
	}
	if known[word] == "" {
		word = suggest.Nearest(word, names)
	}
	return known[word]
}

func (s *Set) resolve(p *place, ref *source.Node) (Target, *source.Diagnostic) {
	fail := func(d source.Diagnostic) (Target, *source.Diagnostic) { return Target{}, &d }
	path, fragment, ok := schematree.Cut(ref.Text)
	if !ok {
		return fail(source.New("MCPE140", ref.Range, "$ref %q has a bad escape", ref.Text))
	}
	if path == "" {
		if fragment == "/schemas" || strings.HasPrefix(fragment, "/schemas/") {
			return s.resolveInFile(p.root.file, fragment, ref)
		}
		return local(s.resolveInResource(p.resource, fragment, ref))
	}
	if u, err := url.Parse(path); err == nil {
		if res := p.root.ids[withoutFragment(p.resource.base.ResolveReference(u))]; res != nil {
			return local(s.resolveInResource(res, fragment, ref))
		}
	}
	name, _, d := s.referencedFile(p, ref, path)
	if d != nil {
		return Target{}, d
	}
	o := s.files[absPath(name)]
	switch {
	case o == nil:
		return fail(source.New("MCPE141", ref.Range, "$ref %q: the file was not read", ref.Text))
	case o.fault != "":
		d := source.New("MCPE141", ref.Range, "$ref %q: %s", ref.Text, o.fault).WithHint("paths are relative to the directory of this file")
		if u := p.resource.absoluteURL(path); u != "" {
			d = d.WithHint("by the $id around it this is %s; map that in mcpe.yaml: refs: {%q: PATH}", u, u)
		}
		return fail(d)
	case o.isInvalid:
		return fail(source.New("MCPE141", ref.Range, "$ref %q: %s is not valid YAML", ref.Text, o.file.Path))
	case o.file.Document:
		return s.resolveInResource(s.places[o.file.Root].resource, fragment, ref)
	case !strings.HasPrefix(fragment, "/schemas/"):
		return fail(source.New("MCPE140", ref.Range, "$ref %q names no schema of the other file", ref.Text).
			WithHint("write %s#/schemas/NAME", path))
	}
	return s.resolveInFile(o.file, fragment, ref)
}

func local(t Target, d *source.Diagnostic) (Target, *source.Diagnostic) {
	t.isLocal = true
	return t, d
}

// A mapping maps URLs with a prefix to a path.
type mapping struct{ prefix, path string }

func mappings(refs map[string]string) []mapping {
	var all []mapping
	for prefix, path := range refs {
		all = append(all, mapping{prefix, path})
	}
	slices.SortFunc(all, func(a, b mapping) int {
		return cmp.Or(cmp.Compare(len(b.prefix), len(a.prefix)), cmp.Compare(a.prefix, b.prefix))
	})
	return all
}

// Mapped returns the path to which refs, as in [Options], maps a URL. If no prefix matches, it returns false.
func Mapped(refs map[string]string, u *url.URL) (string, bool) { return fileFor(mappings(refs), u) }

func fileFor(refs []mapping, u *url.URL) (string, bool) {
	text := withoutFragment(u)
	for _, m := range refs {
		rest, ok := strings.CutPrefix(text, m.prefix)
		switch {
		case !ok || !u.IsAbs():
		case strings.HasSuffix(m.prefix, "/"):
			if rest, err := url.PathUnescape(rest); err == nil && filepath.IsLocal(filepath.FromSlash(rest)) {
				return filepath.Join(m.path, filepath.FromSlash(rest)), true
			}
		case rest == "":
			return m.path, true
		}
	}
	return "", false
}

// referencedFile returns the path of the file that a reference names. If a URL is mapped to the file, it also returns
// the URL.
func (s *Set) referencedFile(p *place, ref *source.Node, path string) (string, *url.URL, *source.Diagnostic) {
	fail := func(d source.Diagnostic) (string, *url.URL, *source.Diagnostic) { return "", nil, &d }
	if u, err := url.Parse(path); err == nil {
		u = p.resource.base.ResolveReference(u)
		if file, ok := fileFor(s.refs, u); ok {
			return file, u, nil
		}
	}
	name, err := url.PathUnescape(path)
	switch {
	case schemePattern.MatchString(path) || p.root.base != nil:
		return fail(source.New("MCPE142", ref.Range, "$ref %q is remote; only files are read", ref.Text).
			WithHint("copy the schema into a file and map it in mcpe.yaml: refs: {%q: PATH}", cmp.Or(p.resource.absoluteURL(path), path)))
	case err != nil:
		return fail(source.New("MCPE140", ref.Range, "$ref %q has a bad escape", ref.Text))
	case (filepath.IsAbs(name) || strings.HasPrefix(name, "/")) && p.resource.absoluteURL(path) != "":
		u := p.resource.absoluteURL(path)
		return fail(source.New("MCPE142", ref.Range, "$ref %q is remote: by the $id around it, it is %s", ref.Text, u).
			WithHint("copy the schema into a file and map it in mcpe.yaml: refs: {%q: PATH}", u))
	case filepath.IsAbs(name) || strings.HasPrefix(name, "/"):
		return fail(source.New("MCPE140", ref.Range, "$ref %q is an absolute path", ref.Text).
			WithHint("write the path relative to this file"))
	}
	return filepath.Join(filepath.Dir(p.root.file.Path), filepath.FromSlash(name)), nil, nil
}

// absoluteURL resolves the path of a reference relative to the resource. If the result is not an absolute URL, it
// returns "".
func (r *resource) absoluteURL(path string) string {
	u, err := url.Parse(path)
	if err != nil {
		return ""
	}
	if u = r.base.ResolveReference(u); !u.IsAbs() || u.Scheme == "file" {
		return ""
	}
	return withoutFragment(u)
}

// absPath returns the absolute path of a file, which identifies the file in a set.
func absPath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return filepath.Clean(path)
}

// openReferenced opens the file that a reference names. Its schemas are then indexed.
func (l *loader) openReferenced(r *root, n, ref *source.Node) {
	path, _, ok := schematree.Cut(ref.Text)
	if path == "" || !ok {
		return
	}
	if u, err := url.Parse(path); err == nil {
		// A nested $id is not a file name.
		if base := l.set.places[n].resource.base; base.IsAbs() && r.ids[withoutFragment(base.ResolveReference(u))] != nil {
			return
		}
	}
	if name, base, d := l.set.referencedFile(l.set.places[n], ref, path); d == nil {
		l.openFile(name, false, base, r)
	}
}

// resolveInFile resolves the fragment /schemas/NAME, optionally followed by a pointer into that schema.
func (s *Set) resolveInFile(f *File, fragment string, ref *source.Node) (Target, *source.Diagnostic) {
	tokens, ok := wire.SplitPointer(fragment)
	if !ok || len(tokens) < 2 {
		d := source.New("MCPE140", ref.Range, "$ref %q names no schema", ref.Text).WithHint("write #/schemas/NAME")
		return Target{}, &d
	}
	e := f.named[tokens[1]]
	if e == nil {
		d := source.New("MCPE141", ref.Range, "$ref %q: %s has no schema %q", ref.Text, f.Path, tokens[1])
		var names []string
		for _, e := range f.Schemas {
			names = append(names, e.Name)
		}
		if near := suggest.Nearest(tokens[1], names); near != "" {
			d = d.WithHint("did you mean %q?", near)
		}
		return Target{}, &d
	}
	if len(tokens) == 2 {
		return Target{Node: e.Node}, nil
	}
	return s.schemaAt(e.Node.Lookup(wire.Pointer(tokens[2:]...)), ref)
}

// resolveInResource resolves a pointer or an anchor within a schema resource.
func (s *Set) resolveInResource(res *resource, fragment string, ref *source.Node) (Target, *source.Diagnostic) {
	if fragment == "" || fragment[0] == '/' {
		return s.schemaAt(res.node.Lookup(fragment), ref)
	}
	n := res.anchors[fragment]
	if n == nil && res.dynamic[fragment] {
		d := source.New("MCPE141", ref.Range, "$ref %q leads to a $dynamicAnchor, which is not supported", ref.Text).
			WithHint("write $anchor: %s there", fragment)
		return Target{}, &d
	}
	if n == nil {
		d := source.New("MCPE141", ref.Range, "$ref %q: there is no anchor %q in this schema", ref.Text, fragment).
			WithHint("a schema of this file is #/schemas/NAME")
		return Target{}, &d
	}
	return s.schemaAt(n, ref)
}

func (s *Set) schemaAt(n *source.Node, ref *source.Node) (Target, *source.Diagnostic) {
	var d source.Diagnostic
	switch {
	case n == nil:
		d = source.New("MCPE141", ref.Range, "$ref %q points at nothing", ref.Text)
	case s.places[n] == nil:
		hint := "put the schema under schemas: or $defs"
		if format, _ := Foreign(documentOf(n)); format != "" {
			hint = "it is in a document of " + format + ": mcpe-gen import makes an event file of that document"
		}
		d = source.New("MCPE143", ref.Range, "$ref %q does not point at a schema", ref.Text).
			WithRelated(n.Range, "it points here").WithHint("%s", hint)
	default:
		return Target{Node: n}, nil
	}
	return Target{}, &d
}

// documentOf returns the root of the file that contains n.
func documentOf(n *source.Node) *source.Node {
	for n.Parent != nil {
		n = n.Parent
	}
	return n
}

// checkRefs reports references that cannot be resolved.
func (l *loader) checkRefs() {
	for _, r := range l.roots {
		for _, n := range r.refs {
			t, d := l.set.Resolve(n)
			if d != nil {
				l.fail(r, *d)
				continue
			}
			if to := l.set.places[t.Node].root; to.dialect != r.dialect && to.node.Kind == source.Object {
				l.fail(r, source.New("MCPE144", n.Get("$ref").Range, "$ref leads from a %s schema to a %s schema", r.dialect.Name, to.dialect.Name).
					WithRelated(to.node.Range, "the other schema").WithHint("a published schema has one dialect: give both the same $schema, or the file dialect: %s", to.dialect.Name))
			}
		}
	}
}

// checkMappings reports references in discriminators that cannot be resolved.
func (l *loader) checkMappings() {
	for _, r := range l.roots {
		for _, m := range r.mappings {
			if _, d := l.set.ResolveText(m.at, m.text); d != nil {
				l.fail(r, *d)
			}
		}
	}
}

// checkLoops reports references that lead back to themselves while applying to the same value. Validation against such
// a schema would never terminate.
func (l *loader) checkLoops() {
	for _, r := range l.roots {
		for _, n := range r.refs {
			l.findLoops(n)
		}
	}
}

const (
	unseen int8 = iota
	onPath
	done
)

// findLoops performs a depth-first search from n through all schemas that apply to the same value.
func (l *loader) findLoops(n *source.Node) {
	p := l.set.places[n]
	if p == nil || p.state != unseen {
		return
	}
	p.state = onPath
	if ref := n.Get("$ref"); ref != nil {
		if t, d := l.set.Resolve(n); d == nil {
			if l.set.places[t.Node].state == onPath {
				l.fail(p.root, source.New("MCPE145", ref.Range, "$ref %q leads back to itself", ref.Text).
					WithHint("recursion must pass through a property or an element"))
			}
			l.findLoops(t.Node)
		}
	}
	if n.Get("$ref") == nil || !p.root.dialect.RefAlone {
		schematree.Each(p.root.dialect, n, func(keyword, _ string, s *source.Node) {
			if k, _ := p.root.dialect.Keyword(keyword); k.InPlace {
				l.findLoops(s)
			}
		})
	}
	p.state = done
}
