package asyncapi

import (
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// A converter translates a 2020-12 or draft-07 schema to AsyncAPI. AsyncAPI uses draft-07 with references relative to
// the document root.
type converter struct {
	root *source.Node
	// location is the reference to the root schema in the document.
	location string
	// draft07 reports whether the schema is already draft-07.
	draft07 bool
	// defs maps the JSON Pointers of definitions to component names.
	defs map[string]string
	// unsupported lists the keywords that AsyncAPI cannot express.
	unsupported []string
}

func isDraft07(root *source.Node) bool {
	s := root.Get("$schema")
	return s != nil && schematree.DialectOf(s.Text) == schematree.Draft07
}

// Keywords by treatment.
var (
	// dropped lists the keywords that are meaningless in the document or have a different meaning there.
	dropped = words("$schema $id $anchor $defs $comment $vocabulary contentSchema")
	// inexpressible lists the 2020-12 keywords that draft-07 cannot express.
	inexpressible = words("unevaluatedItems unevaluatedProperties minContains maxContains")
)

func words(list string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}

// holdsMap reports whether the author chooses the member names in the keyword's value.
func holdsMap(keyword string) bool {
	k, _ := schematree.Any.Keyword(keyword)
	return k.Holds == schematree.Map || k.Holds == schematree.SchemasOrNames
}

// convert returns the AsyncAPI form of the schema n.
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
		k, _ := schematree.Any.Keyword(m.Key)
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
			c.mergeDependencies(out, m)
		case inexpressible[m.Key] && !c.draft07:
			c.unsupported = append(c.unsupported, m.Key)
		case k.Holds != schematree.Nothing && !holdsMap(m.Key):
			yaml.Set(out, m.Key, source.CopySchemas(k, m.Value, c.convert))
		case holdsMap(m.Key) && m.Value.Kind == source.Object:
			yaml.Set(out, m.Key, c.each(m.Value))
		case containsRef(m.Value): // data, or an unknown keyword
			c.unsupported = append(c.unsupported, withReference(m.Key))
		default:
			yaml.Set(out, m.Key, m.Value)
		}
	}
	if ref != nil {
		// AsyncAPI ignores keywords next to $ref.
		if all := out.Member("allOf"); all != nil {
			all.Value = yaml.List(append([]*source.Node{ref}, all.Value.Items...)...)
		} else {
			yaml.Set(out, "allOf", yaml.List(ref))
		}
	}
	return out
}

// containsRef reports whether data contains a $ref member, which readers of the document would follow.
func containsRef(n *source.Node) bool {
	return slices.ContainsFunc(n.Members, func(m source.Member) bool { return m.Key == "$ref" || containsRef(m.Value) }) ||
		slices.ContainsFunc(n.Items, containsRef)
}

// withReference describes a keyword that is omitted because its value has a $ref member.
func withReference(keyword string) string { return keyword + " with a member $ref" }

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
			c.unsupported = append(c.unsupported, "a member named $ref") // the official parser treats it as a reference
			continue
		}
		yaml.Set(out, m.Key, c.convert(m.Value))
	}
	return out
}

// mergeDependencies merges dependentRequired or dependentSchemas into dependencies.
func (c *converter) mergeDependencies(out *source.Node, m source.Member) {
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

// asSchema converts either form of a dependency to a schema.
func asSchema(n *source.Node) *source.Node {
	if n.Kind == source.Array {
		return member("required", n)
	}
	return n
}

// reference returns the $ref of n relative to the document, or nil if n has none. It drops references by anchor or $id,
// because the document allows only JSON Pointers.
func (c *converter) reference(n *source.Node) *source.Node {
	ref := n.Get("$ref")
	if ref == nil {
		return nil
	}
	pointer, local := strings.CutPrefix(ref.Text, "#")
	if !local || pointer != "" && pointer[0] != '/' {
		c.unsupported = append(c.unsupported, "$ref "+ref.Text)
		return yaml.Object()
	}
	tokens := strings.SplitN(pointer, "/", 4)
	if len(tokens) >= 3 {
		if name, ok := c.defs["/"+tokens[1]+"/"+importer.Unescaped(tokens[2])]; ok {
			to := "#/components/schemas/" + name
			if len(tokens) == 4 {
				to += "/" + c.convertPointer(tokens[3])
			}
			return reference(to)
		}
	}
	return reference(c.location + c.convertPointer(pointer))
}

// convertPointer converts a JSON Pointer for draft-07: $defs becomes definitions.
func (c *converter) convertPointer(pointer string) string {
	if c.draft07 {
		return pointer
	}
	tokens := strings.Split(pointer, "/")
	for i, t := range tokens {
		if t == "$defs" && (i == 0 || !holdsMap(tokens[i-1])) {
			tokens[i] = "definitions"
		}
	}
	return strings.Join(tokens, "/")
}
