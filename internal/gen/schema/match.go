package schema

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// everyElement is the path token that matches every element of an array.
const everyElement = "*"

// AddObject is the MCPE135 hint for an object schema without a type.
const AddObject = "add type: object"

// checkEvents checks events after all schemas are loaded. It checks object types, x-match, x-coalesce, x-private and
// `from:`.
func (l *loader) checkEvents() {
	used := make(map[*source.Node]bool)
	l.checkReplacements()
	byNode := make(map[*source.Node]*root, len(l.roots))
	for _, r := range l.roots {
		byNode[r.node] = r
	}
	for _, f := range l.set.Files {
		for _, e := range f.Events {
			sound := make(map[*source.Node]bool)
			for _, n := range []*source.Node{e.Input, e.Payload} {
				if n != nil && !byNode[n].isBroken {
					sound[n] = true
					l.checkObject(n)
				}
			}
			if e.Input != nil {
				l.readMatches(e, sound, used)
			}
			if e.Node.Get(coalesceKey) != nil && sound[e.Payload] {
				l.checkCoalesce(e)
			}
			if e.From != nil && sound[e.Payload] {
				l.checkFrom(e)
			}
		}
	}
	for _, r := range l.roots {
		if l.hasPrivate && !r.isBroken {
			l.checkPrivate(r)
		}
		for _, m := range r.matches {
			if !used[m] {
				l.Report(source.New("MCPE153", m.Range, "x-match has no effect here").
					WithHint("it belongs to a property of an inputSchema"))
			}
		}
	}
}

// checkReplacements reports deprecated events whose replacement no event file of the run describes.
func (l *loader) checkReplacements() {
	for _, f := range l.set.Files {
		for _, e := range f.Events {
			if e.Deprecated == nil || wire.CheckEventName(e.Deprecated.ReplacedBy) != nil || l.events[e.Deprecated.ReplacedBy] != nil {
				continue
			}
			d := source.New("MCPE126", e.Node.Get("deprecated").Get("replacedBy").Range, "no event of these files is called %q", e.Deprecated.ReplacedBy)
			if near := suggest.Nearest(e.Deprecated.ReplacedBy, slices.Sorted(maps.Keys(l.events))); near != "" {
				d = d.WithHint("did you mean %q?", near)
			}
			l.Report(d)
		}
	}
}

// checkObject checks that the schema of the arguments or the payload describes an object, as the protocol
// requires.
func (l *loader) checkObject(n *source.Node) {
	key, at := n.Key()
	k := l.set.kindsOf(n)
	meant, keyword := schematree.Implied(l.set.Views(n))
	switch {
	case k == kObject:
	case k&kUnknown != 0 && keyword != "" && meant[0] != schematree.Object:
		l.Report(source.New("MCPE135", at, "%s must describe an object and nothing else; its keyword %s concerns only values that are %ss", key, keyword, meant[0]))
	case k&kUnknown != 0:
		l.Report(source.New("MCPE135", at, "%s does not say that it describes an object", key).WithHint(AddObject))
	case k&kObject != 0 && n.Get("type") == nil:
		l.Report(source.New("MCPE135", at, "%s must describe an object and nothing else; this allows %s", key, k).WithHint(AddObject))
	case k&kObject != 0:
		l.Report(source.New("MCPE135", at, "%s must describe an object and nothing else; this allows %s", key, k).WithHint("allow no other type"))
	default:
		l.Report(source.New("MCPE135", at, "%s must describe an object and nothing else; this allows %s", key, k).
			WithHint("put it below a member: {type: object, properties: {NAME: …}, required: [NAME]}"))
	}
}

// readMatches reads the x-match keywords in the properties of the input schema, including referenced schemas.
//
// If the payload schema is broken, it only marks each x-match as used. sound is the set of schemas that are not broken.
func (l *loader) readMatches(e *Event, sound, used map[*source.Node]bool) {
	ruled := make(map[string]*source.Node)
	for _, view := range l.set.Views(e.Input) {
		for _, m := range view.MembersAt("properties") {
			given := m.Value.Member("x-match")
			if given == nil || l.set.places[m.Value] == nil {
				continue
			}
			x := given.Value
			used[x] = true
			rule, at := l.readMatch(m.Key, given)
			if at == nil || !sound[e.Payload] {
				continue
			}
			if x == e.notBy {
				l.checkActor(e, rule)
				continue
			}
			if first := ruled[m.Key]; first != nil {
				l.Report(source.New("MCPE150", x.Range, "argument %q has x-match twice", m.Key).WithRelated(first.Range, "also given here"))
				continue
			}
			ruled[m.Key] = x
			to, end := l.set.targetAt(e.Payload, at.Text)
			if end != nil {
				l.Report(source.New("MCPE151", at.Range, "x-match path %q: %s", at.Text, end.message("the payload")).
					WithHint("%s", end.suggestion(l.set, describePayload)))
			} else if l.isOpen(e, "x-match path", rule.Path, at.Range) && sound[e.Input] && l.typesFit(to, m.Value, rule, at) {
				e.Match = append(e.Match, rule)
				l.checkMatchable(to, m.Value, rule)
			}
		}
	}
}

