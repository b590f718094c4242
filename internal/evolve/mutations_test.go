package evolve_test

import (
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// A mutation changes one schema object in place, or reports that it cannot.
type mutation struct {
	name    string
	apply   func(t *rapid.T, s schema) bool
	payload bool // incompatible in a payload too
}

var additive = []mutation{
	{name: "optional field", apply: func(t *rapid.T, s schema) bool {
		p, ok := s["properties"].(schema)
		if ok {
			p["added"] = drawSchema(t, 1)
		}
		return ok
	}},
	{name: "enum widened", apply: func(t *rapid.T, s schema) bool {
		values, ok := s["enum"].([]any)
		if ok {
			s["enum"] = append([]any{"added"}, values...)
		}
		return ok
	}},
	{name: "bound relaxed", apply: func(t *rapid.T, s schema) bool {
		changed := false
		for keyword, by := range map[string]float64{"minimum": -1, "maximum": 1, "minLength": -1, "maxLength": 1, "maxItems": 1} {
			if v, ok := s[keyword].(float64); ok && v+by >= -10 && (keyword != "minLength" || v > 0) {
				s[keyword], changed = v+by, true
			}
		}
		return changed
	}},
	{name: "bound dropped", apply: func(t *rapid.T, s schema) bool {
		before := len(s)
		for _, keyword := range []string{"minimum", "maxLength", "maxItems"} {
			delete(s, keyword)
		}
		return len(s) < before
	}},
	{name: "described", apply: func(t *rapid.T, s schema) bool {
		s["description"], s["x-note"] = "text", 1
		return true
	}},
	{name: "opened", apply: func(t *rapid.T, s schema) bool {
		closed := s["additionalProperties"] == false
		if closed {
			delete(s, "additionalProperties")
		}
		return closed
	}},
	{name: "variant added", apply: func(t *rapid.T, s schema) bool {
		variants, ok := s["oneOf"].([]any)
		if ok {
			s["oneOf"] = append([]any{schema{"type": "object", "properties": schema{"tag": schema{"const": "added"}}, "required": []any{"tag"}}}, variants...)
		}
		return ok
	}},
}

var incompatible = []mutation{
	{name: "field removed", payload: true, apply: func(t *rapid.T, s schema) bool {
		p, ok := s["properties"].(schema)
		if ok = ok && len(p) > 0; ok {
			delete(p, rapid.SampledFrom(slices.Sorted(maps.Keys(p))).Draw(t, "removed"))
		}
		return ok
	}},
	{name: "field renamed", payload: true, apply: func(t *rapid.T, s schema) bool {
		p, ok := s["properties"].(schema)
		if ok = ok && len(p) > 0; ok {
			name := rapid.SampledFrom(slices.Sorted(maps.Keys(p))).Draw(t, "renamed")
			p["renamed"] = p[name]
			delete(p, name)
		}
		return ok
	}},
	{name: "retyped", payload: true, apply: func(t *rapid.T, s schema) bool {
		kind, ok := s["type"].(string)
		if ok = ok && kind != "null"; ok {
			clear(s)
			s["type"] = "null"
		}
		return ok
	}},
	{name: "enum narrowed", payload: true, apply: func(t *rapid.T, s schema) bool {
		values, ok := s["enum"].([]any)
		if ok {
			s["enum"] = append([]any{"other"}, values[1:]...)
		}
		return ok
	}},
	{name: "required added", apply: func(t *rapid.T, s schema) bool {
		p, ok := s["properties"].(schema)
		if ok {
			p["added"] = schema{"type": "string"}
			required, _ := s["required"].([]any)
			s["required"] = append(required, "added")
		}
		return ok
	}},
	{name: "bound tightened", apply: func(t *rapid.T, s schema) bool {
		for _, keyword := range []string{"maximum", "maxLength", "maxItems"} {
			if v, ok := s[keyword].(float64); ok && v > 0 {
				s[keyword] = v - 1
				return true
			}
		}
		return false
	}},
	{name: "closed", apply: func(t *rapid.T, s schema) bool {
		_, isObject := s["properties"]
		_, has := s["additionalProperties"]
		if isObject && !has {
			s["additionalProperties"] = false
		}
		return isObject && !has
	}},
	{name: "pattern added", apply: func(t *rapid.T, s schema) bool {
		if s["type"] == "string" {
			s["pattern"] = "^x"
		}
		return s["type"] == "string"
	}},
}
