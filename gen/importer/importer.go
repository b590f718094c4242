package importer

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// Options describes the event file.
type Options struct {
	// From says, in the file's first line and in diagnostics, where the event types come from. It
	// must not hold secrets.
	From string
	// Package is the Go package that the file asks for; empty leaves it open.
	Package string
}

// An Event is an event type to write: its descriptor and, where it is known, what a descriptor
// does not tell.
type Event struct {
	wire.Descriptor
	// Source is "emit", "check" or "both"; empty leaves it to the default.
	Source string
	// NoReplay is set for a type whose cursors are null.
	NoReplay bool
	// Stability is "stable" or "experimental"; empty leaves it to the default.
	Stability string
	// Deprecated is nil when the type is not.
	Deprecated *schema.Deprecated
	// Match ties arguments to places in the payload.
	Match []schema.MatchRule
}

// Events makes events of the descriptors of a server.
func Events(ds []wire.Descriptor) []Event {
	events := make([]Event, len(ds))
	for i, d := range ds {
		events[i].Descriptor = d
	}
	return events
}

// ErrNothing says that no event type was left to write.
var ErrNothing = errors.New("there is no event type to import")

// Write returns the event file for the events, in their order, and what had to be left out (MCPE501)
// or changed (MCPE502, MCPE503). The file loads and generates without errors. When nothing is left
// the error is [ErrNothing].
func Write(events []Event, o Options) ([]byte, []source.Diagnostic, error) {
	w := &writer{o: o, at: source.InFile(o.From)}
	names := map[string]bool{}
	for _, e := range events {
		if names[e.Name] {
			w.leaveOut(e.Name, "it is described twice")
			continue
		}
		names[e.Name] = true
		if d := w.draft(e); d != nil {
			w.drafts = append(w.drafts, d)
		}
	}
	if len(w.drafts) == 0 {
		return nil, w.found, ErrNothing
	}
	// What is fine alone may still want the Go name of another.
	if problem := w.mend(w.drafts); problem != nil {
		return nil, w.found, fmt.Errorf("the event types do not fit together: %s", problem.Message)
	}
	for _, d := range w.drafts {
		for _, name := range d.renamed {
			w.found = append(w.found, source.New("MCPE503", w.at, "event %q: x-go-name %s tells two names apart", d.name, name.Text))
		}
		if d.untyped > 0 {
			w.found = append(w.found, source.New("MCPE504", w.at, "event %q: x-go-type: encoding/json.RawMessage is given to what has no exact Go type (%d)", d.name, d.untyped))
		}
	}
	return w.file(w.drafts), w.found, nil
}

type writer struct {
	o      Options
	at     source.Range
	drafts []*draft
	left   []string // comment lines
	found  []source.Diagnostic
}

func (w *writer) leaveOut(name, why string) {
	w.found = append(w.found, source.New("MCPE501", w.at, "event %q is left out: %s", name, why))
	w.left = append(w.left, fmt.Sprintf("%q: %s", name, why))
}

func (w *writer) changed(name, format string, args ...any) {
	w.found = append(w.found, source.New("MCPE502", w.at, "event %q is changed: %s", name, fmt.Sprintf(format, args...)))
}

// A draft is an event as it will be written.
type draft struct {
	name string
	node *source.Node
	// renamed are the values of x-go-name that the import chose, untyped how often it chose raw JSON.
	renamed []*source.Node
	untyped int
}