// describePayload is the hint for a path that the payload schema does not describe.
const describePayload = "describe it under properties of the payloadSchema"

// readMatch reads one x-match: a path, or an object with path, op and not. It also returns the node of the path, or nil
// if the x-match is invalid.
func (l *loader) readMatch(argument string, m *source.Member) (MatchRule, *source.Node) {
	x := m.Value
	rule := MatchRule{Argument: argument, Op: cmp.Or(x.Word("op"), "equal"), Not: x.Flag("not", false), Range: x.Range}
	if found := keywordFaults(m); len(found) > 0 {
		l.Report(found...)
		return rule, nil
	}
	path := x
	if x.Kind == source.Object {
		path = x.Get("path")
	}
	rule.Path = path.Text
	return rule, path
}

// typesFit reports whether the operator can compare an argument and a payload value of the given types.
func (l *loader) typesFit(to *target, argument *source.Node, rule MatchRule, path *source.Node) bool {
	place := to.kinds &^ kNull
	arg := l.set.kindsOf(argument) &^ kNull
	wrong := func(format string, args ...any) bool {
		l.Report(source.New("MCPE152", path.Range, "x-match %s: %s", rule.Words(), fmt.Sprintf(format, args...)).
			WithRelated(to.here[0].Range, "the place in the payload"))
		return false
	}
	ordered := func(format string, args ...any) bool {
		hint := "for a custom order, such as the words of an enum, register the event with a Match hook"
		if format := argument.Get("format"); format != nil && (format.Text == "date" || format.Text == "time") {
			hint = "use format: date-time here and in the payload, or register the event with a Match hook"
		}
		l.Report(source.New("MCPE152", path.Range, "x-match %s: %s", rule.Words(), fmt.Sprintf(format, args...)).
			WithRelated(to.here[0].Range, "the place in the payload").
			WithHint("%s", hint))
		return false
	}
	const scalars = kBoolean | kNumber | anyString
	if rule.Op == "in" {
		if arg != kArray {
			return wrong("argument %q must be an array, not %s", rule.Argument, arg)
		}
		arg = l.set.elementKinds([]*source.Node{argument}) &^ kNull
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
	default: // an order
		if arg != kNumber && arg != kDateTime {
			return ordered("argument %q must be a number or a date-time, not %s", rule.Argument, arg)
		}
		if place != arg {
			return ordered("argument %q (%s) cannot be compared with %s (%s)", rule.Argument, arg, rule.Path, place)
		}
	}
	return true
}

// A target describes the payload value that a path refers to. It contains the schemas of the value and its types. If
// the value is an array, it contains the types of the elements.
type target struct {
	here  []*source.Node
	kinds kinds
	// hasSeveralSchemas reports whether the path matches several values that different schemas describe.
	hasSeveralSchemas bool
}

// targetAt returns the target of a path in the payload, in which * matches every element of an array.
func (s *Set) targetAt(payload *source.Node, path string) (*target, *deadEnd) {
	tokens, _ := wire.SplitPointer(path)
	starts, here, end := s.followPath(payload, tokens, true)
	if end != nil {
		return nil, end
	}
	to := &target{here: here, kinds: s.kindsOfFirst(here)}
	if slices.Contains(tokens, everyElement) {
		to.hasSeveralSchemas = len(starts) > 1
		for _, n := range starts {
			to.kinds |= s.kindsOf(n)
		}
	}
	if to.kinds&kUnknown == 0 && to.kinds&kArray != 0 {
		to.kinds = to.kinds&^kArray | s.elementKinds(here)
	}
	return to, nil
}

// A deadEnd is the point at which a path leaves the values that the schema describes.
type deadEnd struct {
	// reached is the pointer to the value that has no member named token.
	reached, token string
	here           []*source.Node
	// starMatches reports whether * matches every element of an array. inArray reports whether here describes an array.
	starMatches, inArray bool
	// rest contains token and the tokens after it.
	rest []string
}

