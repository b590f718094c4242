// Package toolargs reads the arguments of tool calls as agent hosts send them. Some hosts send arrays, objects, numbers
// and booleans as JSON text in a string, and null for an optional argument. [Decode] converts such arguments for the
// tools of servers and of the bridge. The methods of the protocol never use it.
package toolargs

import (
	"bytes"
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

// maxSteps is the maximum number of schemas that a call looks at. Beyond it, values remain as they are.
const maxSteps = 10_000

// Decode returns arguments in the form that the schema allows. It replaces a string that the schema does not allow by
// the value that the text encodes, once, if the schema allows the value's type. It omits null for an optional member of
// the arguments that does not allow null. All other arguments remain as they are, so that validation reports what is
// wrong. schema is an inputSchema of any type that encodes to JSON.
func Decode(schema any, args json.RawMessage) json.RawMessage {
	value, err := validate.Decode(args)
	if err != nil {
		return args
	}
	w := &walker{schema: schema, steps: maxSteps}
	value = w.value(value, w.root)
	members, _ := value.(map[string]any)
	for name, v := range members {
		if v == nil && w.isOptional(name) {
			delete(members, name)
			w.changed = true
		}
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if !w.changed || enc.Encode(value) != nil {
		return args
	}
	return bytes.TrimSpace(out.Bytes())
}

// A walker walks through the arguments of a call.
type walker struct {
	schema  any
	parsed  *schematree.Node // of schema; set when a value needs it
	steps   int
	changed bool
}

// A place is a place in the arguments. It calls allows for each schema that applies to the value there, and combines the
// results: a value must fulfil all schemas, but only one of those in anyOf and oneOf.
type place func(allows func(schematree.Node) schematree.Types) schematree.Types

// root is the place of the arguments themselves.
func (w *walker) root(allows func(schematree.Node) schematree.Types) schematree.Types {
	if w.parsed == nil {
		raw, _ := json.Marshal(w.schema)
		doc, _ := validate.Decode(raw) // nil allows everything
		root := schematree.NewNode(doc)
		w.parsed = &root
	}
	return w.combine(*w.parsed, allows)
}

// inner returns a place below another. schemas returns the schemas for it in a schema for the other.
func (w *walker) inner(at place, schemas func(schematree.Node) []schematree.Node) place {
	return func(allows func(schematree.Node) schematree.Types) schematree.Types {
		return at(func(n schematree.Node) schematree.Types {
			types := schematree.AnyType
			for _, m := range schemas(n) {
				types &= w.combine(m, allows)
			}
			return types
		})
	}
}

func (w *walker) member(at place, name string) place {
	return w.inner(at, func(n schematree.Node) []schematree.Node { return schematree.Member([]schematree.Node{n}, name) })
}

func (w *walker) combine(n schematree.Node, allows func(schematree.Node) schematree.Types) schematree.Types {
	_, isResource := n.Find("$id")
	switch w.steps--; {
	case w.steps < 0 || isResource && n.Identity() != "": // references in a nested resource mean something else
		return schematree.AnyType
	case n.Value() == false:
		return 0
	}
	types := allows(n)
	schematree.Applied(schematree.Local{}, n, func(m schematree.Node) { types &= w.combine(m, allows) }, "$ref", "allOf")
	for _, keyword := range []string{"anyOf", "oneOf"} {
		either, given := schematree.Types(0), false
		schematree.Applied(schematree.Local{}, n, func(m schematree.Node) { either, given = either|w.combine(m, allows), true }, keyword)
		if given {
			types &= either
		}
	}
	return types
}

// declared returns the types that the keywords type, const and enum of a schema allow.
func declared(n schematree.Node) schematree.Types {
	types := schematree.Declared(n)
	if v, ok := n.Find("const"); ok {
		types &= schematree.TypeOf(v.Value())
	}
	if list, ok := n.Find("enum"); ok {
		var listed schematree.Types
		values, _ := list.Elements()
		for _, v := range values {
			listed |= schematree.TypeOf(v.Value())
		}
		types &= listed
	}
	return types
}

// value returns the value at a place with its strings decoded.
func (w *walker) value(value any, at place) any {
	switch v := value.(type) {
	case string:
		decoded, err := validate.Decode([]byte(v))
		if err != nil {
			break
		}
		if types := at(declared); types&schematree.String == 0 && types&schematree.TypeOf(decoded) != 0 {
			w.changed = true
			return decoded
		}
	case []any:
		for i := range v {
			v[i] = w.value(v[i], w.inner(at, func(n schematree.Node) []schematree.Node { return schematree.Element([]schematree.Node{n}, i) }))
		}
	case map[string]any:
		for name := range v {
			v[name] = w.value(v[name], w.member(at, name))
		}
	}
	return value
}

// isOptional reports whether a member of the arguments is described, does not allow null and may be absent.
func (w *walker) isOptional(name string) bool {
	types := w.member(w.root, name)(declared)
	return types != 0 && types&schematree.Null == 0 && w.root(func(n schematree.Node) schematree.Types {
		required, _ := n.Find("required")
		list, _ := required.Elements()
		for _, v := range list {
			if v.Value() == name {
				return 0
			}
		}
		return schematree.AnyType
	}) != 0
}
