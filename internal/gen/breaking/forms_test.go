package breaking_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// oracleSchemas are the shared schemas of every form.
var oracleSchemas = []string{
	`M: {type: object, required: [k], properties: {k: {type: string}, m: {type: string}}}`,
	`N: {type: object, required: [k], properties: {k: {type: string}, n: {type: integer, minimum: 0, maximum: 9}}}`,
	`O: {type: object, required: [k], properties: {k: {type: string}, m: {type: boolean}}}`,
	`Tree: {type: object, properties: {v: {type: string}, below: {type: array, items: {$ref: '#/schemas/Tree'}}}}`,
	`Level: {type: string, enum: [low, high]}`,
}

// oracleForms describe one member in every way that leads to another Go type or to another set of values.
// Those of one family are what authors change into each other.
var oracleForms = [][]string{{
	// Scalars and their bounds.
	`{type: string}`, `{type: string, maxLength: 3}`, `{type: string, pattern: '^a'}`, `{type: [string, 'null']}`,
	`{type: boolean}`, `{type: number}`, `{type: number, minimum: 0, maximum: 100}`,
	`{type: integer, minimum: 0, maximum: 100}`, `{type: integer, minimum: -9223372036854775808, maximum: 9223372036854775807}`,
	`{type: integer, minimum: 0, maximum: 18446744073709551615, x-go-type: math/big.Int}`,
	`{type: integer, exclusiveMinimum: -18446744073709551615, maximum: 0, x-go-type: math/big.Int}`,
	`{type: integer, exclusiveMaximum: 9223372036854775808, minimum: 0}`,
	`{type: [integer, 'null'], minimum: 0, maximum: 100}`, `{type: integer, minimum: 0, maximum: 100, multipleOf: 5}`,
	`{anyOf: [{type: integer, minimum: 0, maximum: 9}, {type: integer, minimum: 20, maximum: 18446744073709551615}], x-go-type: math/big.Int}`,
	`{allOf: [{type: integer}, {minimum: 1, maximum: 50}]}`,
}, {
	// Formats and encodings.
	`{type: string, format: date-time}`, `{type: string, format: date}`, `{type: string, format: uuid}`, `{type: string, format: stamp}`,
	`{type: string, format: address, pattern: '^10[.]0[.]0[.][0-9]$'}`, `{type: string, pattern: '^10[.]0[.]0[.][0-9]$'}`,
	`{type: string, contentEncoding: base64}`, `{type: string, contentEncoding: base32}`, `{type: [string, 'null'], format: date-time}`,
	`{anyOf: [{type: string, format: date-time}, {type: 'null'}]}`, `{anyOf: [{type: string, format: date-time}, {type: string}]}`,
}, {
	// Types of the author's choice.
	`{type: string, pattern: '^10[.]0[.]0[.][0-9]$', x-go-type: net/netip.Addr}`,
	`{type: integer, minimum: 0, maximum: 100, x-go-type: int32}`, `{type: integer, minimum: 0, maximum: 4294967296, x-go-type: uint64}`,
	`{type: integer, minimum: -5, maximum: 100, x-go-type: int8}`, `{type: integer, minimum: 0, maximum: 100, x-go-type: uint8}`,
	`{x-go-type: encoding/json.RawMessage}`,
}, {
	// Enums and constants.
	`{enum: [1, 2]}`, `{enum: [1, 2, 3]}`, `{enum: [1, 2, 18446744073709551615]}`, `{enum: [1, 2.5]}`, `{enum: [1, 2, null]}`,
	`{enum: [a, b]}`, `{enum: [a, b, c]}`, `{enum: [a, 1]}`, `{enum: [a, b, null]}`, `{const: a}`, `{const: b}`, `{const: 1}`,
	`{const: true}`, `{enum: [true, a]}`, `{const: {deep: [1]}}`, `{enum: [{deep: [1]}, {deep: [2]}]}`, `{oneOf: [{const: a, title: A}, {const: b}]}`,
	`{$ref: '#/schemas/Level'}`, `{type: string, enum: [low, high, top]}`, `{anyOf: [{enum: [a, b]}, {type: string}]}`,
	`{anyOf: [{const: a}, {type: string}]}`, `{anyOf: [{enum: [1, 2]}, {type: integer, minimum: 0, maximum: 9}]}`, `{anyOf: [{const: 1}, {type: integer, minimum: 0, maximum: 9}]}`,
	`{type: number, enum: [1, 2]}`, `{type: number, enum: [1, 2, 2.5]}`, `{type: [string, integer], minimum: 0, maximum: 18446744073709551615, x-go-type: encoding/json.RawMessage}`,
}, {
	// Arrays and tuples.
	`{type: array, items: {type: string}}`, `{type: array, items: {type: string}, maxItems: 2}`, `{type: array, items: {type: [string, 'null']}}`,
	`{type: array, items: {type: integer, minimum: 0, maximum: 9}}`, `{type: array, items: {enum: [1, 2]}}`, `{type: array, x-go-type: encoding/json.RawMessage}`,
	`{type: array, prefixItems: [{type: string}, {type: string}], items: false}`, `{type: array, prefixItems: [{type: string}], items: {type: integer, maximum: 9, minimum: 0}}`,
	`{type: array, prefixItems: [{type: string}], items: {type: string}}`, `{type: array, items: {type: integer, minimum: 0, maximum: 18446744073709551615, x-go-type: math/big.Int}}`,
	`{type: array, items: {type: string}, contains: {const: a}}`, `{type: array, items: {type: string}, uniqueItems: true}`,
}, {
	// Objects and maps.
	`{type: object, properties: {a: {type: string}}}`, `{type: object, properties: {a: {type: string}}, required: [a]}`,
	`{type: object, properties: {a: {type: string}}, additionalProperties: false}`, `{type: object, properties: {a: {type: string}, b: {type: integer, minimum: 0, maximum: 9}}}`,
	`{type: object, properties: {a: {type: string}, b: {type: string}}, additionalProperties: false}`,
	`{type: object, properties: {a: {type: [string, 'null']}}}`, `{type: object, properties: {a: {type: string}}, additionalProperties: {type: string}}`,
	`{type: object, properties: {a: {type: string}}, additionalProperties: true}`,
	`{type: object, additionalProperties: {type: string}}`, `{type: object, additionalProperties: {type: [string, 'null']}}`, `{type: object, additionalProperties: true}`,
	`{type: object, additionalProperties: {type: string, maxLength: 2}}`, `{type: object, additionalProperties: {enum: [a, b]}}`,
	`{type: object, patternProperties: {'^a': {type: string}}, additionalProperties: false}`,
	`{type: object, patternProperties: {'^a': {type: string}}}`,
	`{type: object, patternProperties: {'^a': {type: string}}, properties: {b: {type: integer, minimum: 0, maximum: 9}}, additionalProperties: false}`,
	`{type: object, patternProperties: {'^a': {type: string}, '^b': {type: string}}, additionalProperties: false}`,
	`{type: object, patternProperties: {'^a': {type: string}, '^b': {type: boolean}}, additionalProperties: false}`,
	`{type: object, properties: {a: {type: string}}, unevaluatedProperties: {type: boolean}}`,
	`{type: object, properties: {a: {type: string}}, dependentSchemas: {a: {properties: {b: {type: string}}}}}`,
	`{type: object, properties: {a: {type: string}}, if: {required: [a]}, then: {properties: {b: {type: string}}}}`,
	`{type: object, properties: {'a,b': {type: string}, c: {type: string}}}`,
	`{allOf: [{type: object, properties: {a: {type: string}}}, {type: object, properties: {b: {type: integer, minimum: 0, maximum: 9}}}]}`,
	`{type: object, properties: {a: {type: string}}, minProperties: 1}`, `{type: object, propertyNames: {pattern: '^a'}, additionalProperties: {type: string}}`,
	`{$ref: '#/schemas/Tree'}`, `{type: object, properties: {v: {type: string}, below: {type: array, items: {type: object}}}}`,
	`{type: object, properties: {a: {type: object, properties: {a: {enum: [1, 2]}}}}}`,
	`{type: object, properties: {a: {type: object, properties: {a: {enum: [1, 2, 18446744073709551615]}}}}}`,
}, {
	// Unions.
	`{oneOf: [{$ref: '#/schemas/M'}, {$ref: '#/schemas/N'}], discriminator: {propertyName: k, mapping: {m: '#/schemas/M', n: '#/schemas/N'}}}`,
	`{oneOf: [{$ref: '#/schemas/M'}, {$ref: '#/schemas/N'}], discriminator: {propertyName: k, mapping: {mm: '#/schemas/M', n: '#/schemas/N'}}}`,
	`{oneOf: [{$ref: '#/schemas/M'}, {$ref: '#/schemas/N'}], discriminator: {propertyName: k, mapping: {n: '#/schemas/M', m: '#/schemas/N'}}}`,
	`{oneOf: [{$ref: '#/schemas/M'}, {$ref: '#/schemas/N'}, {$ref: '#/schemas/O'}], discriminator: {propertyName: k, mapping: {m: '#/schemas/M', n: '#/schemas/N', o: '#/schemas/O'}}}`,
	`{anyOf: [{$ref: '#/schemas/O'}, {$ref: '#/schemas/N'}], discriminator: {propertyName: k, mapping: {m: '#/schemas/O', n: '#/schemas/N'}}}`,
	`{oneOf: [{$ref: '#/schemas/M'}, {$ref: '#/schemas/N'}], discriminator: {propertyName: k}}`,
	`{oneOf: [{$ref: '#/schemas/M'}, {$ref: '#/schemas/N'}], x-go-type: encoding/json.RawMessage}`,
	`{oneOf: [` + card + `, ` + bank + `]}`, `{oneOf: [` + card + `, ` + bank + `, ` + cash + `]}`, `{oneOf: [` + bank + `, ` + card + `]}`,
	`{oneOf: [` + card + `, ` + bank + `, {type: 'null'}]}`, card, `{oneOf: [` + card + `, ` + bank + `], discriminator: {propertyName: kind}}`,
	`{oneOf: [` + strings.Replace(card, "no: {type: string}", "no: {type: boolean}", 1) + `, ` + bank + `]}`,
	`{oneOf: [{type: object, required: [kind], properties: {kind: {const: 1}}}, {type: object, required: [kind], properties: {kind: {const: 2}}}]}`,
	`{anyOf: [{type: string}, {type: boolean}], x-go-type: encoding/json.RawMessage}`,
	`{oneOf: [{type: string, maxLength: 2}, {type: string, minLength: 4}]}`, `{anyOf: [{type: number}, {type: integer}]}`,
	`{type: object, properties: {a: {type: string}, b: {type: integer, minimum: 0, maximum: 9}}, anyOf: [{required: [a]}, {required: [b]}]}`,
}, {
	// Unions by JSON type, and by members.
	`{type: [string, boolean]}`, `{type: [string, boolean, 'null']}`, `{type: [string, boolean, object]}`, `{type: [string, integer], minimum: 0, maximum: 100}`,
	`{type: [string, number]}`, `{type: [string, integer, array], minimum: 0, maximum: 100, items: {type: string}}`, `{type: [string, boolean], maxLength: 2}`,
	`{anyOf: [{type: string, format: date-time}, {type: boolean}]}`, `{anyOf: [{type: string}, ` + card + `]}`, `{anyOf: [{type: string}, ` + card + `, ` + bank + `]}`,
	`{anyOf: [{type: string}, ` + card + `, ` + bank + `, ` + cash + `, {type: array, items: {type: string}}]}`, `{anyOf: [{enum: [a, b]}, {type: boolean}]}`,
	`{anyOf: [{const: false}, {type: object, properties: {a: {type: string}}}]}`, `{anyOf: [{type: boolean}, {type: object, additionalProperties: {type: string}}]}`,
	`{anyOf: [` + hasA + `, ` + hasB + `]}`, `{anyOf: [` + hasB + `, ` + hasA + `, {type: string}]}`, `{oneOf: [` + hasA + `, ` + hasB + `, ` + hasC + `]}`,
	`{anyOf: [` + hasA + `, ` + strings.Replace(hasB, "{type: string}", "{type: boolean}", 1) + `]}`, hasA,
	`{anyOf: [` + hasA + `, ` + hasB + `, {type: object, required: [k], properties: {k: {type: string}, a: {type: boolean}}}]}`,
	`{anyOf: [{type: string}, {type: boolean}], x-go-type: encoding/json.RawMessage}`,
}, {
	// Constraints without an order.
	`{type: string, not: {const: a}}`, `{type: string, not: {const: b}}`,
}}