// message describes the missing value. root is the name of the value at which the path starts.
func (e *deadEnd) message(root string) string {
	what := root
	if e.reached != "" {
		what = e.reached
	}
	switch star := e.starMatches && e.token == everyElement; {
	case star && e.inArray:
		return what + " does not describe its elements"
	case star:
		return what + " is not an array, so * stands for nothing"
	}
	return fmt.Sprintf("%s has no member %q", what, e.token)
}

// suggestion returns a hint for correcting the path.
func (e *deadEnd) suggestion(s *Set, otherwise string) string {
	if near := nearMember(e.token, memberNames(e.here)); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	star := e.starMatches && e.token == everyElement
	switch {
	case star && e.inArray:
		return "describe them under items"
	case star:
		return "name a member"
	case e.starMatches && e.inArray:
		return e.arrayHint(s)
	case e.inArray && e.reached != "":
		return e.reached + " is an array: name an element by its index"
	}
	return otherwise
}

// arrayHint suggests a path with * or an index for the array at which the path ended.
func (e *deadEnd) arrayHint(s *Set) string {
	_, _, end := s.followPath(e.here[0], append([]string{everyElement}, e.rest...), true)
	if end == nil {
		return fmt.Sprintf("did you mean %q?", e.reached+"/*"+wire.Pointer(e.rest...))
	}
	if near := nearMember(e.token, memberNames(end.here)); near != "" && len(end.rest) == len(e.rest) {
		return fmt.Sprintf("did you mean %q?", e.reached+"/*"+wire.Pointer(append([]string{near}, e.rest[1:]...)...))
	}
	return e.reached + " is an array: write " + e.reached + "/* for every element, or an index for one"
}

// nearMember returns the member that was probably misspelled as name, or "". Names such as id are too short for
// Suggest, so it also accepts an additional or missing last letter.
func nearMember(name string, members []string) string {
	if near := suggest.Nearest(name, members); near != "" {
		return near
	}
	for _, m := range members {
		if long, short := max(name, m), min(name, m); len(short) == 2 && len(long) == 3 && strings.HasPrefix(long, short) {
			return m
		}
	}
	return ""
}

// schemasAtPath returns the schemas that describe the value at a path, relative to the schema from.
func (s *Set) schemasAtPath(from *source.Node, tokens []string) ([]*source.Node, *deadEnd) {
	_, here, end := s.followPath(from, tokens, false)
	return here, end
}

// followPath follows the tokens of a path from a schema. It returns the schemas at the end of the path as starts, and
// their views as here. If every is set, * matches every element of an array.
func (s *Set) followPath(from *source.Node, tokens []string, every bool) (starts, here []*source.Node, end *deadEnd) {
	starts = []*source.Node{from}
	here = s.Views(starts...)
	reached := ""
	for i, token := range tokens {
		starts = childSchemas(here, token, every)
		if len(starts) == 0 {
			return nil, nil, &deadEnd{reached: reached, token: token, here: here, starMatches: every, inArray: s.elementsOnly(here), rest: tokens[i:]}
		}
		reached += wire.Pointer(token)
		here = s.Views(starts...)
	}
	return starts, here, nil
}

func (s *Set) elementsOnly(nodes []*source.Node) bool {
	for _, n := range nodes {
		if s.kindsOf(n)&^kNull == kArray {
			return true
		}
	}
	return false
}

var indexPattern = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})$`)

// memberNames returns the names of the members in the properties of the nodes.
func memberNames(nodes []*source.Node) (names []string) {
	for _, n := range nodes {
		for _, m := range n.MembersAt("properties") {
			names = append(names, m.Key)
		}
	}
	return names
}

// childSchemas returns the schemas of the member or element that token selects in values described by the nodes. If
// every is set, the token * matches every element.
func childSchemas(nodes []*source.Node, token string, every bool) []*source.Node {
	next := schematree.Member(nodes, token)
	switch {
	case indexPattern.MatchString(token):
		i, _ := strconv.Atoi(token)
		next = append(next, schematree.Element(nodes, i)...)
	case every && token == everyElement:
		for _, n := range nodes {
			first, rest, ok := schematree.Elements(n)
			if next = append(next, first...); ok {
				next = append(next, rest)
			}
		}
	}
	return slices.DeleteFunc(next, func(n *source.Node) bool { return n.Kind != source.Object && !n.True() })
}

// kindsOfFirst returns the types that the first node allows. The remaining nodes are its views, which kindsOf already
// considers.
func (s *Set) kindsOfFirst(nodes []*source.Node) kinds {
	k := everything
	if len(nodes) > 0 {
		k = s.kindsOf(nodes[0])
	}
	return k
}

// elementKinds returns the element types of the arrays that the nodes describe.
func (s *Set) elementKinds(nodes []*source.Node) kinds {
	var k kinds
	found := false
	for _, n := range s.Views(nodes...) {
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
