package asyncapi

import (
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/gen/yaml"
)

// A converter writes a schema of 2020-12 or draft-07 as one of AsyncAPI, which are those of draft-07
// with references that start at the document.
type converter struct {
	root *source.Node
	// at is where the root will stand in the document.
	at string
	// draft07 tells that the root is one already.
	draft07 bool
	// defs finds the component of a definition by its pointer.
	defs map[string]string
	// lost are the keywords that could not be expressed.
	lost []string
}

func isDraft07(root *source.Node) bool {
	s := root.Get("$schema")
	return s != nil && strings.Contains(s.Text, "draft-07")
}

// Keywords by what they hold.
var (
	holdsSchema = words("items additionalItems additionalProperties contains propertyNames not if then else")
	holdsList   = words("allOf anyOf oneOf items")
	holdsMap    = words("properties patternProperties definitions dependencies")
	// dropped have no meaning, or another one, in the document.
	dropped = words("$schema $id $anchor $defs $comment $vocabulary contentSchema")
	// data are keywords whose values are no schemas.
	data = words("const enum default examples")
	// inexpressible are keywords of 2020-12 that constrain what draft-07 cannot.
	inexpressible = words("unevaluatedItems unevaluatedProperties minContains maxContains")
)

func words(list string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}

// convert returns the schema n for the document.
func (c *converter) convert(n *source.Node) *source.Node {
	if n.Kind != source.Object {
		return n
	}
	ref := c.reference(n)
	if ref != nil && (c.draft07 || len(n.Members) == 1) {
		return ref
	}
	out := yaml.Object()
	for _, m := range n.Members {
		switch {
		case m.Key == "$defs" && n != c.root && !c.draft07 && m.Value.Kind == source.Object:
			yaml.Set(out, "definitions", c.each(m.Value))
		case m.Key == "$ref" || dropped[m.Key] || m.Key == "definitions" && n == c.root:
		case m.Key == "discriminator" && m.Value.Kind == source.Object:
			if p := m.Value.Get("propertyName"); p != nil {
				yaml.Set(out, "discriminator", yaml.Text(p.Text))
			}
		case m.Key == "prefixItems" && !c.draft07:
			yaml.Set(out, "items", c.list(m.Value))
			if rest := n.Get("items"); rest != nil {
				yaml.Set(out, "additionalItems", c.convert(rest))
			}
		case m.Key == "items" && !c.draft07 && n.Get("prefixItems") != nil:
		case (m.Key == "dependentRequired" || m.Key == "dependentSchemas") && !c.draft07:
			c.depend(out, m)
		case data[m.Key] && looksReferring(m.Value):
			c.lost = append(c.lost, m.Key+" with a member $ref")
		case inexpressible[m.Key] && !c.draft07:
			c.lost = append(c.lost, m.Key)
		case holdsList[m.Key] && m.Value.Kind == source.Array:
			yaml.Set(out, m.Key, c.list(m.Value))
		case holdsSchema[m.Key]:
			yaml.Set(out, m.Key, c.convert(m.Value))
		case holdsMap[m.Key] && m.Value.Kind == source.Object:
			yaml.Set(out, m.Key, c.each(m.Value))
		default:
			yaml.Set(out, m.Key, m.Value)
		}
	}
	if ref != nil {
		// Beside $ref nothing counts there.
		if all := out.Member("allOf"); all != nil {
			all.Value = yaml.List(append([]*source.Node{ref}, all.Value.Items...)...)
		} else {
			yaml.Set(out, "allOf", yaml.List(ref))
		}
	}
	return out
}

// looksReferring reports whether data holds a member $ref, which a reader of the document would
// follow.
func looksReferring(n *source.Node) bool {
	return slices.ContainsFunc(n.Members, func(m source.Member) bool { return m.Key == "$ref" || looksReferring(m.Value) }) ||
		slices.ContainsFunc(n.Items, looksReferring)
}

func (c *converter) list(n *source.Node) *source.Node {
	out := yaml.List()
	for _, item := range n.Items {
		out.Items = append(out.Items, c.convert(item))
	}
	return out
}

func (c *converter) each(n *source.Node) *source.Node {
	out := yaml.Object()
	for _, m := range n.Members {
		if m.Key == "$ref" {
			c.lost = append(c.lost, "a member named $ref") // the official parser takes it for a reference
			continue
		}
		yaml.Set(out, m.Key, c.convert(m.Value))
	}
	return out
}

// depend writes dependentRequired and dependentSchemas as the one keyword that they were made of.
func (c *converter) depend(out *source.Node, m source.Member) {
	both := out.Get("dependencies")
	if both == nil {
		both = yaml.Object()
		yaml.Set(out, "dependencies", both)
	}
	for _, d := range m.Value.Members {
		if old := both.Member(d.Key); old != nil {
			old.Value = member("allOf", yaml.List(asSchema(old.Value), asSchema(c.convert(d.Value))))
			continue
		}
		yaml.Set(both, d.Key, c.convert(d.Value))
	}
}

// asSchema is a dependency as a schema, whichever of its forms it has.
func asSchema(n *source.Node) *source.Node {
	if n.Kind == source.Array {
		return member("required", n)
	}
	return n
}

// reference is the $ref of n as the document resolves it; nil when n has none. One by anchor or by
// $id is lost: the document knows pointers only.
func (c *converter) reference(n *source.Node) *source.Node {
	ref := n.Get("$ref")
	if ref == nil {
		return nil
	}
	pointer, local := strings.CutPrefix(ref.Text, "#")
	if !local || pointer != "" && pointer[0] != '/' {
		c.lost = append(c.lost, "$ref "+ref.Text)
		return yaml.Object()
	}
	tokens := strings.SplitN(pointer, "/", 4)
	if len(tokens) >= 3 {
		if name, ok := c.defs["/"+tokens[1]+"/"+unescape(tokens[2])]; ok {
			to := "#/components/schemas/" + name
			if len(tokens) == 4 {
				to += "/" + c.moved(tokens[3])
			}
			return reference(to)
		}
	}
	return reference(c.at + c.moved(pointer))
}

// moved is a pointer below a definition, or the root, as it leads through the converted schema: $defs
// inside it become definitions.
func (c *converter) moved(pointer string) string {
	if c.draft07 {
		return pointer
	}
	tokens := strings.Split(pointer, "/")
	for i, t := range tokens {
		if t == "$defs" && (i == 0 || !holdsMap[tokens[i-1]] && tokens[i-1] != "$defs") {
			tokens[i] = "definitions"
		}
	}
	return strings.Join(tokens, "/")
}
