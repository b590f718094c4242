package validate

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/pattern"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A shaper makes the shapes of one schema document.
type shaper struct {
	root any
	done map[string]*shape // by the reference that led there
	// elsewhere are the shapes of other documents, nil where there are none. What is used of them is to be made yet.
	elsewhere *shapes
	used      []string
}

// shapeOf returns the shape of a schema document, or nil.
func shapeOf(doc any) *shape {
	sh := &shaper{root: doc, done: map[string]*shape{}}
	s, ok := sh.shape(doc)
	if !ok {
		return nil
	}
	return s
}

// annotations are keywords that assert nothing.
var annotations = map[string]bool{
	"$schema": true, "$comment": true, "$defs": true, "definitions": true, "title": true, "description": true, "default": true,
	"examples": true, "deprecated": true, "readOnly": true, "writeOnly": true, "contentMediaType": true,
}

func (sh *shaper) shape(schema any) (*shape, bool) {
	if allowed, isBool := schema.(bool); isBool {
		return anything, allowed
	}
	m, _ := schema.(map[string]any)
	s := &shape{kinds: allKinds, additional: anything, items: anything, maxItems: -1, maxLength: -1}
	asserted := 0
	for keyword, v := range m {
		if annotations[keyword] || strings.HasPrefix(keyword, "x-") {
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
		return s, len(s.properties) <= 64 && s.require(required)
	}
	return s, true
}

// require sets the bits of the required members, which must be declared.
func (s *shape) require(names []any) bool {
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
		s.kinds, s.integer, ok = kindsOf(v)
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
	case "required": // after the properties
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
		s.byKind, ok = sh.union(v)
	case "$ref":
		s.to, ok = sh.reference(v)
	default:
		return false
	}
	return ok
}

func kindsOf(v any) (kinds kindSet, onlyIntegers, ok bool) {
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	integers, any := false, false
	for _, name := range list {
		switch name {
		case "null":
			kinds |= nulls
		case "boolean":
			kinds |= booleans
		case "integer":
			kinds, integers = kinds|numbers, true
		case "number":
			kinds, any = kinds|numbers, true
		case "string":
			kinds |= strs
		case "array":
			kinds |= arrays
		case "object":
			kinds |= objects
		default:
			return 0, false, false
		}
	}
	return kinds, integers && !any, true
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
		return false // const and enum together
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

// formatOf returns the check of a format, which is the full validator's.
func formatOf(v any) (func(string) bool, bool) {
	name, _ := v.(string)
	if name == dateTime.Name {
		return func(text string) bool { _, err := events.ParseTime(text); return err == nil }, true
	}
	check, err := compileFull(map[string]any{"format": name})
	return func(text string) bool { return check.Validate(text) == nil }, err == nil
}

// union chooses between variants by kind, so their kinds must not overlap.
func (sh *shaper) union(v any) (map[jsontext.Kind]*shape, bool) {
	list, _ := v.([]any)
	out := map[jsontext.Kind]*shape{}
	for _, schema := range list {
		variant, ok := sh.shape(schema)
		if !ok || variant.to != nil || variant.byKind != nil {
			return nil, false
		}
		for _, kind := range []jsontext.Kind{'n', 't', 'f', '0', '"', '[', '{'} {
			if variant.kinds&kindOf(kind) == 0 {
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

// reference follows a pointer within the document.
func (sh *shaper) reference(v any) (*shape, bool) {
	ref, _ := v.(string)
	if s, ok := sh.done[ref]; ok {
		return s, s != nil
	}
	if sh.elsewhere != nil && strings.HasPrefix(ref, definitions) {
		sh.used = append(sh.used, ref)
		return sh.elsewhere.holder(ref), true
	}
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, false
	}
	target, ok := sh.target(path)
	if !ok {
		return nil, false
	}
	// Recursion finds this placeholder and comes out at the shape.
	holder := &shape{}
	sh.done[ref] = holder
	s, ok := sh.shape(target)
	if !ok || s.leadsTo(holder) {
		sh.done[ref] = nil
		return nil, false
	}
	holder.to = s
	return holder, true
}

// target is what a pointer of plain names leads to.
func (sh *shaper) target(path string) (target any, ok bool) {
	if path != "" && path[0] != '/' || strings.ContainsAny(path, "~%") {
		return nil, false
	}
	target = sh.root
	for _, token := range strings.Split(path, "/")[1:] {
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

// leadsTo reports whether following references from s comes to other, which would never end.
func (s *shape) leadsTo(other *shape) bool {
	for ; s != nil; s = s.to {
		if s == other {
			return true
		}
	}
	return false
}

// shapes are those of documents that refer to each other, made once however many schemas refer to them.
type shapes struct {
	docs    map[string]any
	holders map[string]*shape   // by the reference that leads there
	waiting []string            // whose shapes are to be made
	users   map[string][]string // of a reference, the references whose shapes use it
	bad     map[string]bool     // those without a shape
}

func newShapes() shapes {
	return shapes{docs: map[string]any{}, holders: map[string]*shape{}, users: map[string][]string{}, bad: map[string]bool{}}
}

// holder is where the shape of a reference will be.
func (s *shapes) holder(ref string) *shape {
	h := s.holders[ref]
	if h == nil {
		h = &shape{}
		s.holders[ref] = h
		s.waiting = append(s.waiting, ref)
	}
	return h
}

// of returns the shape of a schema that refers to the documents, or nil.
func (s *shapes) of(doc any) *shape {
	sh := &shaper{root: doc, done: map[string]*shape{}, elsewhere: s}
	out, ok := sh.shape(doc)
	s.make()
	if !ok || slices.ContainsFunc(sh.used, func(ref string) bool { return s.bad[ref] }) {
		return nil
	}
	return out
}

// make makes the shapes that are waited for. What uses one that there is not has none itself.
func (s *shapes) make() {
	var failed []string
	for len(s.waiting) > 0 {
		ref := s.waiting[0]
		s.waiting = s.waiting[1:]
		url, pointer, _ := strings.Cut(ref, "#")
		sh := &shaper{root: s.docs[url], done: map[string]*shape{}, elsewhere: s}
		target, ok := sh.target(pointer)
		var out *shape
		if ok {
			out, ok = sh.shape(target)
		}
		if !ok || out.leadsTo(s.holders[ref]) {
			failed = append(failed, ref)
			continue
		}
		s.holders[ref].to = out
		for _, used := range sh.used {
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
