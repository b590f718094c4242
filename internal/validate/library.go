package validate

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// A Library compiles schemas that share definitions, each definition once, and keeps the results. The zero value is
// empty. It is safe for concurrent use.
type Library struct {
	mu      sync.Mutex
	shelves map[*schematree.Dialect]*shelf
}

// Compile compiles a schema. Its errors are those of the function [Compile].
func (l *Library) Compile(s *published.Schema) (*Schema, error) {
	if len(s.Refs) > 0 {
		if out := l.compile(s); out != nil {
			return out, nil
		}
	}
	return Compile(s.JSON())
}

// compile returns nil if the definitions cannot be shared, or if the schema is invalid.
func (l *Library) compile(s *published.Schema) *Schema {
	dialect := dialectOf(s.Short())
	if dialect == nil || !Movable(s.Head) || !Movable(s.Tail) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.shelf(dialect)
	for _, d := range s.Definitions() {
		if !f.has(d) {
			return nil
		}
	}
	doc, err := Decode(schematree.Copy(s.Short(), func(ref string) string {
		if to, ok := f.to(s.Refs, ref); ok {
			return to
		}
		return ref // within the schema
	}))
	if err != nil {
		return nil
	}
	f.tops++
	at := base + "/" + strconv.Itoa(f.tops)
	if f.compiler.AddResource(at, doc) != nil {
		return nil
	}
	full, err := f.compiler.Compile(at)
	if err != nil {
		return nil
	}
	return &Schema{full: full, fast: f.shapes.of(doc)}
}

// dialectOf returns the dialect of a schema, or nil if it is not supported or the schema is not JSON.
func dialectOf(schema json.RawMessage) *schematree.Dialect {
	if !bytes.Contains(schema, []byte(`"$schema"`)) {
		return schematree.Draft2020
	}
	var top struct {
		Schema *string `json:"$schema"`
	}
	switch err := json.Unmarshal(schema, &top); {
	case err != nil:
		return nil
	case top.Schema == nil:
		return schematree.Draft2020
	}
	return schematree.DialectOf(*top.Schema)
}

// Movable reports whether a text means the same in a separate document: it has no names, and no references that
// depend on their place.
func Movable(text []byte) bool {
	return !slices.ContainsFunc([]string{`"$id"`, `"$anchor"`, `"$dynamicAnchor"`, `"$dynamicRef"`, `"$recursiveAnchor"`, `"$recursiveRef"`},
		func(keyword string) bool { return bytes.Contains(text, []byte(keyword)) })
}

// A shelf holds the definitions of one dialect. Each is a separate document, and its references to other definitions
// refer to their documents.
type shelf struct {
	compiler *jsonschema.Compiler
	keyword  string // definitions or $defs
	entries  map[*published.Schema]*entry
	shapes   shapes
	tops     int
}

// An entry is a definition that a schema refers to. It is usable if it was added and means the same in any schema.
type entry struct {
	url           string
	taken, usable bool
}

func (l *Library) shelf(d *schematree.Dialect) *shelf {
	if known := l.shelves[d]; known != nil {
		return known
	}
	f := &shelf{compiler: NewCompiler(), keyword: d.Definitions, entries: map[*published.Schema]*entry{}, shapes: newShapes()}
	if d == schematree.Draft07 {
		f.compiler.DefaultDraft(jsonschema.Draft7)
	}
	if l.shelves == nil {
		l.shelves = map[*schematree.Dialect]*shelf{}
	}
	l.shelves[d] = f
	return f
}

// definitions is the prefix of the addresses of definitions.
const definitions = "mcpe:///definition/"

func (f *shelf) entry(d *published.Schema) *entry {
	e := f.entries[d]
	if e == nil {
		e = &entry{url: definitions + strconv.Itoa(len(f.entries))}
		f.entries[d] = e
	}
	return e
}

// has adds a definition if it can be shared, and reports whether it could.
func (f *shelf) has(d *published.Schema) bool {
	e := f.entry(d)
	if e.taken {
		return e.usable
	}
	e.taken = true
	doc, ok := apart(d, func(ref string) (string, bool) { return f.to(d.Refs, ref) })
	if !ok || f.compiler.AddResource(e.url, doc) != nil {
		return false
	}
	f.shapes.docs[e.url] = doc
	e.usable = true
	return true
}

// Apart decodes a definition. It returns false if the definition depends on its schema: it has names, or refers to
// something other than definitions below the keyword, $defs or definitions.
func Apart(d *published.Schema, keyword string) (doc any, ok bool) {
	return apart(d, func(ref string) (string, bool) {
		_, _, leads := schematree.Definition(d.Refs, keyword, ref)
		return ref, leads
	})
}

// apart is like [Apart] and replaces each reference with the result of to. It returns false if to does.
func apart(d *published.Schema, to func(ref string) (string, bool)) (doc any, ok bool) {
	if !Movable(d.Head) || bytes.Contains(d.Head, []byte(`"$schema"`)) {
		return nil, false
	}
	ok = true
	doc, err := Decode(schematree.Copy(d.Head, func(ref string) string {
		now, leads := to(ref)
		ok = ok && leads
		return now
	}))
	return doc, ok && err == nil
}

// to returns the address of the definition that a reference names, or false for other references.
func (f *shelf) to(refs []*published.Schema, ref string) (string, bool) {
	d, rest, ok := schematree.Definition(refs, f.keyword, ref)
	if !ok {
		return "", false
	}
	return f.entry(d).url + (&url.URL{Fragment: rest}).String(), true
}
