package schema

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// ops are the operators of x-match, the default first.
var ops = []string{"equal", "in", "glob", "prefix", "min", "max"}

// checkEvents checks of each event what needs all schemas: that they describe objects, x-match and x-coalesce.
func (l *loader) checkEvents() {
	used := make(map[*source.Node]bool)
	byNode := make(map[*source.Node]*root, len(l.roots))
	for _, r := range l.roots {
		byNode[r.node] = r
	}
	for _, f := range l.set.Files {
		for _, e := range f.Events {
			sound := make(map[*source.Node]bool)
			for _, n := range []*source.Node{e.Input, e.Payload} {
				if n != nil && !byNode[n].broken {
					sound[n] = true
					l.describesObject(n)
				}
			}
			if e.Input != nil {
				l.matches(e, sound, used)
			}
			if e.Coalesce != nil && sound[e.Payload] {
				l.checkCoalesce(e)
			}
			if e.From != nil && sound[e.Payload] {
				l.checkFrom(e)
			}
		}
	}
	for _, r := range l.roots {
		for _, m := range r.matches {
			if !used[m] {
				l.Report(source.New("MCPE153", m.Range, "x-match has no effect here").
					WithHint("it belongs to a property of an inputSchema"))
			}
		}
	}
}

// describesObject checks that the arguments or the payload are an object: the protocol knows nothing
// else.
func (l *loader) describesObject(n *source.Node) {
	key, at := n.Key()
	k := l.set.kindsOf(n)
	switch {
	case k == kObject:
	case k&kUnknown != 0:
		l.Report(source.New("MCPE135", at, "%s does not say that it describes an object", key).WithHint("add type: object"))
	default:
		l.Report(source.New("MCPE135", at, "%s must describe an object and nothing else; this allows %s", key, k))
	}
}

// matches reads the x-match of the arguments of e: of the properties of its input schema and of what
// that schema refers to.
//
// Of a schema that is not sound no more is concluded than that an x-match is there.
func (l *loader) matches(e *Event, sound, used map[*source.Node]bool) {
	ruled := make(map[string]*source.Node)
	for _, view := range l.set.views(e.Input) {
		properties := view.Get("properties")
		if properties == nil || properties.Kind != source.Object {
			continue
		}
		for _, m := range properties.Members {
			x := m.Value.Get("x-match")
			if x == nil || l.set.places[m.Value] == nil {
				continue
			}
			used[x] = true
			rule, at := l.match(m.Key, x)
			if at == nil || !sound[e.Payload] {
				continue
			}
			if first := ruled[m.Key]; first != nil {
				l.Report(source.New("MCPE150", x.Range, "argument %q has x-match twice", m.Key).WithRelated(first.Range, "also given here"))
				continue
			}
			ruled[m.Key] = x
			places, d := l.set.at(e.Payload, at)
			if d != nil {
				l.Report(*d)
			} else if sound[e.Input] && l.fits(places, m.Value, rule, at) {
				e.Match = append(e.Match, rule)
			}
		}
	}
}

// match reads one x-match: a path, or a path and an operator. It also returns the node of the path.
func (l *loader) match(argument string, x *source.Node) (MatchRule, *source.Node) {
	rule := MatchRule{Argument: argument, Op: ops[0], Range: x.Range}
	path := x
	if x.Kind == source.Object {
		before := len(l.Found)
		o := l.Object(x, "x-match", []string{"path"}, []string{"op"})
		rule.Op = o.Choice("op", ops...)
		if _, path = o.Text("path"); path == nil || len(l.Found) > before {
			return rule, nil
		}
	} else if x.Kind != source.String {
		l.Report(source.New("MCPE150", x.Range, "x-match must be a path or an object with path and op, not %s", x.Kind))
		return rule, nil
	}
	if tokens, ok := source.SplitPointer(path.Text); !ok || len(tokens) == 0 {
		l.Report(source.New("MCPE150", path.Range, "x-match path %q is not a JSON Pointer to a member of the payload", path.Text).
			WithHint("write /member or /member/member"))
		return rule, nil
	}
	rule.Path = path.Text
	return rule, path
}

