package lint

import (
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

func schemaUnused(p *pass) {
	if len(p.Events) == 0 {
		return // a library of schemas for other files
	}
	used := p.referencedSchemas()
	for _, e := range p.Schemas {
		if !used[e.Node] {
			p.addFinding(e.NameRange, nil, "remove it, or refer to it by $ref: '#/schemas/"+e.Name+"'", "nothing refers to schema %s", e.Name)
		}
	}
}

// referencedSchemas returns the shared schemas that other schemas refer to.
func (p *pass) referencedSchemas() map[*source.Node]bool {
	used := map[*source.Node]bool{}
	for _, f := range p.files {
		for _, s := range f.sites {
			for _, to := range p.referencedEntries(s.node) {
				if to != enclosingEntry(s.node) {
					used[to] = true
				}
			}
		}
	}
	return used
}

// referencedEntries returns the entries that a schema's references lead to.
func (p *pass) referencedEntries(n *source.Node) []*source.Node {
	var out []*source.Node
	if n.Get("$ref") != nil {
		if t, d := p.set.Resolve(n); d == nil {
			out = append(out, enclosingEntry(t.Node))
		}
	}
	if mapping := n.Get("discriminator").Get("mapping"); mapping != nil {
		for _, m := range mapping.Members {
			if t, d := p.set.ResolveText(n, m.Value); d == nil {
				out = append(out, enclosingEntry(t.Node))
			}
		}
	}
	return out
}

// enclosingEntry returns the entry of schemas that contains n, or otherwise the top-level schema.
func enclosingEntry(n *source.Node) *source.Node {
	for at := n; at.Parent != nil; at = at.Parent {
		if at.Parent.Parent != nil && at.Parent.Parent.Parent == nil {
			if key, _ := at.Parent.Key(); key == "schemas" {
				return at
			}
		}
	}
	return n
}
