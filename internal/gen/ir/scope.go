package ir

import (
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// A scope is a set of Go identifiers that must be distinct: those of a package, a struct or the constants of an enum.
type scope map[string]declared

type declared struct {
	what string
	at   source.Range
}

// declareName adds a name to the scope and reports whether the name was unused. If it was used, declareName adds a
// diagnostic with both positions.
func (b *builder) declareName(s scope, name, what string, at source.Range) bool {
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

// declareNames adds the names of an event, a task or the conversation to the scopes of the three packages. It stops at
// the first name that is used. Names are reserved even for code that is not emitted, so emitting more code never causes
// a collision.
func (b *builder) declareNames(by declared, types, server, client []string) {
	for i, names := range [][]string{types, server, client} {
		for _, name := range names {
			if !b.declareName([]scope{b.names, b.serverNames, b.clientNames}[i], name, by.what, by.at) {
				return
			}
		}
	}
}

// nameSegment returns the x-go-name of node, or s if node has no x-go-name. The result follows the container's name in
// the name of a nested type.
func nameSegment(node *source.Node, s string) string {
	if n := node.Get("x-go-name"); n != nil {
		return n.Text
	}
	return s
}

// goName returns the x-go-name of node, or otherwise an identifier for its name s. For example, _url becomes
// UnderscoreURL if the object also has a member url.
func (b *builder) goName(node *source.Node, s string) string {
	if hasTwin(b.originalOf(node), s) {
		return nameSegment(node, ensureExported(spellOutSuffix(s)))
	}
	return nameSegment(node, GoName(s))
}

// hasTwin reports whether another member of the object has the same name, ignoring leading and trailing separators.
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
