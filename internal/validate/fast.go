package validate

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A shape validates JSON while reading it, without decoding it into values. It supports the most common keywords. If a
// shape accepts a value, the value is valid. Otherwise the full validator decides and returns the errors. A schema with
// other keywords does not have a shape.
type shape struct {
	types      schematree.Types
	properties map[string]member
	required   uint64 // bits of the required members
	additional *shape // nil means closed
	items      *shape
	minItems   int64
	maxItems   int64
	minLength  int64
	maxLength  int64
	minimum    *int64
	maximum    *int64
	enum       map[string]bool // strings; nil means any
	pattern    jsonschema.Regexp
	format     func(string) bool
	base64     bool
	byKind     map[jsontext.Kind]*shape // for a union whose variants differ in kind
	to         *shape                   // for a reference
}

type member struct {
	*shape
	bit uint64
}

// typesOf returns the types that a value of a kind may have.
func typesOf(k jsontext.Kind) schematree.Types {
	switch k {
	case 'n':
		return schematree.Null
	case 't', 'f':
		return schematree.Boolean
	case '0':
		return schematree.Number
	case '"':
		return schematree.String
	case '[':
		return schematree.Array
	case '{':
		return schematree.Object
	}
	return 0
}

// anyShape is the shape of the schema {}.
var anyShape = func() *shape {
	s := &shape{types: schematree.AnyType, maxItems: -1, maxLength: -1}
	s.additional, s.items = s, s
	return s
}()

// acceptsAll reports whether raw is a single JSON value that s accepts.
func (s *shape) acceptsAll(raw []byte) bool {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	return s.accepts(dec) && len(bytes.Trim(raw[dec.InputOffset():], " \t\r\n")) == 0
}

// forKind returns the shape of values of a kind, or nil if s does not accept the kind.
func (s *shape) forKind(kind jsontext.Kind) *shape {
	for s != nil && (s.to != nil || s.byKind != nil) {
		if s.to != nil {
			s = s.to
		} else {
			s = s.byKind[kind]
		}
	}
	if s == nil || s.types&typesOf(kind) == 0 {
		return nil
	}
	return s
}

func (s *shape) accepts(dec *jsontext.Decoder) bool {
	kind := dec.PeekKind()
	if s = s.forKind(kind); s == nil {
		return false
	}
	switch kind {
	case '{':
		return s.acceptsObject(dec)
	case '[':
		return s.acceptsArray(dec)
	}
	val, err := dec.ReadValue()
	return err == nil && s.acceptsScalar(kind, val)
}

func (s *shape) acceptsScalar(kind jsontext.Kind, val jsontext.Value) bool {
	switch kind {
	case '"':
		return s.acceptsString(val)
	case '0':
		return s.acceptsNumber(val)
	}
	return s.enum == nil
}

func (s *shape) acceptsObject(dec *jsontext.Decoder) bool {
	if _, err := dec.ReadToken(); err != nil || dec.StackDepth() > wire.MaxDepth || s.enum != nil {
		return false
	}
	missing := s.required
	for dec.PeekKind() == '"' {
		name, err := dec.ReadValue()
		if err != nil {
			return false
		}
		text, ok := codec.Unquote(name)
		if !ok {
			return false
		}
		if m, known := s.properties[string(text)]; known {
			missing &^= m.bit
			if !m.accepts(dec) {
				return false
			}
		} else if s.additional == nil || !s.additional.accepts(dec) {
			return false
		}
	}
	_, err := dec.ReadToken()
	return err == nil && missing == 0
}

func (s *shape) acceptsArray(dec *jsontext.Decoder) bool {
	if _, err := dec.ReadToken(); err != nil || dec.StackDepth() > wire.MaxDepth || s.enum != nil {
		return false
	}
	n := int64(0)
	for ; dec.PeekKind() != ']'; n++ {
		if !s.items.accepts(dec) {
			return false
		}
	}
	_, err := dec.ReadToken()
	return err == nil && n >= s.minItems && (s.maxItems < 0 || n <= s.maxItems)
}

func (s *shape) acceptsString(val jsontext.Value) bool {
	if s.enum == nil && s.pattern == nil && s.format == nil && !s.base64 && s.minLength == 0 && s.maxLength < 0 {
		return true
	}
	text, ok := codec.Unquote(val)
	if !ok || s.enum != nil && !s.enum[string(text)] {
		return false
	}
	if s.minLength > 0 || s.maxLength >= 0 {
		n := int64(utf8.RuneCount(text))
		if n < s.minLength || s.maxLength >= 0 && n > s.maxLength {
			return false
		}
	}
	if s.base64 {
		if _, err := base64Text.Decode(string(text)); err != nil {
			return false
		}
	}
	return (s.pattern == nil || s.pattern.MatchString(string(text))) && (s.format == nil || s.format(string(text)))
}

// acceptsNumber reports whether s accepts a number. If the schema does not allow all numbers, it accepts only integers
// that fit into int64.
func (s *shape) acceptsNumber(val jsontext.Value) bool {
	if s.enum != nil {
		return false
	}
	if s.types&schematree.Fraction != 0 && s.minimum == nil && s.maximum == nil {
		return bytes.IndexByte(val, 'e') < 0 && bytes.IndexByte(val, 'E') < 0 // the exponent is limited
	}
	n, err := strconv.ParseInt(string(val), 10, 64)
	return err == nil && (s.minimum == nil || n >= *s.minimum) && (s.maximum == nil || n <= *s.maximum)
}
