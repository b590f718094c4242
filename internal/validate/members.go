package validate

import (
	"bytes"
	"encoding/json"
	"iter"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Members holds the members of a valid object. An object that shares some of them is valid if its other members are.
type Members struct {
	of    *shape
	known map[string]uint64 // bits of the declared members, by the member's text
}

// Members returns the members of an object. It returns nil if the object is not valid, or if the validity of a member
// can depend on other members.
func (s *Schema) Members(object json.RawMessage) *Members {
	if s.fast == nil || s.Validate(object) != nil {
		return nil
	}
	m := &Members{of: s.fast.forKind('{'), known: map[string]uint64{}}
	compact := jsontext.Value(bytes.Clone(object))
	if m.of == nil || compact.Compact() != nil {
		return nil
	}
	for member := range membersOf(compact) {
		if name, ok := codec.Unquote(member[:stringEnd(member)]); ok {
			m.known[string(member)] = m.of.properties[string(name)].bit
		}
	}
	return m
}

// Accept reports whether a value is certainly valid. It only validates the members that m does not have. The value must
// be compact JSON without duplicate members, as codec.Encode writes it. If m is nil, Accept returns false.
func (m *Members) Accept(object json.RawMessage) bool {
	if m == nil || len(object) == 0 || object[0] != '{' {
		return false
	}
	missing := m.of.required
	for member := range membersOf(object) {
		bit, valid := m.known[string(member)]
		if !valid {
			if bit, valid = m.of.acceptsMember(member); !valid {
				return false
			}
		}
		missing &^= bit
	}
	return missing == 0
}

// acceptsMember reports whether s accepts a member of an object. It also returns the bit of the member.
func (s *shape) acceptsMember(text []byte) (bit uint64, ok bool) {
	end := stringEnd(text)
	name, ok := codec.Unquote(text[:end])
	of, declared := s.properties[string(name)]
	if !declared {
		of.shape = s.additional
	}
	value := jsontext.Value(text[end+1:])
	kind := value.Kind()
	if of.shape = of.forKind(kind); !ok || of.shape == nil {
		return 0, false
	}
	if kind == '{' || kind == '[' {
		return of.bit, !codec.Deeper(value, wire.MaxDepth-1) && of.acceptsAll(value)
	}
	return of.bit, of.acceptsScalar(kind, value)
}

// membersOf returns the texts of the members of a compact object.
func membersOf(object []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		begin, depth := 1, 0
		for i := 1; i < len(object); i++ {
			switch object[i] {
			case '"':
				i += stringEnd(object[i:]) - 1
			case '{', '[':
				depth++
			case '}', ']', ',':
				if depth == 0 && i > begin {
					if !yield(object[begin:i]) {
						return
					}
					begin = i + 1
				}
				if object[i] != ',' {
					depth--
				}
			}
		}
	}
}

// stringEnd returns the length of the JSON string at the start of text.
func stringEnd(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}
