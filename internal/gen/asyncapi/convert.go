package asyncapi

import (
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// A converter converts a 2020-12 or draft-07 schema to AsyncAPI, which uses draft-07 with references relative to the
// document root.
type converter struct {
	root *source.Node
	// location is a reference to the location of the root schema in the document.
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
	// droppedKeywords is the set of keywords that have no meaning or a different meaning in the document.
	droppedKeywords = words("$schema $id $anchor $defs $comment $vocabulary contentSchema")
	// inexpressibleKeywords is the set of 2020-12 keywords that draft-07 cannot express.
	inexpressibleKeywords = words("unevaluatedItems unevaluatedProperties minContains maxContains")
)

func words(list string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}

// holdsMap reports whether the value of a keyword is an object with member names chosen by the author.
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
		case m.Key == "$ref" || droppedKeywords[m.Key] || m.Key == "definitions" && n == c.root:
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
		case inexpressibleKeywords[m.Key] && !c.draft07:
			c.unsupported = append(c.unsupported, m.Key)
		case k.Holds != schematree.Nothing && !holdsMap(m.Key):
			yaml.Set(out, m.Key, source.CopySchemas(k, m.Value, c.convert))
		case holdsMap(m.Key) && m.Value.Kind == source.Object:
			yaml.Set(out, m.Key, c.each(m.Value))
		case containsRef(m.Value): // data, or an unknown keyword
			c.unsupported = append(c.unsupported, refMemberNote(m.Key))
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

// containsRef reports whether plain data contains a $ref member. Readers of the document would follow it.
func containsRef(n *source.Node) bool {
	return slices.ContainsFunc(n.Members, func(m source.Member) bool { return m.Key == "$ref" || containsRef(m.Value) }) ||
		slices.ContainsFunc(n.Items, containsRef)
}

// refMemberNote returns the text that describes a keyword whose value has a $ref member. Such a keyword is omitted.
func refMemberNote(keyword string) string { return keyword + " with a member $ref" }

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

// mergeDependencies adds the members of dependentRequired or dependentSchemas to dependencies.
func (c *converter) mergeDependencies(out *source.Node, m source.Member) {
	both := out.Get("dependencies")
	if both == nil {
		both = yaml.Object()
		yaml.Set(out, "dependencies", both)
	}
	for _, d := range m.Value.Members {
		if old := both.Member(d.Key); old != nil {
			old.Value = member("allOf", yaml.List(dependencySchema(old.Value), dependencySchema(c.convert(d.Value))))
			continue
		}
		yaml.Set(both, d.Key, c.convert(d.Value))
	}
}

// dependencySchema converts a dependency, which is a list of required members or a schema, to a schema.
func dependencySchema(n *source.Node) *source.Node {
	if n.Kind == source.Array {
		return member("required", n)
	}
	return n
}

// reference converts the $ref of n to a reference within the document. If n has none, it returns nil. References to an
// anchor or $id are dropped, because the document allows only JSON Pointers.
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
			return importer.Reference(to)
		}
	}
	return importer.Reference(c.location + c.convertPointer(pointer))
}

// convertPointer adapts a JSON Pointer to draft-07 by replacing $defs with definitions.
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