// fits checks that the types of the argument and of its place agree with the operator.
func (l *loader) fits(places []*source.Node, argument *source.Node, rule MatchRule, path *source.Node) bool {
	place := l.set.elementKinds(places) &^ kNull
	arg := l.set.kindsOf(argument) &^ kNull
	wrong := func(format string, args ...any) bool {
		l.Report(source.New("MCPE152", path.Range, "x-match %s: %s", rule.Op, fmt.Sprintf(format, args...)).
			WithRelated(places[0].Range, "the place in the payload"))
		return false
	}
	ordered := func(format string, args ...any) bool {
		l.Report(source.New("MCPE152", path.Range, "x-match %s: %s", rule.Op, fmt.Sprintf(format, args...)).
			WithRelated(places[0].Range, "the place in the payload").
			WithHint("an order of your own, as of the words of an enum, is told by the Match hook that the event is registered with"))
		return false
	}
	const scalars = kBoolean | kNumber | anyString
	if rule.Op == "in" {
		if arg != kArray {
			return wrong("argument %q must be an array, not %s", rule.Argument, arg)
		}
		arg = l.set.itemKinds([]*source.Node{argument}) &^ kNull
	}
	switch rule.Op {
	case "equal", "in":
		of := "argument"
		if rule.Op == "in" {
			of = "an element of argument"
		}
		switch {
		case arg == kArray && rule.Op == "equal":
			l.Report(source.New("MCPE152", path.Range, "x-match equal: argument %q is an array", rule.Argument).WithHint("use op: in"))
			return false
		case arg&^scalars != 0 || arg == 0:
			return wrong("%s %q must be a string, a number or a boolean, not %s", of, rule.Argument, arg)
		case place&^scalars != 0 || place == 0:
			return wrong("%s must be a string, a number or a boolean, not %s", rule.Path, place)
		case arg&place == 0:
			return wrong("%s %q (%s) can never equal %s (%s)", of, rule.Argument, arg, rule.Path, place)
		}
	case "glob", "prefix":
		if arg&^anyString != 0 || arg == 0 {
			return wrong("argument %q must be a string, not %s", rule.Argument, arg)
		}
		if place&^anyString != 0 || place == 0 {
			return wrong("%s must be a string, not %s", rule.Path, place)
		}
	case "min", "max":
		if arg != kNumber && arg != kDateTime {
			return ordered("argument %q must be a number or a date-time, not %s", rule.Argument, arg)
		}
		if place != arg {
			return ordered("argument %q (%s) cannot be compared with %s (%s)", rule.Argument, arg, rule.Path, place)
		}
	}
	return true
}

// at returns the schemas that apply to the place of the payload that a pointer names.
func (s *Set) at(payload, path *source.Node) ([]*source.Node, *source.Diagnostic) {
	tokens, _ := source.SplitPointer(path.Text)
	here, end := s.walk(payload, tokens)
	if end != nil {
		d := source.New("MCPE151", path.Range, "x-match path %q: %s", path.Text, end.says("the payload"))
		d = d.WithHint("%s", end.hint(s, "describe it under properties of the payloadSchema"))
		return nil, &d
	}
	return here, nil
}

// A deadEnd is where a pointer leads no further.
type deadEnd struct {
	// reached is the pointer to what has no member of the name token.
	reached, token string
	here           []*source.Node
}

// says what is not there; root is what the pointer begins at.
func (e *deadEnd) says(root string) string {
	what := root
	if e.reached != "" {
		what = e.reached
	}
	return fmt.Sprintf("%s has no member %q", what, e.token)
}