var eventName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// draft makes the node of an event and tries it; nil when the generator could not use it.
func (w *writer) draft(e Event) *draft {
	if !eventName.MatchString(e.Name) {
		w.leaveOut(e.Name, "an event file cannot name it; letters, digits, '_', '.' and '-' are allowed")
		return nil
	}
	if e.Description == "" {
		w.changed(e.Name, "it has no description, which the protocol requires; its name is used")
		e.Description = e.Name
	}
	d := &draft{name: e.Name, node: yaml.Object()}
	yaml.Set(d.node, "name", yaml.Text(e.Name))
	yaml.Set(d.node, "description", yaml.Text(e.Description))
	if modes := known(e.Delivery); len(modes) > 0 {
		yaml.Set(d.node, "delivery", yaml.Texts(modes))
	}
	if e.Source != "" && e.Source != "emit" {
		yaml.Set(d.node, "source", yaml.Text(e.Source))
	}
	if e.NoReplay {
		yaml.Set(d.node, "replay", yaml.Flag(false))
	}
	if e.Stability != "" && e.Stability != "stable" {
		yaml.Set(d.node, "stability", yaml.Text(e.Stability))
	}
	if e.Deprecated != nil {
		yaml.Set(d.node, "deprecated", deprecation(*e.Deprecated))
	}
	if meta, err := metaOf(e.Meta); err != nil {
		w.changed(e.Name, "its _meta cannot be written: %v", err)
	} else if meta != nil {
		yaml.Set(d.node, "_meta", meta)
	}
	for _, part := range []struct {
		key string
		raw json.RawMessage
	}{{"inputSchema", e.InputSchema}, {"payloadSchema", e.PayloadSchema}} {
		n, why := w.schema(e.Name, part.key, part.raw)
		if why != "" {
			w.leaveOut(e.Name, part.key+" "+why)
			return nil
		}
		yaml.Set(d.node, part.key, n)
	}
	for _, m := range e.Match {
		match(d.node, m)
	}
	if problem := w.mend([]*draft{d}); problem != nil {
		w.leaveOut(e.Name, problem.Message)
		return nil
	}
	return d
}

// schema reads a published schema and gives it what the generator insists on.
func (w *writer) schema(event, key string, raw json.RawMessage) (n *source.Node, why string) {
	if len(raw) == 0 || string(raw) == "null" {
		w.changed(event, "it has no %s; any object is taken", key)
		raw = json.RawMessage(`{}`)
	}
	n, found := source.Parse(key, raw)
	switch {
	case source.HasErrors(found):
		return nil, "cannot be read: " + found[0].Message
	case n.Kind == source.Bool && n.True():
		n = yaml.Object()
	case n.Kind != source.Object:
		return nil, fmt.Sprintf("is no schema but a JSON %s", n.Kind)
	}
	if dropped := strip(n); len(dropped) > 0 {
		w.changed(event, "%s holds %s, which mean something to the generator and are removed", key, strings.Join(dropped, ", "))
	}
	return n, ""
}

// strip removes the generator's own keywords: here they are somebody else's, and would be obeyed.
func strip(n *source.Node) (dropped []string) {
	own := func(m source.Member) bool {
		mine := m.Key == "x-match" || strings.HasPrefix(m.Key, "x-go-") || strings.HasPrefix(m.Key, "x-tool-")
		if mine && !slices.Contains(dropped, m.Key) {
			dropped = append(dropped, m.Key)
		}
		return mine
	}
	n.Members = slices.DeleteFunc(n.Members, own)
	for _, m := range n.Members {
		for _, key := range strip(m.Value) {
			own(source.Member{Key: key})
		}
	}
	for _, item := range n.Items {
		for _, key := range strip(item) {
			own(source.Member{Key: key})
		}
	}
	return dropped
}

// rounds bounds how many findings about one event, or about all, are mended.
const rounds = 100

// mend loads and types the drafts, solves what can be solved without a change of what is published,
// and returns the first finding that cannot.
func (w *writer) mend(drafts []*draft) *source.Diagnostic {
	for range rounds {
		problem, root := w.try(drafts)
		if problem == nil || !w.solve(drafts, root, *problem) {
			return problem
		}
	}
	problem, _ := w.try(drafts)
	return problem
}

