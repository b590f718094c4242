package evolve

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Versions compares the event types of two versions of a package, each pair of shared definitions once. The zero
// value is ready, for one pair of packages and use by one goroutine at a time.
type Versions struct {
	old, new    library
	comparisons map[[2]string]*comparison // by feature and direction
}

// A Side is the two schemas of an event type in one version.
type Side struct{ Input, Payload *published.Schema }

// Differences is what the function [Differences] says of the schemas of an event type in both versions.
func (v *Versions) Differences(event string, old, new Side) []Change {
	return slices.Concat(v.run(InputSchema, event, old.Input, new.Input), v.run(PayloadSchema, event, old.Payload, new.Payload))
}

func (v *Versions) run(feature, event string, old, new *published.Schema) []Change {
	if same(old, new) {
		return nil
	}
	at := "@" + event + "/" + feature // no pointer begins so
	before, ok1 := v.old.top(old, at)
	after, ok2 := v.new.top(new, at)
	if !ok1 || !ok2 {
		return run(feature, old.JSON(), new.JSON(), false)
	}
	compare := func(direction string, from, to node) []Change {
		key := [2]string{feature, direction}
		if v.comparisons == nil {
			v.comparisons = map[[2]string]*comparison{}
		}
		if v.comparisons[key] == nil {
			v.comparisons[key] = &comparison{feature: feature, backward: direction == "backward"}
		}
		return v.comparisons[key].run(from, to, v.old.size+v.new.size)
	}
	changes := compare("forward", before, after)
	if feature == PayloadSchema {
		changes = withUnexpected(changes, compare("backward", after, before))
	}
	return once(changes)
}

// same reports whether two schemas are published alike.
func same(a, b *published.Schema) bool {
	return bytes.Equal(a.Head, b.Head) && bytes.Equal(a.Tail, b.Tail) &&
		slices.EqualFunc(a.Definitions(), b.Definitions(), func(a, b *published.Schema) bool {
			return a == b || a.Name == b.Name && bytes.Equal(a.Head, b.Head)
		})
}

// A library has the definitions of a version, each of which is read once.
type library struct {
	docs  [2]*document // of 2020-12 and of draft-07
	homes map[libraryKey]*home
	names map[string]int
	size  int // the schemas that were read
}

type libraryKey struct {
	of  *published.Schema
	doc *document
}

// A home is what the references of a schema are about whose definitions are apart.
type home struct {
	library *library
	of      *published.Schema
	root    node // without a schema where it cannot be apart
}

// top reads a schema; false where its definitions cannot be read apart from it.
func (l *library) top(s *published.Schema, at string) (node, bool) {
	v, err := validate.Decode(s.Short())
	top, isObject := v.(map[string]any)
	if err != nil || !isObject || !validate.Movable(s.Head) || !validate.Movable(s.Tail) {
		return node{}, false
	}
	dialect, _ := top["$schema"].(string)
	i := 0
	if strings.Contains(dialect, "draft-07") {
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
	return l.home(l.docs[i], s, at, v).root, true
}

func (l *library) home(doc *document, s *published.Schema, at string, v any) *home {
	h := &home{library: l, of: s}
	h.root = node{pointer: at, schema: v, base: new(url.URL), doc: doc, home: h}
	l.size += schemas(v)
	return h
}

// definition reads a definition, unless it is known.
func (l *library) definition(doc *document, d *published.Schema) *home {
	key := libraryKey{d, doc}
	if h := l.homes[key]; h != nil {
		return h
	}
	if l.homes == nil {
		l.homes, l.names = map[libraryKey]*home{}, map[string]int{}
	}
	at := wire.Pointer(doc.keyword(), d.Name)
	if l.names[at]++; l.names[at] > 1 {
		at = fmt.Sprintf("%s@%d", at, l.names[at])
	}
	v, _ := validate.Apart(d, doc.keyword()) // nil where it cannot be
	h := l.home(doc, d, at, v)
	l.homes[key] = h
	return h
}

func (d *document) keyword() string {
	if d.draft07 {
		return "definitions"
	}
	return "$defs"
}

// resolve finds what a reference names.
func (h *home) resolve(doc *document, ref string) (node, bool) {
	if d, rest, ok := validate.Definition(h.of.Refs, doc.keyword(), ref); ok {
		to := h.library.definition(doc, d).root
		return to.at(rest)
	}
	pointer, ok := strings.CutPrefix(ref, "#")
	plain, err := url.PathUnescape(pointer)
	if !ok || err != nil {
		return node{}, false
	}
	return h.root.at(plain)
}

// at follows a JSON Pointer.
func (n node) at(pointer string) (node, bool) {
	if pointer == "" {
		return n, n.schema != nil
	}
	if pointer[0] != '/' {
		return node{}, false
	}
	ok := true
	for _, token := range strings.Split(pointer[1:], "/") {
		if n, ok = n.child(unescape.Replace(token)); !ok {
			return node{}, false
		}
	}
	return n, true
}

// schemas counts the objects of a decoded schema.
func schemas(v any) int {
	count := 0
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			count += schemas(item)
		}
	case map[string]any:
		count = 1
		for _, member := range v {
			count += schemas(member)
		}
	}
	return count
}
