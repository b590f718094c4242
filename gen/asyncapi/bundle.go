package asyncapi

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/gen/yaml"
)

// unescape undoes the escapes of a URI fragment.
func unescape(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}

// A bundle makes a schema of the document stand by itself: what it refers to is copied below
// definitions, or $defs where the schema is none of draft-07.
type bundle struct {
	doc  *source.Node
	top  *source.Node
	defs string
	// names holds the definition of each schema that is referred to, in order.
	names  map[*source.Node]string
	copies []*source.Node
	taken  map[string]bool
	// inherited are the discriminators of schemas that do not list their subtypes.
	inherited []*source.Node
	err       error
}

// standalone returns the schema at n for an event file, and the discriminators of schemas that do not list their subtypes.
func standalone(doc, n *source.Node) (schema *source.Node, inherited []*source.Node, err error) {
	n, err = follow(doc, n)
	if err != nil {
		return nil, nil, err
	}
	b := &bundle{doc: doc, top: n, defs: "$defs", names: map[*source.Node]string{}, taken: map[string]bool{}}
	old := needsDraft07(n, doc, map[*source.Node]bool{})
	if old {
		b.defs = "definitions"
	}
	for _, key := range []string{"$defs", "definitions"} {
		for _, m := range members(n.Get(key)) {
			b.taken[m.Key] = true
		}
	}
	out := b.schema(n)
	if old && out.Get("$schema") == nil {
		out.Members = append([]source.Member{{Key: "$schema", Value: yaml.Text("http://json-schema.org/draft-07/schema#")}}, out.Members...)
	}
	if defs := b.definitions(); len(defs.Members) > 0 {
		if own := out.Get(b.defs); own != nil {
			own.Members = append(own.Members, defs.Members...)
		} else {
			yaml.Set(out, b.defs, defs)
		}
	}
	return out, b.inherited, b.err
}

func members(n *source.Node) []source.Member {
	if n == nil {
		return nil
	}
	return n.Members
}

// definitions writes the copies; writing one may ask for more.
func (b *bundle) definitions() *source.Node {
	defs := yaml.Object()
	for i := 0; i < len(b.copies); i++ {
		yaml.Set(defs, b.names[b.copies[i]], b.schema(b.copies[i]))
	}
	return defs
}

// needsDraft07 reports whether the schema uses a keyword that means something else in 2020-12.
func needsDraft07(n, doc *source.Node, seen map[*source.Node]bool) bool {
	if n == nil || seen[n] {
		return false
	}
	seen[n] = true
	if items := n.Get("items"); n.Get("additionalItems") != nil || items != nil && items.Kind == source.Array {
		return true
	}
	if s := n.Get("$schema"); s != nil && s.Kind == source.String {
		return strings.Contains(s.Text, "draft-07")
	}
	if ref := n.Get("$ref"); ref != nil && ref.Kind == source.String {
		if to, err := lookup(doc, ref.Text); err == nil && needsDraft07(to, doc, seen) {
			return true
		}
	}
	for _, m := range n.Members {
		if needsDraft07(m.Value, doc, seen) {
			return true
		}
	}
	for _, item := range n.Items {
		if needsDraft07(item, doc, seen) {
			return true
		}
	}
	return false
}

func (b *bundle) schema(n *source.Node) *source.Node {
	if n.Kind != source.Object {
		return n
	}
	if ref := n.Get("$ref"); ref != nil && ref.Kind == source.String {
		// In AsyncAPI nothing beside a reference counts.
		return b.reference(ref)
	}
	out := yaml.Object()
	for _, m := range n.Members {
		switch {
		case m.Key == "discriminator" && m.Value.Kind == source.String:
			// Of AsyncAPI, where names of schemas are the tags; ours are constants, which are found
			// without it.
			if n.Get("oneOf") == nil && n.Get("anyOf") == nil {
				b.inherited = append(b.inherited, m.Value)
			}
		case m.Key == "externalDocs", strings.HasPrefix(m.Key, "x-"):
		case holdsList[m.Key] && m.Value.Kind == source.Array, m.Key == "prefixItems":
			list := yaml.List()
			for _, item := range m.Value.Items {
				list.Items = append(list.Items, b.schema(item))
			}
			yaml.Set(out, m.Key, list)
		case holdsSchema[m.Key]:
			yaml.Set(out, m.Key, b.schema(m.Value))
		case (holdsMap[m.Key] || m.Key == "$defs" || m.Key == "dependentSchemas") && m.Value.Kind == source.Object:
			each := yaml.Object()
			for _, inner := range m.Value.Members {
				yaml.Set(each, inner.Key, b.schema(inner.Value))
			}
			yaml.Set(out, m.Key, each)
		default:
			yaml.Set(out, m.Key, m.Value)
		}
	}
	return out
}

// reference rewrites a $ref; its target becomes a definition.
func (b *bundle) reference(ref *source.Node) *source.Node {
	to, err := lookup(b.doc, ref.Text)
	if err != nil {
		b.err = err
		return yaml.Object()
	}
	if to == b.top {
		return reference("#")
	}
	name, known := b.names[to]
	if !known {
		last := ref.Text[strings.LastIndexByte(ref.Text, '/')+1:]
		base := componentName(strings.ReplaceAll(strings.ReplaceAll(unescape(last), "~1", "/"), "~0", "~"))
		name = base
		for i := 2; b.taken[name]; i++ {
			name = fmt.Sprintf("%s_%d", base, i)
		}
		b.names[to], b.taken[name] = name, true
		b.copies = append(b.copies, to)
	}
	return reference("#/" + b.defs + "/" + source.EscapeToken(name))
}

// lookup returns what a reference of the document names.
func lookup(doc *source.Node, ref string) (*source.Node, error) {
	pointer, local := strings.CutPrefix(ref, "#")
	if !local {
		return nil, fmt.Errorf("it refers to %s, another document, which was not read", ref)
	}
	if pointer = unescape(pointer); pointer != "" && pointer[0] != '/' {
		return nil, fmt.Errorf("it refers to %s, which is not a JSON Pointer", ref)
	}
	if n := doc.Lookup(pointer); n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("it refers to %s, which does not exist", ref)
}

// follow resolves a node that is a reference, also one to a reference.
func follow(doc, n *source.Node) (*source.Node, error) {
	for range 20 {
		ref := n.Get("$ref")
		if ref == nil || ref.Kind != source.String {
			return n, nil
		}
		to, err := lookup(doc, ref.Text)
		if err != nil {
			return nil, err
		}
		n = to
	}
	return nil, fmt.Errorf("its references lead back to themselves")
}