// try returns the first error in a file of the drafts, and the file as it was read.
func (w *writer) try(drafts []*draft) (*source.Diagnostic, *source.Node) {
	const name = "import.yaml"
	text := w.file(drafts)
	loaded, found := schema.Load([]string{name}, schema.Options{ReadFile: func(path string) ([]byte, error) {
		if path == name {
			return text, nil
		}
		return nil, errors.New("an imported schema refers to nothing but itself")
	}})
	if !source.HasErrors(found) {
		_, more := ir.Build(loaded, ir.Options{Package: "imported"})
		found = append(found, more...)
	}
	if i := slices.IndexFunc(found, func(d source.Diagnostic) bool { return d.Severity == source.Error }); i >= 0 {
		return &found[i], loaded.Files[0].Root
	}
	return nil, nil
}

// solve changes a draft so that the finding goes away, and reports whether it could.
func (w *writer) solve(drafts []*draft, root *source.Node, problem source.Diagnostic) bool {
	at, key := find(root, problem.Range)
	tokens, _ := source.SplitPointer(at)
	if len(tokens) < 3 || tokens[0] != "events" {
		return false
	}
	i := slices.IndexFunc(drafts, func(d *draft) bool {
		return d.name == root.Lookup("/events/"+tokens[1]).Get("name").Text
	})
	d := drafts[i]
	n := d.node.Lookup(strings.TrimPrefix(at, "/events/"+tokens[1]))
	switch {
	case problem.Code == "MCPE135" && n != nil && n.Kind == source.Object && n.Get("type") == nil:
		w.changed(d.name, "its %s does not say that it describes an object; type: object is added", key)
		n.Members = append([]source.Member{{Key: "type", Value: yaml.Text("object")}}, n.Members...)
		return true
	case problem.Code == "MCPE206" && tokens[2] == "name":
		return d.rename(d.node, ir.GoName(d.name))
	case problem.Code != "MCPE206" && strings.HasPrefix(problem.Code, "MCPE2"):
		return d.untype(tokens[2:])
	case n == nil || n.Kind != source.Object:
		return false
	case problem.Code == "MCPE206" && key == "":
		return d.rename(n, "Variant")
	case problem.Code == "MCPE206":
		return d.rename(n, ir.GoName(key))
	}
	return false
}

// rename gives n a Go name of its own: the one it would have, with the next number.
func (d *draft) rename(n *source.Node, base string) bool {
	next := 2
	name := n.Get("x-go-name")
	if name == nil {
		name = yaml.Text("")
		yaml.Set(n, "x-go-name", name)
		d.renamed = append(d.renamed, name)
	} else if last, err := strconv.Atoi(strings.TrimPrefix(name.Text, base)); err == nil {
		next = last + 1
	}
	name.Text = base + strconv.Itoa(next)
	return true
}

// untype makes raw JSON of the innermost schema around the place, which has no exact Go type.
func (d *draft) untype(tokens []string) bool {
	n := d.node.Get(tokens[0])
	var inner *source.Node
	for i := 1; i < len(tokens) && n != nil; i++ {
		switch tokens[i] {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "allOf", "anyOf", "oneOf", "prefixItems":
			if n = n.Get(tokens[i]); i+1 < len(tokens) && n != nil {
				i++
				n = n.Lookup("/" + source.EscapeToken(tokens[i]))
			}
		case "items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else", "unevaluatedProperties", "unevaluatedItems":
			n = n.Get(tokens[i])
		default:
			n = nil
		}
		if n != nil && n.Kind == source.Object {
			inner = n
		}
	}
	if inner == nil || inner.Get("x-go-type") != nil {
		return false
	}
	yaml.Set(inner, "x-go-type", yaml.Text("encoding/json.RawMessage"))
	d.untyped++
	return true
}

// find returns the pointer and the key of the node whose value or key stands at the range.
func find(n *source.Node, at source.Range) (pointer, key string) {
	for _, m := range n.Members {
		if m.KeyRange == at || m.Value.Range == at {
			return m.Value.Pointer(), m.Key
		}
		if p, k := find(m.Value, at); p != "" {
			return p, k
		}
	}
	for _, item := range n.Items {
		if item.Range == at {
			return item.Pointer(), ""
		}
		if p, k := find(item, at); p != "" {
			return p, k
		}
	}
	return "", ""
}
