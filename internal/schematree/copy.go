package schematree

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Copy returns a compact copy of a schema. It replaces each reference in $ref and in discriminator mappings with the
// result of to. It does not change data, such as the value of const, names in a mapping, or a nested schema with an
// $id. Copy also searches the values of unknown keywords. If the text is not JSON, it returns the text unchanged.
func Copy(schema json.RawMessage, to func(ref string) string) json.RawMessage {
	if !mayRefer(schema) {
		return schema
	}
	f := refFinder{dec: jsontext.NewDecoder(bytes.NewBuffer(schema), jsontext.AllowDuplicateNames(true))}
	if f.readSchema() != nil {
		return schema
	}
	out, from := make([]byte, 0, len(schema)+32*len(f.found)), 0
	for _, r := range f.found {
		now := to(r.ref)
		if now == r.ref {
			continue
		}
		var err error
		if out, err = jsontext.AppendQuote(append(out, schema[from:r.start]...), now); err != nil {
			return schema // not UTF-8
		}
		from = r.end
	}
	if from == 0 {
		return schema
	}
	return append(out, schema[from:]...)
}

// Move rewrites the references of a schema that moves from the root of its document to a pointer such as
// #/properties/data.
func Move(schema json.RawMessage, pointer string) json.RawMessage {
	return Copy(schema, func(ref string) string { return Moved(ref, pointer) })
}

// Moved rewrites a reference for a schema that moves from the root of its document to a pointer.
func Moved(ref, pointer string) string {
	if ref == "#" || strings.HasPrefix(ref, "#/") {
		return pointer + ref[1:]
	}
	return ref
}

// mayRefer reports whether the schema may contain references. Names may contain escapes.
func mayRefer(schema []byte) bool {
	return bytes.Contains(schema, []byte(`"$ref"`)) || bytes.Contains(schema, []byte(`"mapping"`)) || bytes.Contains(schema, []byte(`\u`))
}

// Movable reports whether a text has the same meaning in a separate document. Such a text does not have identifiers or
// references that depend on their location.
func Movable(text []byte) bool {
	return !slices.ContainsFunc([]string{`"$id"`, `"$anchor"`, `"$dynamicAnchor"`, `"$dynamicRef"`, `"$recursiveAnchor"`, `"$recursiveRef"`},
		func(keyword string) bool { return bytes.Contains(text, []byte(keyword)) })
}

// A refFinder reads a schema once and collects its references in text order.
type refFinder struct {
	dec   *jsontext.Decoder
	name  []byte // of the current member, for members
	found []placedRef
}

// A placedRef is a reference with the position of its JSON string.
type placedRef struct {
	ref        string
	start, end int
}

// readSchema reads a schema or a list of schemas. Other values have no references.
func (f *refFinder) readSchema() error {
	if f.dec.PeekKind() == '[' {
		return f.list()
	}
	before, resource := len(f.found), false
	err := f.readMembers(func(name []byte) error {
		k, known := Any.keywords[string(name)]
		switch {
		case string(name) == "$ref":
			return f.ref(false)
		case string(name) == "discriminator":
			return f.discriminator()
		case k.Holds == Map || k.Holds == SchemasOrNames:
			return f.readMembers(func([]byte) error { return f.readSchema() })
		case !known || k.Holds != Nothing:
			return f.readSchema()
		}
		resource = resource || string(name) == "$id"
		return f.dec.SkipValue()
	})
	if resource {
		f.found = f.found[:before]
	}
	return err
}

func (f *refFinder) list() error {
	if _, err := f.dec.ReadToken(); err != nil {
		return err
	}
	for f.dec.PeekKind() != ']' {
		if err := f.readSchema(); err != nil {
			return err
		}
	}
	_, err := f.dec.ReadToken()
	return err
}

// readMembers calls read for the value of each member of an object. It skips any other value. The name is valid only
// until read calls members.
func (f *refFinder) readMembers(read func(name []byte) error) error {
	if f.dec.PeekKind() != '{' {
		return f.dec.SkipValue()
	}
	if _, err := f.dec.ReadToken(); err != nil {
		return err
	}
	for f.dec.PeekKind() == '"' {
		key, err := f.dec.ReadValue()
		if err != nil {
			return err
		}
		if f.name, err = jsontext.AppendUnquote(f.name[:0], key); err != nil {
			return err
		}
		if err := read(f.name); err != nil {
			return err
		}
	}
	_, err := f.dec.ReadToken()
	return err
}

// discriminator reads OpenAPI's keyword. The values in its mapping are references, or names without a #.
func (f *refFinder) discriminator() error {
	return f.readMembers(func(name []byte) error {
		if string(name) != "mapping" {
			return f.dec.SkipValue()
		}
		return f.readMembers(func([]byte) error { return f.ref(true) })
	})
}

// ref reads a reference. It ignores names and values that are not strings.
func (f *refFinder) ref(mayBeName bool) error {
	raw, err := f.dec.ReadValue()
	if err != nil || raw.Kind() != '"' {
		return err
	}
	ref, err := jsontext.AppendUnquote(nil, raw)
	if end := int(f.dec.InputOffset()); !mayBeName || strings.Contains(string(ref), "#") {
		f.found = append(f.found, placedRef{string(ref), end - len(raw), end})
	}
	return err
}
