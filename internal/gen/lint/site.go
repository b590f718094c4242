package lint

import (
	"fmt"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// A side indicates whether a schema describes arguments or payloads. A shared schema can describe both.
type side uint8

const (
	inputSide side = 1 << iota
	payloadSide
)

// A checker is the state of one Check call, shared by all rules.
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

// A pass is the application of one rule to one file.
type pass struct {
	*checker
	*schema.File
	sites  []*site
	report func(at source.Range, event *schema.Event, d source.Diagnostic)
}

// addFinding adds a finding with an optional hint.
func (p *pass) addFinding(at source.Range, event *schema.Event, hint, format string, args ...any) {
	p.report(at, event, source.Diagnostic{Message: fmt.Sprintf(format, args...), Hint: hint})
}

// A site is a schema in a file with its context.
type site struct {
	node *source.Node
	// at is the range for findings. It is the range of the name if the schema has one.
	at source.Range
	// event is nil for a shared schema.
	event *schema.Event
	side  side
	// property is the name of the described member or top-level argument. owner is the object that contains it.
	property string
	owner    *site
	// root reports whether the schema is an entry of schemas, an inputSchema or a payloadSchema. entry is the name of
	// the entry.
	root  bool
	entry string
	// inPlace reports whether the schema applies to the same value as its parent schema.
	inPlace bool
	// argument reports whether the schema is a property of the arguments object.
	argument bool
}

// collectSites returns the sites of all schemas in a file.
func (c *checker) collectSites(f *schema.File) surveyed {
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
	c.set.Each(at.node, func(keyword, name string, n *source.Node) {
		if at.event != nil && at.event.Added(n) {
			return // not written by the author
		}
		k, _ := schematree.Any.Keyword(keyword)
		inner := &site{node: n, at: n.Range, event: at.event, side: at.side, inPlace: k.InPlace}
		switch keyword {
		case "properties":
			inner.property, inner.owner = name, at
			_, inner.at = n.Key()
			inner.argument = at.side == inputSide && (at.root || at.inPlace) && at.event != nil
		case "not", "if", "propertyNames", "contains":
			return // these schemas describe no other value
		default:
			if name != "" {
				_, inner.at = n.Key()
			}
			if k.InPlace {
				inner.property, inner.owner, inner.argument = at.property, at.owner, at.argument
			}
		}
		s.walk(c, inner)
	})
}

// sidesOf returns the sides of all schemas in the arguments and payloads, including referenced schemas.
func sidesOf(set *schema.Set) map[*source.Node]side {
	sides := map[*source.Node]side{}
	var visit func(n *source.Node, as side)
	visit = func(n *source.Node, as side) {
		if sides[n]&as == as {
			return
		}
		sides[n] |= as
		if to, ok := set.Target(n, "$ref"); ok {
			visit(to, as)
		}
		set.Each(n, func(_, _ string, inner *source.Node) { visit(inner, as) })
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

// findKeyword returns the value of the first keyword found in n or a schema that applies to the same value. It returns
// nil if it does not find one.
func (c *checker) findKeyword(n *source.Node, keywords ...string) *source.Node {
	return schema.FindKeyword(c.set.Views(n), keywords...)
}

// declaresType reports whether n declares a type that includes the JSON type.
func (c *checker) declaresType(n *source.Node, kind string) bool {
	return slices.ContainsFunc(c.set.Views(n), func(view *source.Node) bool {
		return view.Get("type") != nil && schematree.Declared(view)&schematree.Named(kind) != 0
	})
}
