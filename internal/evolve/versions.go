package evolve

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Versions compares the event types of two versions of a package. It compares each pair of shared definitions only
// once. The zero value is ready to use for one pair of packages. It is not safe for concurrent use.
type Versions struct {
	old, new    library
	comparisons map[[2]string]*comparison // by feature and direction
	live        bool                      // only rules for live subscriptions
}

// A Side holds the two schemas of an event type in one version.
type Side struct{ Input, Payload *published.Schema }

// Differences is like the function [Differences] for the schemas of an event type in both versions.
func (v *Versions) Differences(event string, old, new Side) []Change {
	return slices.Concat(v.compare(InputSchema, event, old.Input, new.Input), v.compare(PayloadSchema, event, old.Payload, new.Payload))
}

// compare compares the two versions of one schema.
func (v *Versions) compare(feature, event string, old, new *published.Schema) []Change {
	if equal(old, new) {
		return nil
	}
	unreadable := func(which string, err error) []Change {
		return []Change{{Feature: feature, Reason: "the " + which + " schema cannot be read: " + err.Error(), Rule: Incomparable, Category: Wire}}
	}
	at := "@" + event + "/" + feature // not a valid pointer
	before, err := v.old.parse(old, at)
	if err != nil {
		return unreadable("old", err)
	}
	after, err := v.new.parse(new, at)
	if err != nil {
		return unreadable("new", err)
	}
	if len(old.Refs)+len(new.Refs) == 0 && canonicalText(before.schema) == canonicalText(after.schema) {
		return nil
	}
	changes := v.comparison(feature, "forward").run(before, after, v.old.size+v.new.size)
	if feature == PayloadSchema && !v.live {
		changes = withUnexpected(changes, v.comparison(feature, "backward").run(after, before, v.old.size+v.new.size))
	}
	return withoutDuplicates(changes)
}

func (v *Versions) comparison(feature, direction string) *comparison {
	key := [2]string{feature, direction}
	if v.comparisons == nil {
		v.comparisons = map[[2]string]*comparison{}
	}
	if v.comparisons[key] == nil {
		v.comparisons[key] = &comparison{feature: feature, live: v.live, backward: direction == "backward"}
	}
	return v.comparisons[key]
}

// equal reports whether two published schemas are equal.
func equal(a, b *published.Schema) bool {
	return bytes.Equal(a.Head, b.Head) && bytes.Equal(a.Tail, b.Tail) &&
		slices.EqualFunc(a.Definitions(), b.Definitions(), func(a, b *published.Schema) bool {
			return a == b || a.Name == b.Name && bytes.Equal(a.Head, b.Head)
		})
}

// A library caches the parsed definitions of a version.
type library struct {
	docs   [2]*document // for 2020-12 and draft-07
	scopes map[libraryKey]*scope
	names  map[string]int
	size   int // number of parsed schemas
}

type libraryKey struct {
	of  *published.Schema
	doc *document
}

// A scope resolves the references of a schema with separate definitions.
type scope struct {
	library *library
	of      *published.Schema
	root    node // without a schema if the definitions cannot be separate
}

// parse parses a schema without its definitions. It includes definitions that depend on the schema.
func (l *library) parse(s *published.Schema, at string) (node, error) {
	if n, ok := l.apart(s, at); ok {
		return n, nil
	}
	d, err := readDocument(s.JSON(), at)
	if err != nil {
		return node{}, err
	}
	l.size += d.size
	return d.root, nil
}

func (l *library) apart(s *published.Schema, at string) (node, bool) {
	v, err := validate.Decode(s.Short())
	if _, isObject := v.(map[string]any); err != nil || !isObject || !schematree.Movable(s.Head) || !schematree.Movable(s.Tail) {
		return node{}, false
	}
	i := 0
	if dialectOf(v) == schematree.Draft07 {
		i = 1
	}
	if l.docs[i] == nil {
		l.docs[i] = &document{draft07: i == 1}
	}
	for _, d := range s.Definitions() {
		if l.definition(l.docs[i], d).root.schema == nil {
			return node{}, false
		}
	}
	return l.scope(l.docs[i], s, at, v).root, true
}

func (l *library) scope(doc *document, s *published.Schema, at string, v any) *scope {
	h := &scope{library: l, of: s}
	h.root = node{pointer: at, schema: v, base: new(url.URL), doc: doc, scope: h}
	h.root.visitAll(func(node) { l.size++ })
	return h
}

// definition returns a parsed definition. It parses the definition on first use.
func (l *library) definition(doc *document, d *published.Schema) *scope {
	key := libraryKey{d, doc}
	if h := l.scopes[key]; h != nil {
		return h
	}
	if l.scopes == nil {
		l.scopes, l.names = map[libraryKey]*scope{}, map[string]int{}
	}
	at := wire.Pointer(doc.keyword(), d.Name)
	if l.names[at]++; l.names[at] > 1 {
		at = fmt.Sprintf("%s@%d", at, l.names[at])
	}
	v, _ := validate.Apart(d, doc.keyword()) // nil if it cannot be separate
	h := l.scope(doc, d, at, v)
	l.scopes[key] = h
	return h
}

func (d *document) keyword() string {
	if d.draft07 {
		return "definitions"
	}
	return "$defs"
}

// resolve returns the target of a reference, or false if it does not exist.
func (h *scope) resolve(doc *document, ref string) (node, bool) {
	if d, rest, ok := schematree.Definition(h.of.Refs, doc.keyword(), ref); ok {
		return schematree.At(h.library.definition(doc, d).root, rest)
	}
	return schematree.Resolve(h.root, ref)
}
