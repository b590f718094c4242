// Package parsed turns published schemas into nodes. A definition that several schemas share is turned once.
package parsed

import (
	"net/url"
	"strings"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
)

// Schemas have the definitions that were met. The zero value has none. It is safe for concurrent use; the nodes are
// for reading.
type Schemas struct{ definitions sync.Map }

// A Schema is a published schema.
type Schema struct {
	// Root has the members of the schema; of its definitions those that are its own.
	Root        *source.Node
	of          *Schemas
	definitions []*published.Schema
	byName      map[string]*published.Schema
}

// Of returns a schema; false where its text cannot be read.
func (s *Schemas) Of(shared *published.Schema) (*Schema, bool) {
	root, found := source.Parse("schema", shared.Short())
	if source.HasErrors(found) {
		return nil, false
	}
	return &Schema{Root: root, of: s, definitions: shared.Definitions()}, true
}

// Definition is a definition as a node; nil where its text cannot be read.
func (s *Schemas) Definition(d *published.Schema) *source.Node { return s.definition(d).node }

// definition is a definition and how many objects it has.
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

// Resolve returns what a reference within the schema names by a JSON Pointer; nil where it names nothing.
func (s *Schema) Resolve(ref string) *source.Node {
	pointer, ok := strings.CutPrefix(ref, "#")
	plain, err := url.PathUnescape(pointer)
	if !ok || err != nil || plain != "" && plain[0] != '/' {
		return nil
	}
	if n := s.Root.Lookup(plain); n != nil || len(s.definitions) == 0 {
		return n
	}
	tokens := strings.SplitN(plain, "/", 4)
	if len(tokens) < 3 || tokens[1] != "$defs" && tokens[1] != "definitions" {
		return nil
	}
	if s.byName == nil {
		s.byName = make(map[string]*published.Schema, len(s.definitions))
		for _, d := range s.definitions {
			s.byName[d.Name] = d
		}
	}
	d := s.byName[unescape.Replace(tokens[2])]
	if d == nil {
		return nil
	}
	n := s.of.definition(d).node
	if n != nil && len(tokens) == 4 {
		return n.Lookup("/" + tokens[3])
	}
	return n
}

// unescape reads a token of a JSON Pointer.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// Objects counts the JSON objects of the schema with all of its definitions.
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
