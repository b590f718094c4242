package schema

import (
	"math/big"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
)

// checkMatchable warns about listed argument values that match none of the listed payload values. A subscription with
// such a value never receives events, or receives all events if the rule is negated.
func (l *loader) checkMatchable(to *target, argument *source.Node, rule MatchRule) {
	if to.hasSeveralSchemas {
		return
	}
	var match func(argument, place *source.Node) bool
	switch rule.Op {
	case "equal", "in":
		match = func(a, p *source.Node) bool { return valueKey(a) == valueKey(p) }
	case "prefix":
		match = func(a, p *source.Node) bool { return p.Kind == source.String && strings.HasPrefix(p.Text, a.Text) }
	default:
		return
	}
	if rule.Op == "in" {
		argument = argument.Get("items")
	}
	place := to.here[0]
	if l.set.kindsOf(place)&^kNull == kArray {
		place = place.Get("items")
	}
	wanted, listed := l.set.listedValues(argument, 0)
	there, all := l.set.listedValues(place, 0)
	if !listed || !all {
		return
	}
	for _, v := range wanted {
		if v.Kind == source.Null || slices.ContainsFunc(there, func(p *source.Node) bool { return match(v, p) }) {
			continue
		}
		gets := "no event"
		if rule.Not {
			gets = "every event"
		}
		d := source.New("MCPE162", v.Range, "argument %q may be %s, which no value of %s matches: a subscription with it gets %s", rule.Argument, v.JSON(), rule.Path, gets).
			WithRelated(place.Range, "the place in the payload").WithHint("remove it, or add it to the values in the payload")
		var texts []string
		for _, p := range there {
			texts = append(texts, p.Text)
		}
		if near := suggest.Nearest(v.Text, texts); near != "" {
			d = d.WithHint("did you mean %q?", near)
		}
		l.Report(d)
	}
}

// maxChoices is the maximum recursion depth of listedValues.
const maxChoices = 20

// listedValues returns the values that the schema lists with enum and const. listed reports whether it allows no other
// values.
func (s *Set) listedValues(n *source.Node, depth int) (values []*source.Node, listed bool) {
	if n == nil || n.Kind != source.Object || depth > maxChoices {
		return nil, false
	}
	meet := func(list []*source.Node) {
		if listed {
			list = slices.DeleteFunc(slices.Clone(list), func(v *source.Node) bool {
				return !slices.ContainsFunc(values, func(w *source.Node) bool { return valueKey(v) == valueKey(w) })
			})
		}
		values, listed = list, true
	}
	if n.Get("$ref") != nil {
		if t, d := s.Resolve(n); d == nil {
			if list, ok := s.listedValues(t.Node, depth+1); ok {
				meet(list)
			}
		}
		if s.RefAlone(n) {
			return values, listed
		}
	}
	if e := n.Get("enum"); e != nil {
		meet(e.Items)
	}
	if c := n.Get("const"); c != nil {
		meet([]*source.Node{c})
	}
	for _, part := range n.ItemsAt("allOf") {
		if list, ok := s.listedValues(part, depth+1); ok {
			meet(list)
		}
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		var union []*source.Node
		all := len(n.ItemsAt(key)) > 0
		for _, part := range n.ItemsAt(key) {
			list, ok := s.listedValues(part, depth+1)
			if union = append(union, list...); !ok {
				all = s.kindsOf(part) == kNull && all
			}
		}
		if all {
			meet(union)
		}
	}
	return values, listed
}

// valueKey returns a map key for a scalar. Equal scalars, such as 1 and 1.0, have equal keys.
func valueKey(n *source.Node) string {
	if r, ok := new(big.Rat).SetString(n.Text); ok && n.Kind == source.Number && len(n.Text) < 40 {
		return r.RatString()
	}
	return n.Kind.String() + " " + string(n.JSON())
}