// hint says what to do about it.
func (e *deadEnd) hint(s *Set, otherwise string) string {
	if near := source.Suggest(e.token, memberNames(e.here)); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if e.reached != "" && s.elementsOnly(e.here) {
		return e.reached + " is an array: name an element by its index"
	}
	return otherwise
}

// walk returns the schemas that apply to the place that tokens lead to from a schema.
func (s *Set) walk(from *source.Node, tokens []string) ([]*source.Node, *deadEnd) {
	here := s.allViews([]*source.Node{from})
	reached := ""
	for _, token := range tokens {
		next := step(here, token)
		if len(next) == 0 {
			return nil, &deadEnd{reached, token, here}
		}
		reached += "/" + source.EscapeToken(token)
		here = s.allViews(next)
	}
	return here, nil
}

func (s *Set) allViews(nodes []*source.Node) []*source.Node {
	var all []*source.Node
	seen := make(map[*source.Node]bool)
	for _, n := range nodes {
		for _, v := range s.views(n) {
			if !seen[v] && len(all) < maxViews {
				seen[v] = true
				all = append(all, v)
			}
		}
	}
	return all
}

func (s *Set) elementsOnly(nodes []*source.Node) bool {
	for _, n := range nodes {
		if s.kindsOf(n)&^kNull == kArray {
			return true
		}
	}
	return false
}

var index = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})$`)

// memberNames returns the names of the members that the nodes describe.
func memberNames(nodes []*source.Node) (names []string) {
	for _, n := range nodes {
		if p := n.Get("properties"); p != nil {
			for _, m := range p.Members {
				names = append(names, m.Key)
			}
		}
	}
	return names
}

// step returns the schemas of the member or element named token of what the nodes describe.
func step(nodes []*source.Node, token string) (next []*source.Node) {
	take := func(n *source.Node) bool {
		if n != nil && (n.Kind == source.Object || n.True()) {
			next = append(next, n)
			return true
		}
		return false
	}
	for _, n := range nodes {
		found := false
		if p := n.Get("properties"); p != nil {
			found = take(p.Get(token))
		}
		if p := n.Get("patternProperties"); p != nil {
			for _, m := range p.Members {
				if Matches(m.Key, token) {
					found = take(m.Value) || found
				}
			}
		}
		if !found {
			take(n.Get("additionalProperties"))
		}
		if !index.MatchString(token) {
			continue
		}
		i, _ := strconv.Atoi(token)
		items := n.Get("items")
		if prefix := n.Get("prefixItems"); prefix != nil && i < len(prefix.Items) {
			take(prefix.Items[i])
		} else if items != nil && items.Kind == source.Array {
			if i < len(items.Items) {
				take(items.Items[i])
			} else {
				take(n.Get("additionalItems"))
			}
		} else {
			take(items)
		}
	}
	return next
}

// elementKinds returns the types that values at the place have, those of the elements where it is an
// array.
func (s *Set) elementKinds(nodes []*source.Node) kinds {
	k := s.together(nodes)
	if k&kUnknown == 0 && k&kArray != 0 {
		k = k&^kArray | s.itemKinds(nodes)
	}
	return k
}

// together returns the types of a value to which the nodes' first applies; the others are its views.
func (s *Set) together(nodes []*source.Node) kinds {
	k := everything
	if len(nodes) > 0 {
		k = s.kindsOf(nodes[0])
	}
	return k
}

// itemKinds returns the types of the elements of the arrays that the nodes describe.
func (s *Set) itemKinds(nodes []*source.Node) kinds {
	var k kinds
	found := false
	for _, n := range s.allViews(nodes) {
		for _, key := range []string{"items", "additionalItems", "prefixItems"} {
			v := n.Get(key)
			if v == nil {
				continue
			}
			list := []*source.Node{v}
			if v.Kind == source.Array {
				list = v.Items
			}
			for _, item := range list {
				if item.Kind == source.Object {
					found = true
					k |= s.kindsOf(item)
				}
			}
		}
	}
	if !found {
		return everything
	}
	return k
}
