package schema

import (
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/provider"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// readFrom reads the `from:` of an event. checkFrom later checks it against the schemas.
func (l *loader) readFrom(e *Event, n *source.Node) {
	if n == nil || e.File.isFlawed(n) {
		return
	}
	before := len(l.Found)
	f := &From{Provider: n.Word("provider"), Event: n.Word("event"), Action: n.Word("action"), ID: n.Word("id"), Range: n.Range}
	p, _ := provider.Lookup(f.Provider)
	wrong := func(key, format string, args ...any) {
		at := n.Range
		if m := n.Member(key); m != nil {
			at = m.KeyRange
		}
		l.Report(source.New("MCPE156", at, format, args...))
	}
	switch {
	case f.Action != "" && !p.Actions:
		wrong("action", "webhooks of %s have no action", p.Title)
	case p.NeedsID && f.ID == "":
		wrong("provider", "from %s needs id: the place where a delivery has its id", f.Provider)
	case !p.NeedsID && f.ID != "":
		wrong("id", "webhooks of %s always have an id", p.Title)
	}
	if e.Source == "check" {
		wrong("provider", "an event with source: check is not emitted, so it cannot have from")
	}
	if fields := n.Get("fields"); fields != nil {
		l.readFromFields(f, fields)
	}
	if len(l.Found) == before {
		e.From = f
	}
}

// readFromFields reads the fields of a `from:`.
func (l *loader) readFromFields(f *From, n *source.Node) {
	for i, m := range n.Members {
		for _, other := range n.Members[:i] {
			switch {
			case strings.HasPrefix(m.Key, other.Key+"/"):
				l.Report(source.New("MCPE156", m.KeyRange, "%q is inside a member that another field fills", m.Key).
					WithRelated(other.KeyRange, "filled here"))
			case strings.HasPrefix(other.Key, m.Key+"/"):
				l.Report(source.New("MCPE156", m.KeyRange, "a part of %q is filled by another field", m.Key).
					WithRelated(other.KeyRange, "filled here"))
			}
		}
		f.Fields = append(f.Fields, FromField{Target: m.Key, Source: m.Value.Text})
	}
}

// A body is the schema of a webhook body, loaded as a separate set.
type body struct {
	set  *Set
	node *source.Node
}

// checkFrom checks the `from:` of an event against its payload schema and the webhook bodies of the service.
func (l *loader) checkFrom(e *Event) {
	n := e.Node.Get("from")
	for _, f := range e.From.Fields {
		if f.Source == e.From.ID { // all callers see the eventId
			l.isOpen(e, "from id", f.Target, n.Get("id").Range)
		}
	}
	if len(e.From.Fields) == 0 && strings.HasPrefix(e.From.ID, "/") {
		l.isOpen(e, "from id", e.From.ID, n.Get("id").Range)
	}
	sent, known := l.webhookBody(e.From, n)
	if !known {
		return // already reported
	}
	if fields := n.Get("fields"); fields != nil {
		for i, m := range fields.Members {
			l.checkField(e, &e.From.Fields[i], m, sent)
		}
		l.checkRequired(e, n.Member("fields").KeyRange)
		return
	}
	if sent != nil {
		l.compareBody(e, e.Payload, nil, sent, map[*source.Node]bool{})
	}
}

// webhookBody returns the body of the webhook in a `from:`. The body is nil if the bodies of the service are unknown,
// or if the author disabled the check. If the service does not send such a webhook, it reports an error and returns
// false.
func (l *loader) webhookBody(f *From, n *source.Node) (*body, bool) {
	p, _ := provider.Lookup(f.Provider)
	if !p.Known() || n.Get("unchecked").True() {
		return nil, true
	}
	key := [3]string{f.Provider, f.Event, f.Action}
	if b := l.bodies[key]; b != nil {
		return b, true
	}
	schema, ok := p.Body(f.Event, f.Action)
	if !ok {
		at, word, names := n.Get("event"), f.Event, p.Events()
		what := "event"
		if slices.Contains(names, f.Event) {
			at, word, names, what = n.Get("action"), f.Action, p.ActionsOf(f.Event), "action of "+f.Event
		}
		d := source.New("MCPE157", at.Range, "%s sends no %s %q", p.Title, what, word)
		if near := suggest.Nearest(word, names); near != "" {
			d = d.WithHint("did you mean %q?", near)
		} else if what != "event" && len(names) == 0 {
			d = d.WithHint("it has no action: leave it out")
		} else {
			d = d.WithHint("unchecked: true skips this check, for webhooks newer than this mcpe-gen")
		}
		l.Report(d)
		return nil, false
	}
	file := []byte(`{"version":1,"events":[{"name":"a","description":"d","inputSchema":{"type":"object"},"payloadSchema":`)
	file = append(append(file, schema.JSON()...), "}]}"...)
	set, found := Load([]string{"body.json"}, Options{ReadFile: func(string) ([]byte, error) { return file, nil }})
	if source.HasErrors(found) || len(set.Files) == 0 || len(set.Files[0].Events) == 0 {
		return nil, true // cannot happen: the tests of package provider compile every body
	}
	if l.bodies == nil {
		l.bodies = map[[3]string]*body{}
	}
	b := &body{set, set.Files[0].Events[0].Payload}
	l.bodies[key] = b
	return b, true
}

// checkField checks that the source and the target of a field exist and have a common type.
func (l *loader) checkField(e *Event, f *FromField, m source.Member, sent *body) {
	tokens, _ := wire.SplitPointer(f.Target)
	target, end := l.set.schemasAtPath(e.Payload, tokens)
	if end != nil {
		l.Report(source.New("MCPE158", m.KeyRange, "from: %s", end.message("the payload")).
			WithHint("%s", end.suggestion(l.set, "describe it under properties of the payloadSchema")))
		return
	}
	to := l.set.kindsOfFirst(target)
	f.Nullable = to&kNull != 0
	if sent == nil {
		return
	}
	tokens, _ = wire.SplitPointer(f.Source)
	from, fromItems, d := sent.kindsAt(m.Value, tokens)
	if d != nil {
		l.Report(*d)
		return
	}
	unlike := func(from, to kinds) bool { return from&kUnknown == 0 && to&kUnknown == 0 && from&to == 0 }
	switch {
	case unlike(from, to):
		l.Report(source.New("MCPE159", m.Value.Range, "from: %s of the webhook (%s) can never be %s of the payload (%s)",
			f.Source, from, f.Target, to).
			WithRelated(target[0].Range, "the place in the payload"))
	case from == kArray && to&^kNull == kArray && unlike(fromItems, l.set.elementKinds(target)):
		l.Report(source.New("MCPE159", m.Value.Range,
			"from: elements of %s of the webhook (%s) can never be elements of %s of the payload (%s)",
			f.Source, fromItems, f.Target, l.set.elementKinds(target)).WithRelated(target[0].Range, "the place in the payload"))
	}
}

// kindsAt returns the types of the values at a path in the body. If they are arrays, it also returns the types of their
// elements.
func (b *body) kindsAt(at *source.Node, tokens []string) (kinds, kinds, *source.Diagnostic) {
	head, rest := tokens, []string(nil)
	star := slices.Index(tokens, "*")
	if star >= 0 {
		head, rest = tokens[:star], tokens[star+1:]
	}
	nodes, end := b.set.schemasAtPath(b.node, head)
	if end != nil {
		return 0, 0, b.nothing(at, end)
	}
	if star < 0 {
		return b.set.kindsOfFirst(nodes), b.set.elementKinds(nodes), nil
	}
	if k := b.set.kindsOfFirst(nodes); k&kUnknown == 0 && k&kArray == 0 {
		d := source.New("MCPE157", at.Range, "from: %s of the webhook is not an array, so * matches nothing",
			wire.Pointer(head...))
		return 0, 0, &d
	}
	// The index does not matter, so use 0.
	place := append(append(slices.Clone(head), "0"), rest...)
	for i, token := range place {
		if token == "*" {
			place[i] = "0"
		}
	}
	if nodes, end = b.set.schemasAtPath(b.node, place); end != nil {
		return 0, 0, b.nothing(at, end)
	}
	if slices.Contains(rest, "*") {
		return kArray, kArray, nil
	}
	return kArray, b.set.kindsOfFirst(nodes), nil
}

func (b *body) nothing(at *source.Node, end *deadEnd) *source.Diagnostic {
	hint := end.suggestion(b.set, "unchecked: true skips this check, for webhooks newer than this mcpe-gen")
	if end.reached != "" && b.set.elementsOnly(end.here) {
		hint = "* stands for each element of an array: " + end.reached + "/*" + wire.Pointer(end.token)
	}
	d := source.New("MCPE157", at.Range, "from %q: %s", at.Text, end.message("the webhook")).WithHint("%s", hint)
	return &d
}

// checkRequired reports required payload members that are not the target of a field.
func (l *loader) checkRequired(e *Event, at source.Range) {
	var visit func(here []*source.Node, tokens []string)
	visit = func(here []*source.Node, tokens []string) {
		for _, name := range l.requiredMembers(here) {
			place := append(slices.Clone(tokens), name)
			to, inner := wire.Pointer(place...), false
			filled := slices.ContainsFunc(e.From.Fields, func(f FromField) bool {
				inner = inner || strings.HasPrefix(f.Target, to+"/")
				return f.Target == to || strings.HasPrefix(f.Target, to+"/")
			})
			if !filled {
				l.Report(source.New("MCPE158", at, "from: the payload requires %s, and no field fills it", to).
					WithHint("add it to fields, or do not require it"))
			} else if next, end := l.set.schemasAtPath(e.Payload, place); inner && end == nil {
				visit(next, place)
			}
		}
	}
	visit(l.set.Views(e.Payload), nil)
}

// requiredMembers returns the members that the first schema requires, directly or through $ref and allOf.
func (l *loader) requiredMembers(here []*source.Node) []string {
	var names []string
	if len(here) == 0 {
		return nil
	}
	for _, v := range schematree.Views(l.set, here[0], schematree.Unconditional) {
		for _, name := range v.Texts("required") {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// compareBody checks that the body contains all members that the payload schema describes. It is used if the whole body
// becomes the payload.
func (l *loader) compareBody(e *Event, n *source.Node, tokens []string, sent *body, seen map[*source.Node]bool) {
	for _, view := range l.set.Views(n) {
		if seen[view] {
			continue
		}
		seen[view] = true
		for _, m := range view.MembersAt("properties") {
			place := append(slices.Clone(tokens), m.Key)
			from, end := sent.set.schemasAtPath(sent.node, place)
			if end != nil {
				l.Report(source.New("MCPE157", m.KeyRange, "from: %s, which is the payload", end.message("the webhook")).
					WithRelated(e.From.Range, "the webhook is named here").
					WithHint("%s", end.suggestion(sent.set, "say by fields where it comes from, or remove it")))
				continue
			}
			got, want := sent.set.kindsOfFirst(from), l.set.kindsOf(m.Value)
			if got&kUnknown == 0 && want&kUnknown == 0 && got&want == 0 {
				l.Report(source.New("MCPE159", m.KeyRange,
					"from: %s of the webhook (%s) can never be what the payload describes (%s)", wire.Pointer(place...), got, want).
					WithRelated(e.From.Range, "the webhook is named here"))
				continue
			}
			if want&^kNull == kObject {
				l.compareBody(e, m.Value, place, sent, seen)
			}
		}
	}
}
