package validate

import (
	"bytes"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpe-gen/mcpe-gen/internal/published"
)

// A Library compiles schemas that share definitions, each definition once. Its zero value is empty, it is safe for
// concurrent use, and it keeps what it has compiled.
type Library struct {
	mu      sync.Mutex
	shelves map[*jsonschema.Draft]*shelf
}

// Compile compiles a schema as [Compile] does, with the same errors.
func (l *Library) Compile(s *published.Schema) (*Schema, error) {
	if len(s.Refs) > 0 {
		if out := l.compile(s); out != nil {
			return out, nil
		}
	}
	return Compile(s.JSON())
}

// compile returns nil where the definitions cannot be shared, and where something is wrong.
func (l *Library) compile(s *published.Schema) *Schema {
	doc, err := Decode(s.Short())
	if err != nil || !Movable(s.Head) || !Movable(s.Tail) {
		return nil
	}
	draft := jsonschema.Draft2020
	if top, _ := doc.(map[string]any); top["$schema"] != nil {
		switch top["$schema"] {
		case draft07, draft07 + "#":
			draft = jsonschema.Draft7
		case "https://json-schema.org/draft/2020-12/schema":
		default:
			return nil
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.shelf(draft)
	for _, d := range s.Definitions() {
		if !f.has(d) {
			return nil
		}
	}
	doc = redirect(doc, func(ref string) string {
		if to, ok := f.to(s.Refs, ref); ok {
			return to
		}
		return ref // within the schema
	})
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

// draft07 is the $schema of draft-07.
const draft07 = "http://json-schema.org/draft-07/schema"

// Movable reports whether a text means the same in a document of its own: it neither has names of its own nor
// references that depend on where they are met.
func Movable(text []byte) bool {
	return !slices.ContainsFunc([]string{`"$id"`, `"$anchor"`, `"$dynamicAnchor"`, `"$dynamicRef"`, `"$recursiveAnchor"`, `"$recursiveRef"`},
		func(keyword string) bool { return bytes.Contains(text, []byte(keyword)) })
}

// A shelf has the definitions of one dialect. Each is a document by itself, and its references to others lead to
// their documents.
type shelf struct {
	compiler *jsonschema.Compiler
	keyword  string // definitions or $defs
	entries  map[*published.Schema]*entry
	shapes   shapes
	tops     int
}

// An entry is a definition that was met. It is usable when it is taken in and means the same in any schema.
type entry struct {
	url           string
	taken, usable bool
}

func (l *Library) shelf(draft *jsonschema.Draft) *shelf {
	if known := l.shelves[draft]; known != nil {
		return known
	}
	f := &shelf{compiler: NewCompiler(), keyword: "$defs", entries: map[*published.Schema]*entry{}, shapes: newShapes()}
	f.compiler.DefaultDraft(draft)
	if draft == jsonschema.Draft7 {
		f.keyword = "definitions"
	}
	if l.shelves == nil {
		l.shelves = map[*jsonschema.Draft]*shelf{}
	}
	l.shelves[draft] = f
	return f
}

// definitions is what addresses of definitions begin with.
const definitions = "mcpe:///definition/"

func (f *shelf) entry(d *published.Schema) *entry {
	e := f.entries[d]
	if e == nil {
		e = &entry{url: definitions + strconv.Itoa(len(f.entries))}
		f.entries[d] = e
	}
	return e
}

// has takes in a definition where it can be shared, and reports whether it could.
func (f *shelf) has(d *published.Schema) bool {
	e := f.entry(d)
	if e.taken {
		return e.usable
	}
	e.taken = true
	doc, ok := Apart(d, f.keyword)
	if !ok {
		return false
	}
	doc = redirect(doc, func(ref string) string {
		to, _ := f.to(d.Refs, ref)
		return to
	})
	if f.compiler.AddResource(e.url, doc) != nil {
		return false
	}
	f.shapes.docs[e.url] = doc
	e.usable = true
	return true
}

// Apart decodes a definition, false where it means something only in the schema that it is in: where it has names of
// its own, or refers to anything else than definitions below the keyword, $defs or definitions.
func Apart(d *published.Schema, keyword string) (doc any, ok bool) {
	doc, err := Decode(d.Head)
	if err != nil || !Movable(d.Head) || bytes.Contains(d.Head, []byte(`"$schema"`)) {
		return nil, false
	}
	ok = true
	redirect(doc, func(ref string) string {
		_, _, leads := Definition(d.Refs, keyword, ref)
		ok = ok && leads
		return ref
	})
	if !ok {
		return nil, false
	}
	return doc, true
}

// Definition returns the one of the definitions below the keyword that a reference leads to or into, and the JSON
// Pointer from there; false where it leads to none of them.
func Definition(refs []*published.Schema, keyword, ref string) (d *published.Schema, rest string, ok bool) {
	pointer, ok := strings.CutPrefix(ref, "#/"+keyword+"/")
	plain, err := url.PathUnescape(pointer)
	if !ok || err != nil {
		return nil, "", false
	}
	token, _, _ := strings.Cut(plain, "/")
	name := unescape.Replace(token)
	if i := slices.IndexFunc(refs, func(d *published.Schema) bool { return d.Name == name }); i >= 0 {
		return refs[i], plain[len(token):], true
	}
	return nil, "", false
}

// to is where a reference leads that names one of the definitions; false where it names none.
func (f *shelf) to(refs []*published.Schema, ref string) (string, bool) {
	d, rest, ok := Definition(refs, f.keyword, ref)
	if !ok {
		return "", false
	}
	return f.entry(d).url + (&url.URL{Fragment: rest}).String(), true
}

// unescape reads a token of a JSON Pointer.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// Keywords whose members are schemas under free names, and those that hold a schema or a list of them.
var (
	named = words("properties patternProperties $defs definitions dependentSchemas dependencies")
	inner = words("items additionalItems prefixItems additionalProperties unevaluatedProperties unevaluatedItems contains propertyNames " +
		"not if then else allOf anyOf oneOf contentSchema")
)

func words(list string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}

// redirect changes each $ref of a decoded schema; what is under keywords of others is no schema.
func redirect(v any, to func(ref string) string) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = redirect(v[i], to)
		}
	case map[string]any:
		for key, value := range v {
			members, isMap := value.(map[string]any)
			ref, isText := value.(string)
			switch {
			case key == "$ref" && isText:
				v[key] = to(ref)
			case named[key] && isMap:
				for name, schema := range members {
					members[name] = redirect(schema, to)
				}
			case inner[key]:
				v[key] = redirect(value, to)
			}
		}
	}
	return v
}
