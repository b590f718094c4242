package schema

import (
	"bytes"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Fingerprint returns the wire.Fingerprint of two published schemas. It canonicalizes each shared definition only once.
func (s *Set) Fingerprint(input, payload *published.Schema) (string, error) {
	in, err1 := s.canonical(input)
	out, err2 := s.canonical(payload)
	if err1 != nil || err2 != nil {
		return wire.Fingerprint(input.JSON(), payload.JSON()) // its error names the place
	}
	return wire.CanonicalFingerprint(in, out), nil
}

// mark is a placeholder for the definitions while the remaining text is canonicalized.
const mark = `"":"the definitions of mcpe-gen"`

// canonical returns the canonical form of a schema with its definitions.
func (s *Set) canonical(top *published.Schema) ([]byte, error) {
	defs := top.Definitions()
	plain := !slices.ContainsFunc(defs, func(d *published.Schema) bool { return strings.Trim(d.Name, letters) != "" })
	if len(defs) == 0 || !bytes.HasSuffix(top.Head, []byte("{")) || !plain {
		return wire.CanonicalSchema(top.JSON())
	}
	whole, err := wire.CanonicalSchema(slices.Concat(top.Head, []byte(mark), top.Tail))
	if err != nil {
		return nil, err
	}
	before, after, _ := bytes.Cut(whole, []byte(mark))
	if bytes.Contains(after, []byte(mark)) {
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
		out = append(append(source.AppendString(out, d.Name), ':'), text...)
	}
	return append(out, after...), nil
}

// letters contains the characters that all JSON encoders sort and write identically.
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

func (s *Set) canonicalDefinition(d *published.Schema) ([]byte, error) {
	if text, ok := s.published.canonical.Load(d); ok {
		return text.([]byte), nil
	}
	// The wrapper has the same nesting depth as definitions in a schema, because nesting is limited.
	text, err := wire.CanonicalSchema(slices.Concat([]byte(`{"":{"":`), d.Head, []byte("}}")))
	if err != nil {
		return nil, err
	}
	text = text[len(`{"":{"":`) : len(text)-len("}}")]
	s.published.canonical.Store(d, text)
	return text, nil
}
