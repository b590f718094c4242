// Package parsed parses published schemas into nodes. It parses each shared definition only once.
package parsed

import (
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// Schemas caches parsed definitions. The zero value is empty. It is safe for concurrent use. Callers must not modify
// the nodes.
type Schemas struct{ definitions sync.Map }

// A Schema is a published schema.
type Schema struct {
	// Root contains the schema without its shared definitions.
	Root        *source.Node
	of          *Schemas
	definitions []*published.Schema
	dialect     *schematree.Dialect
}

// Of parses a schema. It returns false if the text is invalid.
func (s *Schemas) Of(shared *published.Schema) (*Schema, bool) {
	root, found := source.Parse("schema", shared.Short())
	if source.HasErrors(found) {
		return nil, false
	}
	dialect := schematree.Draft2020
	if d := root.Get("$schema"); d != nil && schematree.DialectOf(d.Text) == schematree.Draft07 {
		dialect = schematree.Draft07
	}
	return &Schema{root, s, shared.Definitions(), dialect}, true
}

// Definition parses a definition. It returns nil if the text is invalid.
func (s *Schemas) Definition(d *published.Schema) *source.Node { return s.definition(d).node }

// definition is a parsed definition with the number of JSON objects in it.
type definition struct {
	node    *source.Node
	objects int
}

func (s *Schemas) definition(d *published.Schema) definition {
	if known, ok := s.definitions.Load(d); ok {
		return known.(definition)
	}
	n, found := source.Parse("schema", d.Head)
	if source.HasErrors(found) {
		n = nil
	}
	parsed, _ := s.definitions.LoadOrStore(d, definition{n, objects(n)})
	return parsed.(definition)
}

// Target returns the schema that a keyword of n refers to, such as $ref. The target is in the schema or one of its
// definitions.
func (s *Schema) Target(n *source.Node, keyword string) (*source.Node, bool) {
	ref := n.Get(keyword)
	if ref == nil {
		return nil, false
	}
	if to, ok := schematree.Resolve(s.Root, ref.Text); ok {
		return to, true
	}
	d, rest, ok := schematree.Definition(s.definitions, s.dialect.Definitions, ref.Text)
	if !ok {
		return nil, false
	}
	if to := s.of.definition(d).node; to != nil {
		return schematree.At(to, rest)
	}
	return nil, false
}

// RefAlone reports whether the schema's dialect ignores sibling keywords of a $ref.
func (s *Schema) RefAlone(*source.Node) bool { return s.dialect.RefAlone }

// Objects returns the number of JSON objects in the schema and its definitions.
func (s *Schema) Objects() int {
	count := objects(s.Root)
	for _, d := range s.definitions {
		count += s.of.definition(d).objects
	}
	return count
}

func objects(n *source.Node) int {
	if n == nil {
		return 0
	}
	count := 0
	if n.Kind == source.Object {
		count++
	}
	for _, item := range n.Items {
		count += objects(item)
	}
	for _, m := range n.Members {
		count += objects(m.Value)
	}
	return count
}
