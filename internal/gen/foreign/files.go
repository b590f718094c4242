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
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A collector copies referenced files into a document, so all references become local.
type collector struct {
	o Options
	// files maps paths to the files that were read. The value is nil for an unreadable file.
	files map[string]*collectedFile
	taken map[string]bool
	into  *source.Node
	// seen is the set of visited nodes. queue lists the reference targets to visit.
	seen  map[*source.Node]bool
	queue []location
	found []source.Diagnostic
}

// A collectedFile is a file that the collector has read.
type collectedFile struct {
	path string
	root *source.Node
	// fragment is the URI fragment that refers to the copy of the file in the document.
	fragment string
	// refRoot is the directory that must contain all files to which this file refers.
	refRoot string
}

// A location is a node in a file.
type location struct {
	file *collectedFile
	node *source.Node
}

// collectFiles copies the files to which the roots refer, directly or indirectly, into doc. at is the path of doc. If a
// file cannot be read, collectFiles does not change the reference and returns a warning (MCPE511).
func collectFiles(doc *source.Node, at string, roots []openapi.Root, o Options) []source.Diagnostic {
	at = filepath.Clean(at)
	main := &collectedFile{path: at, root: doc, refRoot: filepath.Dir(at)}
	if o.RefRoot != "" {
		main.refRoot = filepath.Clean(o.RefRoot)
	}
	c := &collector{o: o, files: map[string]*collectedFile{at: main}, taken: map[string]bool{}, into: yaml.Object(), seen: map[*source.Node]bool{}}
	for _, r := range roots {
		c.rewriteReferences(r.Node, main, r.Names)
	}
	for len(c.queue) > 0 {
		p := c.queue[0]
		c.queue = c.queue[1:]
		c.rewriteReferences(p.node, p.file, false)
	}
	if len(c.into.Members) > 0 {
		yaml.Set(doc, openapi.Elsewhere, c.into)
	}
	return c.found
}

// dataKeywords lists the keywords whose values are data instead of schemas.
var dataKeywords = []string{"example", "examples", "default", "const", "enum"}

// hasFreeNames reports whether the value of a key is an object with member names chosen by the author.
func hasFreeNames(key string) bool {
	k, _ := schematree.Any.Keyword(key)
	return k.Holds == schematree.Map || slices.Contains([]string{"schemas", "messages", "channels", "mapping", "callbacks", "content"}, key)
}

// isIgnored reports whether the value of a key does not affect event types. This is the case for data, third-party
// extensions, and the responses and parameters of OpenAPI operations.
func isIgnored(key string) bool {
	return slices.Contains(dataKeywords, key) || key == "responses" || key == "parameters" || strings.HasPrefix(key, "x-") && !strings.HasPrefix(key, "x-mcp-")
}

// rewriteReferences rewrites the references in n and its descendants. names reports whether the author chose the member
// names of n.
func (c *collector) rewriteReferences(n *source.Node, file *collectedFile, names bool) {
	if c.seen[n] {
		return
	}
	c.seen[n] = true
	for i, m := range n.Members {
		v := m.Value
		switch {
		case !names && isIgnored(m.Key):
		case !names && m.Key == "$ref" && v.Kind == source.String:
			n.Members[i].Value = c.localRef(v, file)
		case !names && m.Key == "discriminator" && v.Kind == source.Object:
			c.rewriteMapping(n, v.Get("mapping"), file)
		default:
			c.rewriteReferences(v, file, !names && hasFreeNames(m.Key))
		}
	}
	for _, item := range n.Items {
		c.rewriteReferences(item, file, false)
	}
}

// localRef returns a reference to the copy of a target and queues the target.
func (c *collector) localRef(ref *source.Node, from *collectedFile) *source.Node {
	name, fragment, _ := strings.Cut(ref.Text, "#")
	to, why := from, ""
	if name != "" {
		if to, why = c.referencedFile(name, from); to == nil {
			c.found = append(c.found, source.New("MCPE511", ref.Range, "the reference to %s is not followed: %s", ref.Text, why))
			return ref
		}
	}
	if n := to.root.Lookup(importer.Unescaped(fragment)); n != nil {
		c.queue = append(c.queue, location{to, n})
	}
	if name == "" && (from.fragment == "" || fragment != "" && !strings.HasPrefix(fragment, "/")) {
		return ref
	}
	n := yaml.Text("#" + to.fragment + fragment)
	n.Range = ref.Range
	return n
}

// rewriteMapping rewrites the references in the discriminator mapping of n and queues their targets.
func (c *collector) rewriteMapping(n, mapping *source.Node, file *collectedFile) {
	if mapping == nil {
		return
	}
	for i, e := range mapping.Members {
		text := e.Value
		if text.Kind != source.String {
			continue
		}
		if sub := n.Parent.Get(text.Text); sub != nil { // name of a schema next to n
			c.queue = append(c.queue, location{file, sub})
		} else if strings.ContainsAny(text.Text, "/#.") {
			mapping.Members[i].Value = c.localRef(text, file)
		}
	}
}

// referencedFile returns the file that a reference names, which it reads only once. If the reference is not followed,
// it returns the reason.
func (c *collector) referencedFile(name string, from *collectedFile) (*collectedFile, string) {
	path, within, why := c.referencedPath(name, from)
	if why != "" {
		return nil, why
	}
	if to, known := c.files[path]; known {
		if to == nil {
			return nil, "it could not be read"
		}
		return to, ""
	}
	if why := c.outsideFault(path, within); why != "" {
		return nil, why
	}
	return c.readFile(path, within)
}

// referencedPath returns the path of the file that a reference names, and the directory that must contain the file. If
// the reference does not name a file, it returns the reason.
func (c *collector) referencedPath(name string, from *collectedFile) (file, within, why string) {
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
	return filepath.Join(filepath.Dir(from.path), filepath.FromSlash(u.Path)), from.refRoot, ""
}

// outsideFault returns an error message if the file, after following symbolic links, is not in the directory within.
// Reading such a file is unsafe, because a third party wrote the reference and the content is published.
func (c *collector) outsideFault(file, within string) string {
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

// readFile reads a file and adds it to the document.
func (c *collector) readFile(file, within string) (*collectedFile, string) {
	c.files[file] = nil
	readFile := c.o.ReadFile
	if readFile == nil {
		readFile = source.ReadFile
	}
	content, err := readFile(file)
	if err != nil {
		return nil, source.Reason(err)
	}
	root, found := source.ParseForeign(file, content)
	if source.HasErrors(found) {
		c.found = append(c.found, found...)
		return nil, "it cannot be read"
	}
	c.o.Overrides.Apply(file, root)
	key := importer.UniqueName(strings.TrimSuffix(path.Base(filepath.ToSlash(file)), path.Ext(file)), "-", c.taken)
	pointer := url.URL{Fragment: wire.Pointer(openapi.Elsewhere, key)}
	to := &collectedFile{path: file, root: root, fragment: pointer.EscapedFragment(), refRoot: within}
	c.files[file] = to
	yaml.Set(c.into, key, root)
	return to, ""
}
