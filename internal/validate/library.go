package validate

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strconv"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// A Library compiles schemas that share definitions. It compiles each definition once and caches the result. The zero
// value is empty. It is safe for concurrent use.
type Library struct {
	mu        sync.Mutex
	byDialect map[*schematree.Dialect]*dialectLibrary
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

// compile compiles a schema with shared definitions. It returns nil if the definitions cannot be shared or the schema
// is invalid.
func (l *Library) compile(s *published.Schema) *Schema {
	dialect := dialectOf(s.Short())
	if dialect == nil || !schematree.Movable(s.Head) || !schematree.Movable(s.Tail) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.dialectLibrary(dialect)
	for _, d := range s.Definitions() {
		if !f.addDefinition(d) {
			return nil
		}
	}
	doc, err := Decode(schematree.Copy(s.Short(), func(ref string) string {
		if to, ok := f.definitionURL(s.Refs, ref); ok {
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
	return &Schema{full: full, fast: f.shapes.shapeOf(at, doc)}
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

// A dialectLibrary holds the definitions of one dialect. Each definition is a separate document. Its references to
// other definitions point to their documents.
type dialectLibrary struct {
	compiler *jsonschema.Compiler
	keyword  string // definitions or $defs
	entries  map[*published.Schema]*entry
	shapes   *shapes
	tops     int
}

// An entry is a definition that a schema refers to. It is usable if it was added and has the same meaning in any
// schema.
type entry struct {
	url           string
	tried, usable bool
}

func (l *Library) dialectLibrary(d *schematree.Dialect) *dialectLibrary {
	if known := l.byDialect[d]; known != nil {
		return known
	}
	f := &dialectLibrary{compiler: NewCompiler(), keyword: d.Definitions, entries: map[*published.Schema]*entry{}, shapes: newShapes()}
	if d == schematree.Draft07 {
		f.compiler.DefaultDraft(jsonschema.Draft7)
	}
	if l.byDialect == nil {
		l.byDialect = map[*schematree.Dialect]*dialectLibrary{}
	}
	l.byDialect[d] = f
	return f
}

// definitionPrefix is the prefix of the URLs of definitions.
const definitionPrefix = "mcpe:///definition/"

func (f *dialectLibrary) entry(d *published.Schema) *entry {
	e := f.entries[d]
	if e == nil {
		e = &entry{url: definitionPrefix + strconv.Itoa(len(f.entries))}
		f.entries[d] = e
	}
	return e
}

// addDefinition adds a definition if it can be shared. It reports whether the definition can be shared.
func (f *dialectLibrary) addDefinition(d *published.Schema) bool {
	e := f.entry(d)
	if e.tried {
		return e.usable
	}
	e.tried = true
	doc, ok := decodeApart(d, func(ref string) (string, bool) { return f.definitionURL(d.Refs, ref) })
	if !ok || f.compiler.AddResource(e.url, doc) != nil {
		return false
	}
	f.shapes.docs[e.url] = doc
	e.usable = true
	return true
}

// Apart decodes a definition. It returns false if the definition depends on its schema, because it has identifiers or
// refers to anything except definitions. The keyword is $defs or definitions.
func Apart(d *published.Schema, keyword string) (doc any, ok bool) {
	return decodeApart(d, func(ref string) (string, bool) {
		_, _, leads := schematree.Definition(d.Refs, keyword, ref)
		return ref, leads
	})
}

// decodeApart is like [Apart], but replaces each reference with the result of to. If to returns false, decodeApart also
// returns false.
func decodeApart(d *published.Schema, to func(ref string) (string, bool)) (doc any, ok bool) {
	if !schematree.Movable(d.Head) || bytes.Contains(d.Head, []byte(`"$schema"`)) {
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

// definitionURL returns the URL of the definition that a reference points to, or false for any other reference.
func (f *dialectLibrary) definitionURL(refs []*published.Schema, ref string) (string, bool) {
	d, rest, ok := schematree.Definition(refs, f.keyword, ref)
	if !ok {
		return "", false
	}
	return f.entry(d).url + (&url.URL{Fragment: rest}).String(), true
}
