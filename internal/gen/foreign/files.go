package foreign

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/openapi"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// A collector copies the files that a document refers to into the document, so that every reference is local.
type collector struct {
	o Options
	// files holds the files by path; nil for an unreadable file.
	files map[string]*collected
	taken map[string]bool
	into  *source.Node
	// seen marks the objects whose references were rewritten, and waiting holds the targets to visit.
	seen    map[*source.Node]bool
	waiting []place
	found   []source.Diagnostic
}

// A collected is a file that was read.
type collected struct {
	path string
	root *source.Node
	// fragment is the fragment for references to the file within the document.
	fragment string
	// within is the directory that the file's references may not leave.
	within string
}

// A place is a node of a file.
type place struct {
	file *collected
	node *source.Node
}

// collect follows the references of the document at a path to other files, from the given parts of it. A reference to a
// file that cannot be read gives a warning (MCPE511) and stays.
func collect(doc *source.Node, at string, roots []openapi.Root, o Options) []source.Diagnostic {
	at = filepath.Clean(at)
	main := &collected{path: at, root: doc, within: filepath.Dir(at)}
	if o.RefRoot != "" {
		main.within = filepath.Clean(o.RefRoot)
	}
	c := &collector{o: o, files: map[string]*collected{at: main}, taken: map[string]bool{}, into: yaml.Object(), seen: map[*source.Node]bool{}}
	for _, r := range roots {
		c.visit(r.Node, main, r.Names)
	}
	for len(c.waiting) > 0 {
		p := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.visit(p.node, p.file, false)
	}
	if len(c.into.Members) > 0 {
		yaml.Set(doc, openapi.Elsewhere, c.into)
	}
	return c.found
}

// data lists the keywords whose values are data, not schemas.
var data = []string{"example", "examples", "default", "const", "enum"}

// named reports whether the author chose the member names in a key's value.
func named(key string) bool {
	k, _ := schematree.Any.Keyword(key)
	return k.Holds == schematree.Map || slices.Contains([]string{"schemas", "messages", "channels", "mapping", "callbacks", "content"}, key)
}

// ignored reports whether the value of a key never becomes part of an event type: data, third-party extensions, and
// the members of an OpenAPI operation other than its body.
func ignored(key string) bool {
	return slices.Contains(data, key) || key == "responses" || key == "parameters" || strings.HasPrefix(key, "x-") && !strings.HasPrefix(key, "x-mcp-")
}

// visit rewrites the references below n in a file. names reports whether the author chose the member names of n.
func (c *collector) visit(n *source.Node, file *collected, names bool) {
	if c.seen[n] {
		return
	}
	c.seen[n] = true
	for i, m := range n.Members {
		v := m.Value
		switch {
		case !names && ignored(m.Key):
		case !names && m.Key == "$ref" && v.Kind == source.String:
			n.Members[i].Value = c.moved(v, file)
		case !names && m.Key == "discriminator" && v.Kind == source.Object:
			c.mapping(n, v.Get("mapping"), file)
		default:
			c.visit(v, file, !names && named(m.Key))
		}
	}
	for _, item := range n.Items {
		c.visit(item, file, false)
	}
}

// moved returns the rewritten reference.
func (c *collector) moved(ref *source.Node, from *collected) *source.Node {
	name, fragment, _ := strings.Cut(ref.Text, "#")
	to, why := from, ""
	if name != "" {
		if to, why = c.file(name, from); to == nil {
			c.found = append(c.found, source.New("MCPE511", ref.Range, "the reference to %s is not followed: %s", ref.Text, why))
			return ref
		}
	}
	if n := to.root.Lookup(importer.Unescaped(fragment)); n != nil {
		c.waiting = append(c.waiting, place{to, n})
	}
	if name == "" && (from.fragment == "" || fragment != "" && !strings.HasPrefix(fragment, "/")) {
		return ref
	}
	n := yaml.Text("#" + to.fragment + fragment)
	n.Range = ref.Range
	return n
}

// mapping rewrites the mapping of the discriminator of n, and visits the schemas in it.
func (c *collector) mapping(n, mapping *source.Node, file *collected) {
	if mapping == nil {
		return
	}
	for i, e := range mapping.Members {
		text := e.Value
		if text.Kind != source.String {
			continue
		}
		if sub := n.Parent.Get(text.Text); sub != nil { // name of a schema next to n
			c.waiting = append(c.waiting, place{file, sub})
		} else if strings.ContainsAny(text.Text, "/#.") {
			mapping.Members[i].Value = c.moved(text, file)
		}
	}
}

// file is the file that a reference names, read once, or why it is not followed.
func (c *collector) file(name string, from *collected) (*collected, string) {
	path, within, why := c.path(name, from)
	if why != "" {
		return nil, why
	}
	if to, known := c.files[path]; known {
		if to == nil {
			return nil, "it could not be read"
		}
		return to, ""
	}
	if why := c.outside(path, within); why != "" {
		return nil, why
	}
	return c.read(path, within)
}

// path returns the file that a reference names and the directory that it has to be in, or why it names no file.
func (c *collector) path(name string, from *collected) (file, within, why string) {
	u, err := url.Parse(name)
	if err != nil {
		return "", "", "it is not a URL"
	}
	if u.Scheme != "" && len(u.Scheme) > 1 || u.Host != "" {
		if file, ok := schema.Mapped(c.o.Refs, u); ok {
			return filepath.Clean(file), filepath.Dir(file), "" // the configuration allows it
		}
		return "", "", "nothing is fetched from the network; refs in mcpe.yaml can name a file for it"
	}
	return filepath.Join(filepath.Dir(from.path), filepath.FromSlash(u.Path)), from.within, ""
}

// outside says why a file may not be read: it is not in the directory, or is a link out of it. Others wrote the
// reference, and the content of the file would be published.
func (c *collector) outside(file, within string) string {
	dir, path := within, file
	for _, p := range []*string{&dir, &path} {
		if abs, err := filepath.Abs(*p); err == nil {
			*p = abs
		}
		if real, err := filepath.EvalSymlinks(*p); err == nil && c.o.ReadFile == nil {
			*p = real
		}
	}
	if rel, err := filepath.Rel(dir, path); err != nil || !filepath.IsLocal(rel) {
		return fmt.Sprintf("the file is not in %s; --ref-root names a directory whose files may be read", within)
	}
	return ""
}

// read takes a file in.
func (c *collector) read(file, within string) (*collected, string) {
	c.files[file] = nil
	readFile := c.o.ReadFile
	if readFile == nil {
		readFile = source.ReadFile
	}
	content, err := readFile(file)
	if err != nil {
		return nil, schema.Reason(err)
	}
	root, found := source.ParseForeign(file, content)
	if source.HasErrors(found) {
		c.found = append(c.found, found...)
		return nil, "it cannot be read"
	}
	c.o.Overrides.Apply(file, root)
	stem := strings.TrimSuffix(path.Base(filepath.ToSlash(file)), path.Ext(file))
	key := stem
	for i := 2; c.taken[key]; i++ {
		key = fmt.Sprintf("%s-%d", stem, i)
	}
	c.taken[key] = true
	pointer := url.URL{Fragment: "/" + openapi.Elsewhere + "/" + source.EscapeToken(key)}
	to := &collected{path: file, root: root, fragment: pointer.EscapedFragment(), within: within}
	c.files[file] = to
	yaml.Set(c.into, key, root)
	return to, ""
}