const (
	card = `{type: object, required: [kind], properties: {kind: {const: card}, no: {type: string}}}`
	bank = `{type: object, required: [kind], properties: {kind: {const: bank}, iban: {type: string}}}`
	hasA = `{type: object, required: [a], properties: {a: {type: string}, v: {type: string}}}`
	hasB = `{type: object, required: [b], properties: {b: {type: string}, v: {type: integer, minimum: 0, maximum: 9}}}`
	hasC = `{type: object, required: [c], properties: {c: {type: string}, v: {type: boolean}}}`
	cash = `{type: object, required: [kind], properties: {kind: {const: cash}, no: {type: integer, minimum: 0, maximum: 9}}}`
)

// A drawer draws values that a schema may accept, by its keywords and with strays; edges first.
type drawer struct {
	rand *rand.Rand
	root map[string]any
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// strays are values of every type, at the edges of what Go types hold.
var strays = []string{
	`null`, `true`, `false`, `0`, `1`, `2`, `3`, `5`, `-1`, `1.0`, `1e1`, `2.5`, `100`, `101`, `127`, `128`, `255`, `256`, `4294967296`,
	`9223372036854775807`, `9223372036854775808`, `-9223372036854775808`, `-9223372036854775809`, `18446744073709551615`, `1e30`,
	`""`, `"a"`, `"b"`, `"c"`, `"aa"`, `"abcd"`, `"low"`, `"top"`, `"2027-03-01"`, `"2027-03-01T10:00:00Z"`, `"1990-12-31T23:59:60Z"`, `"2027-03-01t10:00:00.5+01:00"`,
	`"3e2c1a54-6ef5-4d4c-9b5f-2f9f0a4c3c11"`, `"YQ=="`, `"!"`, `"10.0.0.1"`, `"10.0.0.9"`, `"10.0.0.1/8"`, `"\u00e9\ud83d\ude00"`,
	`[]`, `["a"]`, `["a",1]`, `["a",null]`, `["a","b","c"]`, `[1,2]`, `[18446744073709551615]`, `{}`, `{"a":"b"}`, `{"a":1}`, `{"a":null}`, `{"b":1}`, `{"b":"x","a":"y"}`,
	`{"a":"b","v":"x"}`, `{"b":"x","v":1}`, `{"c":"x","v":true}`, `{"b":true}`, `{"k":"x","a":true}`, `["x",{}]`, `{"k":"m","m":"s"}`, `{"k":"mm","m":"s"}`, `{"k":"n","n":1}`, `{"k":"o","m":true}`, `{"k":"M"}`, `{"kind":"card","no":"1"}`, `{"kind":"bank"}`, `{"kind":"cash","no":1}`, `{"deep":[1]}`, `{"deep":[2]}`,
}

func (d *drawer) stray() any { return json.RawMessage(pick(d.rand, strays)) }

func (d *drawer) value(s any, depth int) any {
	m, _ := s.(map[string]any)
	if m == nil || depth == 0 || d.rand.IntN(6) == 0 && depth < 5 {
		return d.stray()
	}
	if ref, ok := m["$ref"].(string); ok {
		var to any = d.root
		for token := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			to, _ = to.(map[string]any)[token]
		}
		return d.value(to, depth)
	}
	if v, ok := m["const"]; ok {
		return v
	}
	if list, ok := m["enum"].([]any); ok {
		return pick(d.rand, list)
	}
	for _, k := range []string{"oneOf", "anyOf", "allOf"} {
		if list, ok := m[k].([]any); ok && m["properties"] == nil {
			if k != "allOf" {
				return d.tagged(m, d.value(pick(d.rand, list), depth))
			}
			merged := map[string]any{}
			for _, part := range list {
				if v, ok := d.value(part, depth).(map[string]any); ok {
					maps.Copy(merged, v)
				} else if d.rand.IntN(2) == 0 {
					return d.stray()
				}
			}
			return merged
		}
	}
	switch m["type"] {
	case "object":
		return d.object(m, depth-1)
	case "array":
		list := []any{}
		prefix, _ := m["prefixItems"].([]any)
		for i := range d.rand.IntN(4) {
			if i < len(prefix) {
				list = append(list, d.value(prefix[i], depth-1))
			} else {
				list = append(list, d.value(m["items"], depth-1))
			}
		}
		return list
	case "integer":
		if d.rand.IntN(2) == 0 {
			return d.rand.IntN(120) - 10
		}
	case "number":
		if d.rand.IntN(2) == 0 {
			return d.rand.Float64() * 200
		}
	case "string":
		if d.rand.IntN(3) == 0 {
			b := make([]byte, d.rand.IntN(6))
			for i := range b {
				b[i] = "abc10.:-TZ"[d.rand.IntN(10)]
			}
			return string(b)
		}
	}
	return d.stray()
}

// tagged gives a variant a tag that the discriminator maps.
func (d *drawer) tagged(union map[string]any, v any) any {
	discriminator, _ := union["discriminator"].(map[string]any)
	mapping, _ := discriminator["mapping"].(map[string]any)
	if object, ok := v.(map[string]any); ok && len(mapping) > 0 && d.rand.IntN(4) > 0 {
		object["k"] = pick(d.rand, slices.Sorted(maps.Keys(mapping)))
	}
	return v
}

func (d *drawer) object(m map[string]any, depth int) any {
	out := map[string]any{}
	properties, _ := m["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if d.rand.IntN(4) > 0 {
			out[name] = d.value(properties[name], depth)
		}
	}
	for range d.rand.IntN(3) {
		name := pick(d.rand, []string{"a", "b", "ab", "ba", "other", "k"})
		if out[name] != nil || properties[name] != nil || depth >= 4 {
			continue
		}
		if others, ok := m["additionalProperties"].(map[string]any); ok {
			out[name] = d.value(others, depth)
		} else if d.rand.IntN(2) == 0 {
			out[name] = "s"
		} else {
			out[name] = d.stray()
		}
	}
	return out
}
