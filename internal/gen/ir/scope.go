package ir

import (
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// A scope is a set of Go identifiers that must be distinct: those of the package, a struct or the constants of an
// enum.
type scope map[string]declared

type declared struct {
	what string
	at   source.Range
}

// declare adds a name to the scope and reports whether it was unused. A diagnostic about a duplicate contains both
// positions.
func (b *builder) declare(s scope, name, what string, at source.Range) bool {
	if prev, taken := s[name]; taken {
		d := source.New("MCPE206", at, "%s and %s both become the Go name %s", what, prev.what, name)
		if prev.at.Start.File != "" {
			d = d.WithRelated(prev.at, "%s is here", prev.what)
		}
		b.report(d.WithHint("give one of them x-go-name"))
		return false
	}
	s[name] = declared{what, at}
	return true
}

// segment returns the x-go-name of node, or s without one. It is for the part of a nested type's name that follows the
// container's name.
func segment(node *source.Node, s string) string {
	if n := node.Get("x-go-name"); n != nil {
		return n.Text
	}
	return s
}

// goName returns the identifier for the name s of node, or its x-go-name. If the object also has a member url, _url is
// UnderscoreURL.
func (b *builder) goName(node *source.Node, s string) string {
	if hasTwin(b.originalOf(node), s) {
		return segment(node, exported(spelledOut(s)))
	}
	return segment(node, GoName(s))
}

// hasTwin reports whether the object has another member with the same name except for leading or trailing separators.
func hasTwin(node *source.Node, s string) bool {
	stem := trimmed(s)
	if stem == s || stem == "" || node.Parent == nil {
		return false
	}
	if key, _ := node.Key(); key != s {
		return false
	}
	return slices.ContainsFunc(node.Parent.Members, func(m source.Member) bool {
		return m.Key != s && trimmed(m.Key) == stem && m.Value.Get("x-go-name") == nil
	})
}
