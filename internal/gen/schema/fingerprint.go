package schema

import (
	"bytes"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Fingerprint returns the wire.Fingerprint of two published schemas. It canonicalizes each shared definition only once.
func (s *Set) Fingerprint(input, payload *published.Schema) (string, error) {
	in, err1 := s.canonicalForm(input)
	out, err2 := s.canonicalForm(payload)
	if err1 != nil || err2 != nil {
		return wire.Fingerprint(input.JSON(), payload.JSON()) // its error names the place
	}
	return wire.CanonicalFingerprint(in, out), nil
}

// definitionsMark replaces the definitions while the rest of a schema is canonicalized.
const definitionsMark = `"":"the definitions of mcpe-gen"`

// canonicalForm returns the canonical form of a schema with its definitions.
func (s *Set) canonicalForm(top *published.Schema) ([]byte, error) {
	defs := top.Definitions()
	plain := !slices.ContainsFunc(defs, func(d *published.Schema) bool { return strings.Trim(d.Name, plainCharacters) != "" })
	if len(defs) == 0 || !bytes.HasSuffix(top.Head, []byte("{")) || !plain {
		return wire.CanonicalSchema(top.JSON())
	}
	whole, err := wire.CanonicalSchema(slices.Concat(top.Head, []byte(definitionsMark), top.Tail))
	if err != nil {
		return nil, err
	}
	before, after, _ := bytes.Cut(whole, []byte(definitionsMark))
	if bytes.Contains(after, []byte(definitionsMark)) {
		return wire.CanonicalSchema(top.JSON())
	}
	slices.SortFunc(defs, func(a, b *published.Schema) int { return strings.Compare(a.Name, b.Name) })
	out := slices.Clone(before)
	for i, d := range defs {
		text, err := s.canonicalDefinition(d)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(schematree.AppendString(out, d.Name), ':'), text...)
	}
	return append(out, after...), nil
}

// plainCharacters contains the characters that all JSON encoders sort and write identically.
const plainCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

func (s *Set) canonicalDefinition(d *published.Schema) ([]byte, error) {
	if text, ok := s.published.canonical.Load(d); ok {
		return text.([]byte), nil
	}
	// Nesting is limited, so the wrapper has the same depth as the definitions of a schema.
	text, err := wire.CanonicalSchema(slices.Concat([]byte(`{"":{"":`), d.Head, []byte("}}")))
	if err != nil {
		return nil, err
	}
	text = text[len(`{"":{"":`) : len(text)-len("}}")]
	s.published.canonical.Store(d, text)
	return text, nil
}
