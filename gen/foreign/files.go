package foreign

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/openapi"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/gen/yaml"
)

// A collector puts the files that a document refers to into the document itself, so that every reference in it is
// local.
type collector struct {
	o schema.Options
	// files are what was read, by path, each with the pointer at which it stands; nil for what cannot be read.
	files map[string]*collected
	taken map[string]bool
	into  *source.Node
	found []source.Diagnostic
}

type collected struct{ pointer string }

// collect follows the references of the document at a path to other files. What cannot be read is told (MCPE511), and
// stays a reference to elsewhere.
func collect(doc *source.Node, at string, o schema.Options) []source.Diagnostic {
	c := &collector{o: o, files: map[string]*collected{filepath.Clean(at): {}}, taken: map[string]bool{}, into: yaml.Object()}
	c.visit(doc, filepath.Clean(at), "", false)
	if len(c.into.Members) > 0 {
		yaml.Set(doc, openapi.Elsewhere, c.into)
	}
	return c.found
}

// data are the keywords whose values are no schemas, in which a $ref is nothing but a member.
var data = []string{"example", "examples", "default", "const", "enum"}

// named are the keywords whose members have names of the author's own.
var named = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "schemas", "messages", "channels", "mapping"}

// visit rewrites the references below n, which stands in the file at a path, itself at a pointer of the document.
// Names tells that the members of n are names.
func (c *collector) visit(n *source.Node, at, pointer string, names bool) {
	for i, m := range n.Members {
		v := m.Value
		switch {
		case !names && slices.Contains(data, m.Key):
		case !names && m.Key == "$ref" && v.Kind == source.String:
			n.Members[i].Value = c.moved(v, at, pointer)
		case !names && m.Key == "discriminator" && v.Get("mapping") != nil:
			for j, e := range v.Get("mapping").Members {
				if text := e.Value; text.Kind == source.String && strings.ContainsAny(text.Text, "/#.") {
					v.Get("mapping").Members[j].Value = c.moved(text, at, pointer)
				}
			}
		default:
			c.visit(v, at, pointer, !names && slices.Contains(named, m.Key))
		}
	}
	for _, item := range n.Items {
		c.visit(item, at, pointer, false)
	}
}

// moved is a reference as it is to be within the document.
func (c *collector) moved(ref *source.Node, at, pointer string) *source.Node {
	name, fragment, _ := strings.Cut(ref.Text, "#")
	if name == "" {
		if pointer == "" || fragment != "" && !strings.HasPrefix(fragment, "/") {
			return ref
		}
		return within(ref, pointer+fragment)
	}
	file, why := c.path(name, at)
	if why == "" {
		var to *collected
		if to, why = c.read(file); to != nil {
			return within(ref, to.pointer+fragment)
		}
	}
	c.found = append(c.found, source.New("MCPE511", ref.Range, "the reference to %s is not followed: %s", ref.Text, why))
	return ref
}

// within is a reference into the document itself, where another one stands.
func within(ref *source.Node, pointer string) *source.Node {
	n := yaml.Text("#" + pointer)
	n.Range = ref.Range
	return n
}

// path is the file that a reference names, or why there is none.
func (c *collector) path(name, at string) (file, why string) {
	u, err := url.Parse(name)
	if err != nil {
		return "", "it is not a URL"
	}
	if u.Scheme != "" && len(u.Scheme) > 1 || u.Host != "" {
		if file, ok := schema.Mapped(c.o.Refs, u); ok {
			return file, ""
		}
		return "", "nothing is fetched from the network; refs in mcpe.yaml can name a file for it"
	}
	return filepath.Join(filepath.Dir(at), filepath.FromSlash(u.Path)), ""
}

// read takes a file in once.
func (c *collector) read(file string) (*collected, string) {
	if to, known := c.files[file]; known {
		if to == nil {
			return nil, "it could not be read"
		}
		return to, ""
	}
	c.files[file] = nil
	content, err := c.o.ReadFile(file)
	if err != nil {
		return nil, schema.Reason(err)
	}
	root, found := source.Parse(file, content)
	if source.HasErrors(found) {
		c.found = append(c.found, found...)
		return nil, "it cannot be read"
	}
	c.o.Overrides.Apply(file, root)
	key := strings.TrimSuffix(path.Base(filepath.ToSlash(file)), path.Ext(file))
	for i := 2; c.taken[key]; i++ {
		key = fmt.Sprintf("%s-%d", strings.TrimSuffix(path.Base(filepath.ToSlash(file)), path.Ext(file)), i)
	}
	c.taken[key] = true
	to := &collected{pointer: "/" + openapi.Elsewhere + "/" + source.EscapeToken(key)}
	c.files[file] = to
	yaml.Set(c.into, key, root)
	c.visit(root, file, to.pointer, false)
	return to, ""
}
