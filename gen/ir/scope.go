package ir

import (
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// A scope is a set of Go identifiers that must differ: those of the package, of a struct or of an
// enum's constants.
type scope map[string]declared

type declared struct {
	what string
	at   source.Range
}

// declare enters name for what, written at, and reports whether it was free. One that is taken is
// reported with both places.
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

// segment is what a nested type adds to the name of the one that holds it.
func segment(node *source.Node, s string) string {
	if n := node.Get("x-go-name"); n != nil {
		return n.Text
	}
	return s
}

// goName returns the identifier for the name s of node, which x-go-name may override; that it is an
// exported identifier was checked when the file was loaded.
func goName(node *source.Node, s string) string {
	return segment(node, GoName(s))
}
