package validate

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/pattern"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A shaper builds the shapes of one schema document.
type shaper struct {
	shapes *shapes
	url    string   // of the document
	refs   []string // the references in the document, with URLs
}

func (sh *shaper) shape(schema any) (*shape, bool) {
	if allowed, isBool := schema.(bool); isBool {
		return anyShape, allowed
	}
	m, _ := schema.(map[string]any)
	s := &shape{types: schematree.AnyType, additional: anyShape, items: anyShape, maxItems: -1, maxLength: -1}
	asserted := 0
	for keyword, v := range m {
		if k, _ := schematree.Any.Keyword(keyword); k.Role == schematree.Annotates || keyword == "$schema" || keyword == "contentMediaType" ||
			strings.HasPrefix(keyword, "x-") {
			continue
		}
		asserted++
		if !sh.keyword(s, keyword, v) {
			return nil, false
		}
	}
	if (s.to != nil || s.byKind != nil) && asserted > 1 {
		return nil, false
	}
	if s.to == nil && s.byKind == nil {
		required, _ := m["required"].([]any)
		return s, len(s.properties) <= 64 && s.setRequired(required)
	}
	return s, true
}

// setRequired sets the bits of the required members. It returns false if a required member is not declared.
func (s *shape) setRequired(names []any) bool {
	for _, name := range names {
		text, _ := name.(string)
		m, ok := s.properties[text]
		if !ok {
			return false
		}
		s.required |= m.bit
	}
	return true
}

func (sh *shaper) keyword(s *shape, keyword string, v any) bool {
	ok := true
	switch keyword {
	case "type":
		s.types, ok = parseTypes(v)
	case "properties":
		members, _ := v.(map[string]any)
		s.properties = make(map[string]member, len(members))
		for name, schema := range members {
			inner, ok := sh.shape(schema)
			if !ok {
				return false
			}
			s.properties[name] = member{inner, 1 << (len(s.properties) % 64)}
		}
	case "required": // handled after the properties
	case "additionalProperties":
		if v == false {
			s.additional = nil
		} else {
			s.additional, ok = sh.shape(v)
		}
	case "items":
		if _, isList := v.([]any); isList {
			return false
		}
		s.items, ok = sh.shape(v)
	case "minItems":
		s.minItems, ok = integer(v)
	case "maxItems":
		s.maxItems, ok = integer(v)
	case "minLength":
		s.minLength, ok = integer(v)
	case "maxLength":
		s.maxLength, ok = integer(v)
	case "minimum":
		n, isInt := integer(v)
		s.minimum, ok = &n, isInt
	case "maximum":
		n, isInt := integer(v)
		s.maximum, ok = &n, isInt
	case "enum":
		list, _ := v.([]any)
		ok = s.oneOf(list)
	case "const":
		ok = s.oneOf([]any{v})
	case "pattern":
		text, _ := v.(string)
		re, err := pattern.Compile(text)
		s.pattern, ok = re, err == nil
	case "format":
		s.format, ok = formatOf(v)
	case "contentEncoding":
		s.base64 = v == base64Text.Name
	case "anyOf", "oneOf":
		s.byKind, ok = sh.unionShapes(v)
	case "$ref":
		s.to, ok = sh.referenceShape(v)
	default:
		return false
	}
	return ok
}

// parseTypes returns the types in the value of the keyword type, or false if a name is unknown.
func parseTypes(v any) (types schematree.Types, ok bool) {
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	for _, name := range list {
		text, _ := name.(string)
		t := schematree.Named(text)
		if t == 0 {
			return 0, false
		}
		types |= t
	}
	return types, true
}

func integer(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := strconv.ParseInt(string(n), 10, 64)
	return i, err == nil
}

func (s *shape) oneOf(values []any) bool {
	if s.enum != nil {
		return false // both const and enum
	}
	s.enum = make(map[string]bool, len(values))
	for _, v := range values {
		text, ok := v.(string)
		if !ok {
			return false
		}
		s.enum[text] = true
	}
	return true
}

// formatOf returns the full validator's check of a format.
func formatOf(v any) (func(string) bool, bool) {
	name, _ := v.(string)
	if name == dateTime.Name {
		return func(text string) bool { _, err := events.ParseTime(text); return err == nil }, true
	}
	check, err := compileFull(map[string]any{"format": name})
	return func(text string) bool { return check.Validate(text) == nil }, err == nil
}

