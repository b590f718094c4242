package lint

import (
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

func inputOpen(p *pass) {
	for _, e := range p.Events {
		closed := slices.ContainsFunc(p.set.Views(e.Input), func(n *source.Node) bool {
			return isRestricted(n.Get("additionalProperties")) || isRestricted(n.Get("unevaluatedProperties"))
		})
		if !closed {
			_, at := e.Input.Key()
			p.addFinding(at, e, "add additionalProperties: false", "the inputSchema of %s accepts arguments that it does not declare", e.Name)
		}
	}
}

// isRestricted reports whether n is the schema false or an object. Both forms show that the author considered
// undeclared members.
func isRestricted(n *source.Node) bool {
	return n != nil && (n.Kind == source.Object || n.Kind == source.Bool && n.Text == "false")
}

func argumentUnmatched(p *pass) {
	for _, s := range p.memberSites() {
		if !s.argument || s.event.Source == "check" || p.findKeyword(s.node, "default") != nil {
			continue
		}
		if !slices.ContainsFunc(s.event.Match, func(m schema.MatchRule) bool { return m.Argument == s.property }) {
			p.addFinding(s.at, s.event, "tie it to the payload by x-match, or use it in a Match or Transform hook", "argument %q is tied to nothing in the payload", s.property)
		}
	}
}

func stringUnbounded(p *pass) {
	for _, s := range p.valueSites() {
		if p.declaresType(s.node, "string") && p.findKeyword(s.node, "maxLength", "format", "pattern", "enum", "const", "contentEncoding") == nil {
			p.addFinding(s.at, s.event, "add maxLength", "%s has no maxLength", s.label())
		}
	}
}

func arrayUnbounded(p *pass) {
	for _, s := range p.valueSites() {
		if p.declaresType(s.node, "array") && p.findKeyword(s.node, "maxItems", "const", "enum") == nil {
			p.addFinding(s.at, s.event, "add maxItems", "%s has no maxItems", s.label())
		}
	}
}

// valueSites returns the sites of schemas without $ref. It omits schemas that apply to the same value as their parent.
func (p *pass) valueSites() []*site {
	return slices.DeleteFunc(slices.Clone(p.sites), func(s *site) bool { return s.inPlace || s.node.Get("$ref") != nil })
}

// label returns the name of the site for use in messages.
func (s *site) label() string {
	switch {
	case s.property != "":
		return "\"" + s.property + "\""
	case s.entry != "":
		return "schema " + s.entry
	}
	return "the value"
}
