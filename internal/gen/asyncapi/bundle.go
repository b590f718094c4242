package asyncapi

import (
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A bundle makes a schema independent of its document. It copies referenced schemas to $defs, or to definitions in
// draft-07.
type bundle struct {
	doc  *source.Node
	top  *source.Node
	defs string
	// names maps each referenced schema to its definition name.
	names  map[*source.Node]string
	copies []*source.Node
	taken  map[string]bool
	// inherited lists the discriminators of schemas without a list of their subtypes.
	inherited []*source.Node
	err       error
}

// standaloneCopy returns an independent copy of the schema n for an event file. It also returns the discriminators of
// schemas without a list of their subtypes.
func standaloneCopy(doc, n *source.Node) (schema *source.Node, inherited []*source.Node, err error) {
	n, err = importer.Follow(doc, n)
	if err != nil {
		return nil, nil, err
	}
	b := &bundle{doc: doc, top: n, defs: "$defs", names: map[*source.Node]string{}, taken: map[string]bool{}}
	old := needsDraft07(n, doc, map[*source.Node]bool{})
	if old {
		b.defs = "definitions"
	}
	for _, key := range schematree.DefinitionKeywords {
		for _, m := range n.MembersAt(key) {
			b.taken[m.Key] = true
		}
	}
	out := b.schema(n)
	if old && out.Get("$schema") == nil {
		out.Members = append([]source.Member{{Key: "$schema", Value: yaml.Text(schematree.Draft07URI)}}, out.Members...)
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

// definitions returns an object with all copied schemas. Converting a copy can add further copies.
func (b *bundle) definitions() *source.Node {
	defs := yaml.Object()
	for i := 0; i < len(b.copies); i++ {
		yaml.Set(defs, b.names[b.copies[i]], b.schema(b.copies[i]))
	}
	return defs
}

// needsDraft07 reports whether a schema or a referenced schema uses a keyword with a different meaning in 2020-12.
func needsDraft07(n, doc *source.Node, seen map[*source.Node]bool) bool {
	if n == nil || seen[n] {
		return false
	}
	seen[n] = true
	if items := n.Get("items"); n.Get("additionalItems") != nil || items != nil && items.Kind == source.Array {
		return true
	}
	if s := n.Get("$schema"); s != nil && s.Kind == source.String {
		return isDraft07(n)
	}
	if ref := n.Get("$ref"); ref != nil && ref.Kind == source.String {
		if _, to, err := importer.Resolve(doc, ref.Text); err == nil && needsDraft07(to, doc, seen) {
			return true
		}
	}
	needs := false
	schematree.Each(schematree.Any, n, func(_, _ string, inner *source.Node) { needs = needs || needsDraft07(inner, doc, seen) })
	return needs
}

func (b *bundle) schema(n *source.Node) *source.Node {
	if n.Kind != source.Object {
		return n
	}
	if ref := n.Get("$ref"); ref != nil && ref.Kind == source.String {
		// AsyncAPI ignores keywords next to a reference.
		return b.rewriteReference(ref)
	}
	out := yaml.Object()
	for _, m := range n.Members {
		switch {
		case m.Key == "discriminator" && m.Value.Kind == source.String:
			// In AsyncAPI, schema names are the tags. In event files, constants are the tags, and need no
			// discriminator.
			if n.Get("oneOf") == nil && n.Get("anyOf") == nil {
				b.inherited = append(b.inherited, m.Value)
			}
		case m.Key == "externalDocs", strings.HasPrefix(m.Key, "x-"):
		default:
			k, _ := schematree.Any.Keyword(m.Key)
			yaml.Set(out, m.Key, source.CopySchemas(k, m.Value, b.schema))
		}
	}
	return out
}

// rewriteReference rewrites a $ref and adds its target to the definitions.
func (b *bundle) rewriteReference(ref *source.Node) *source.Node {
	_, to, err := importer.Resolve(b.doc, ref.Text)
	if err != nil {
		b.err = err
		return yaml.Object()
	}
	if to == b.top {
		return importer.Reference("#")
	}
	name, known := b.names[to]
	if !known {
		name = importer.UniqueName(componentName(schematree.LastToken(ref.Text)), "_", b.taken)
		b.names[to] = name
		b.copies = append(b.copies, to)
	}
	return importer.Reference("#" + wire.Pointer(b.defs, name))
}