// unionShapes maps each kind of value to a variant. It returns false if two variants accept the same kind.
func (sh *shaper) unionShapes(v any) (map[jsontext.Kind]*shape, bool) {
	list, _ := v.([]any)
	out := map[jsontext.Kind]*shape{}
	for _, schema := range list {
		variant, ok := sh.shape(schema)
		if !ok || variant.to != nil || variant.byKind != nil {
			return nil, false
		}
		for _, kind := range []jsontext.Kind{'n', 't', 'f', '0', '"', '[', '{'} {
			if variant.types&typesOf(kind) == 0 {
				continue
			}
			if out[kind] != nil {
				return nil, false
			}
			out[kind] = variant
		}
	}
	return out, len(out) > 0
}

// referenceShape returns the placeholder for the target of a reference.
func (sh *shaper) referenceShape(v any) (*shape, bool) {
	ref, _ := v.(string)
	document, _, ok := schematree.Cut(ref)
	if !ok || document != "" && !strings.HasPrefix(document, definitionPrefix) {
		return nil, false
	}
	if document == "" {
		ref = sh.url + ref
	}
	sh.refs = append(sh.refs, ref)
	return sh.shapes.placeholder(ref), true
}

// resolve returns the target of a reference.
func (s *shapes) resolve(ref string) (target any, ok bool) {
	document, pointer, _ := schematree.Cut(ref)
	tokens, ok := wire.SplitPointer(pointer)
	if !ok && pointer != "" {
		return nil, false
	}
	target = s.docs[document]
	for _, token := range tokens {
		m, _ := target.(map[string]any)
		if target, ok = m[token]; !ok {
			return nil, false
		}
		if m, _ := target.(map[string]any); m["$id"] != nil {
			return nil, false // references below it mean something else
		}
	}
	return target, true
}

// leadsTo reports whether the chain of references from s reaches other. Following such a cycle would never end.
func (s *shape) leadsTo(other *shape) bool {
	for ; s != nil; s = s.to {
		if s == other {
			return true
		}
	}
	return false
}

// shapes holds the shapes of documents that refer to themselves and to each other. Each shape is built once, even if
// many schemas refer to it. The placeholder of a reference stands for its target until that shape is built.
type shapes struct {
	docs         map[string]any      // by URL
	placeholders map[string]*shape   // by reference
	unbuilt      []string            // references whose shapes must be built
	users        map[string][]string // for a reference, the references whose shapes use it
	bad          map[string]bool     // references without a shape
}

func newShapes() *shapes {
	return &shapes{docs: map[string]any{}, placeholders: map[string]*shape{}, users: map[string][]string{}, bad: map[string]bool{}}
}

// placeholder returns the placeholder for the shape of a reference.
func (s *shapes) placeholder(ref string) *shape {
	h := s.placeholders[ref]
	if h == nil {
		h = &shape{}
		s.placeholders[ref] = h
		s.unbuilt = append(s.unbuilt, ref)
	}
	return h
}

// shapeOf returns the shape of a document, or nil.
func (s *shapes) shapeOf(url string, doc any) *shape {
	s.docs[url] = doc
	sh := &shaper{shapes: s, url: url}
	out, ok := sh.shape(doc)
	s.make()
	if !ok || slices.ContainsFunc(sh.refs, func(ref string) bool { return s.bad[ref] }) {
		return nil
	}
	return out
}

// make builds the remaining shapes. If a shape cannot be built, neither can the shapes that use it.
func (s *shapes) make() {
	var failed []string
	for len(s.unbuilt) > 0 {
		ref := s.unbuilt[0]
		s.unbuilt = s.unbuilt[1:]
		url, _, _ := strings.Cut(ref, "#")
		sh := &shaper{shapes: s, url: url}
		target, ok := s.resolve(ref)
		var out *shape
		if ok {
			out, ok = sh.shape(target)
		}
		if !ok || out.leadsTo(s.placeholders[ref]) {
			failed = append(failed, ref)
			continue
		}
		s.placeholders[ref].to = out
		for _, used := range sh.refs {
			s.users[used] = append(s.users[used], ref)
			if s.bad[used] {
				failed = append(failed, ref)
			}
		}
	}
	for ; len(failed) > 0; failed = failed[1:] {
		if ref := failed[0]; !s.bad[ref] {
			s.bad[ref] = true
			failed = append(failed, s.users[ref]...)
		}
	}
}
