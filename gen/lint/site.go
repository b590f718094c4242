package lint

import (
	"fmt"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// A side says whether a schema is about arguments or about payloads; a shared one may be both.
type side uint8

const (
	inputSide side = 1 << iota
	payloadSide
)

// checker is what the rules of one run share.
type checker struct {
	set   *schema.Set
	now   time.Time
	sides map[*source.Node]side
	files []surveyed
}

type surveyed struct {
	file  *schema.File
	sites []*site
}

// A pass is one rule over one file.
type pass struct {
	*checker
	*schema.File
	sites  []*site
	report func(at source.Range, event *schema.Event, d source.Diagnostic)
}

// at reports a finding; hint may be empty.
func (p *pass) at(at source.Range, event *schema.Event, hint, format string, args ...any) {
	p.report(at, event, source.Diagnostic{Message: fmt.Sprintf(format, args...), Hint: hint})
}

// A site is one schema in a file and what surrounds it.
type site struct {
	node *source.Node
	// at is where findings about it belong: the name where it has one.
	at source.Range
	// event is nil in a shared schema.
	event *schema.Event
	side  side
	// property is the name of the member that the schema describes, of a top-level argument too;
	// owner is the object that has it.
	property string
	owner    *site
	// root tells that it is an entry of schemas, an inputSchema or a payloadSchema; entry is the name
	// of the former.
	root  bool
	entry string
	// inPlace tells that it applies to the same value as the schema around it.
	inPlace bool
	// argument tells that it is a property of the arguments themselves.
	argument bool
}

// survey lists the schemas of a file.
func (c *checker) survey(f *schema.File) surveyed {
	s := surveyed{file: f}
	for _, e := range f.Schemas {
		s.walk(c, &site{node: e.Node, at: e.NameRange, side: c.sides[e.Node], root: true, entry: e.Name})
	}
	for _, e := range f.Events {
		for _, part := range []struct {
			node *source.Node
			side side
		}{{e.Input, inputSide}, {e.Payload, payloadSide}} {
			if part.node != nil {
				_, at := part.node.Key()
				s.walk(c, &site{node: part.node, at: at, event: e, side: part.side, root: true})
			}
		}
	}
	return s
}

func (s *surveyed) walk(c *checker, at *site) {
	s.sites = append(s.sites, at)
	for _, i := range c.set.Inner(at.node) {
		inner := &site{node: i.Node, at: i.Node.Range, event: at.event, side: at.side, inPlace: i.InPlace}
		switch i.Keyword {
		case "properties":
			inner.property, inner.owner = i.Name, at
			_, inner.at = i.Node.Key()
			inner.argument = at.side == inputSide && (at.root || at.inPlace) && at.event != nil
		case "not", "if", "propertyNames", "contains":
			continue // they describe no value of their own
		default:
			if i.Name != "" {
				_, inner.at = i.Node.Key()
			}
			if i.InPlace {
				inner.property, inner.owner, inner.argument = at.property, at.owner, at.argument
			}
		}
		s.walk(c, inner)
	}
}

// sidesOf finds out which shared schemas arguments and payloads refer to.
func sidesOf(set *schema.Set) map[*source.Node]side {
	sides := map[*source.Node]side{}
	var visit func(n *source.Node, as side)
	visit = func(n *source.Node, as side) {
		if sides[n]&as == as {
			return
		}
		sides[n] |= as
		if n.Get("$ref") != nil {
			if t, d := set.Resolve(n); d == nil {
				visit(t.Node, as)
			}
		}
		for _, i := range set.Inner(n) {
			visit(i.Node, as)
		}
	}
	for _, f := range set.Files {
		for _, e := range f.Events {
			if e.Input != nil {
				visit(e.Input, inputSide)
			}
			if e.Payload != nil {
				visit(e.Payload, payloadSide)
			}
		}
	}
	return sides
}

// say returns the value of a keyword for the value that n describes: of n itself, of what it refers
// to or of a part of it; nil when none says it.
func (c *checker) say(n *source.Node, keywords ...string) *source.Node {
	for _, view := range c.set.Views(n) {
		for _, keyword := range keywords {
			if v := view.Get(keyword); v != nil {
				return v
			}
		}
	}
	return nil
}

// has reports whether n says that its value may be of the JSON type.
func (c *checker) has(n *source.Node, kind string) bool {
	return slices.ContainsFunc(c.set.Views(n), func(view *source.Node) bool {
		t := view.Get("type")
		return t != nil && (t.Text == kind || slices.ContainsFunc(t.Items, func(item *source.Node) bool { return item.Text == kind }))
	})
}

// requires reports whether the object n requires the member called name.
func (c *checker) requires(n *source.Node, name string) bool {
	return slices.ContainsFunc(c.set.Views(n), func(view *source.Node) bool {
		list := view.Get("required")
		return list != nil && slices.ContainsFunc(list.Items, func(item *source.Node) bool { return item.Text == name })
	})
}
