package importer

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
)

// Options describes the event file.
type Options struct {
	// From says, in the file's first line and in diagnostics, where the event types come from. It
	// must not hold secrets.
	From string
	// Package is the Go package that the file asks for; empty leaves it open.
	Package string
	// Dialect is that of schemas which say none, or one that is not supported: a name of [schema.Dialects] or a URI as
	// in $schema. Empty means 2020-12, and an error for a dialect that is not supported.
	Dialect string
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
	// Node is the whole entry as an event file has it, where that is known; then only Name counts beside.
	Node *source.Node
	// At is where the event type stands, for findings; zero when that is not known.
	At source.Range
	// Comments are lines to write above it.
	Comments []string
}

// A Document is what an import has read.
type Document struct {
	// Title says what the event types are of; empty when nothing does.
	Title string
	// Package is the Go package that the document asks for; empty leaves it open.
	Package string
	// Schemas are what events and each other refer to as #/schemas/NAME.
	Schemas []Schema
	Events  []Event
	// Tasks is a list, Conversation an object, as an event file has them; nil for none.
	Tasks, Conversation *source.Node
	// Published tells that the schemas are what a server publishes. Their definitions, which stand in
	// each of them, are found again as shared schemas.
	Published bool
	// Dialect is what the document says that its schemas are written in; nil for nothing.
	Dialect *source.Node
	// Comments are lines for the beginning of the file.
	Comments []string
}

// A Schema is an entry of schemas to write.
type Schema struct {
	Name string
	Node *source.Node
	// Own tells that the keywords of the generator in it are meant for it.
	Own bool
	// At is where it stands, for findings; zero when that is not known.
	At source.Range
	// Comments are lines to write above it.
	Comments []string
}

// Events makes a document of the descriptors of a server.
func Events(ds []wire.Descriptor) Document {
	doc := Document{Published: true, Events: make([]Event, len(ds))}
	for i, d := range ds {
		doc.Events[i].Descriptor = d
	}
	return doc
}

// ErrNothing says that no event type was left to write.
var ErrNothing = errors.New("there is no event type to import")

// Write returns the event file for the document, in its order, and what had to be left out (MCPE501)
// or changed (MCPE502, MCPE503, MCPE504). The file loads and generates without errors. When nothing is
// left the error is [ErrNothing]; when schemas are of a dialect that is not supported, and Options has none, the
// findings have an error (MCPE132) and there is no file.
func Write(doc Document, o Options) ([]byte, []source.Diagnostic, error) {
	if o.Package == "" {
		o.Package = doc.Package
	}
	w := &writer{o: o, at: source.InFile(o.From), doc: doc, shared: map[string]*draft{}, dropped: map[string]string{}}
	for _, s := range doc.Schemas {
		w.schemaDraft(s)
	}
	names := map[string]bool{}
	for _, e := range doc.Events {
		if names[e.Name] {
			w.leaveOut(e.At, e.Name, "it is described twice")
			continue
		}
		names[e.Name] = true
		if d := w.draft(e); d != nil {
			w.drafts = append(w.drafts, d)
		}
	}
	if doc.Published {
		w.share()
	}
	if !w.dialects() {
		return nil, w.found, nil
	}
	if err := w.mend(); err != nil {
		return nil, w.found, err
	}
	if w.empty() {
		return nil, w.found, ErrNothing
	}
	for _, d := range w.all() {
		for _, name := range d.renamed {
			w.found = append(w.found, source.New("MCPE503", w.of(d.at), "%s: x-go-name %s distinguishes two names", d, name.Text))
		}
		if d.untyped > 0 {
			w.found = append(w.found, source.New("MCPE504", w.of(d.at), "%s: x-go-type is added where there is no exact Go type (%d)", d, d.untyped))
		}
	}
	return w.file(), w.found, nil
}

type writer struct {
	o      Options
	at     source.Range
	doc    Document
	drafts []*draft
	// shared are the drafts of schemas by name, order their names.
	shared map[string]*draft
	order  []string
	// dropped are the reasons of shared schemas that are not written.
	dropped map[string]string
	left    []string // comment lines
	found   []source.Diagnostic
}

// of is a place in the source where it is known, else the source.
func (w *writer) of(at source.Range) source.Range {
	if at.Start.File == "" {
		return w.at
	}
	return at
}

// all are the drafts in the order of the file.
func (w *writer) all() []*draft {
	var list []*draft
	for _, name := range w.order {
		list = append(list, w.shared[name])
	}
	return append(list, w.drafts...)
}

func (w *writer) leaveOut(at source.Range, name, why string) {
	w.found = append(w.found, source.New("MCPE501", w.of(at), "event %q is left out: %s", name, why))
	w.left = append(w.left, fmt.Sprintf("%q: %s", name, why))
}

func (w *writer) changed(at source.Range, what fmt.Stringer, format string, args ...any) {
	w.found = append(w.found, source.New("MCPE502", w.of(at), "%s is changed: %s", what, fmt.Sprintf(format, args...)))
}

// A draft is an event, or a shared schema, as it will be written.
type draft struct {
	name   string
	shared bool
	// exact tells that the document has the whole entry of an event file.
	exact bool
	at    source.Range
	node  *source.Node
	// comments are lines to write above it.
	comments []string
	// renamed are the values of x-go-name that the import chose, untyped how often it chose raw JSON.
	renamed []*source.Node
	untyped int
	// fresh are the schemas that were given a type in this round.
	fresh map[*source.Node]bool
}

// String names the draft for findings.
func (d *draft) String() string {
	if d.shared {
		return fmt.Sprintf("schema %q", d.name)
	}
	return fmt.Sprintf("event %q", d.name)
}

// Node is the entry of an event file that an event becomes, before anything is mended; nil when it cannot.
func Node(e Event) *source.Node {
	if d := (&writer{}).draft(e); d != nil {
		return d.node
	}
	return nil
}

var eventName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// schemaDraft takes in a shared schema.
func (w *writer) schemaDraft(s Schema) {
	d := &draft{name: s.Name, shared: true, at: s.At, node: s.Node, comments: s.Comments}
	if !s.Own {
		if dropped := strip(d.node); len(dropped) > 0 {
			w.changed(d.at, d, "it holds %s, which mean something to the generator and are removed", strings.Join(dropped, ", "))
		}
	}
	if w.shared[s.Name] == nil {
		w.shared[s.Name] = d
		w.order = append(w.order, s.Name)
	}
}

// draft makes the node of an event; nil when an event file cannot hold it.
func (w *writer) draft(e Event) *draft {
	d := &draft{name: e.Name, at: e.At, node: e.Node, comments: e.Comments}
	if !eventName.MatchString(e.Name) {
		w.leaveOut(e.At, e.Name, "an event file cannot name it; letters, digits, '_', '.' and '-' are allowed")
		return nil
	}
	if d.node != nil {
		d.exact = true
		return d
	}
	d.node = yaml.Object()
	if e.Description == "" {
		w.changed(e.At, d, "it has no description, which the protocol requires; its name is used")
		e.Description = e.Name
	}
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
		w.changed(e.At, d, "its _meta cannot be written: %v", err)
	} else if meta != nil {
		yaml.Set(d.node, "_meta", meta)
	}
	if c, err := wire.CoalesceOf(e.Meta); err != nil {
		w.changed(e.At, d, "it does not say which events to join: %v", err)
	} else if c != nil {
		yaml.Set(d.node, "x-coalesce", coalesce(*c))
	}
	for _, part := range []struct {
		key string
		raw json.RawMessage
	}{{"inputSchema", e.InputSchema}, {"payloadSchema", e.PayloadSchema}} {
		n, why := w.schema(d, part.key, part.raw)
		if why != "" {
			w.leaveOut(e.At, e.Name, part.key+" "+why)
			return nil
		}
		yaml.Set(d.node, part.key, n)
	}
	for _, m := range e.Match {
		match(d.node, m)
	}
	return d
}

// schema reads a published schema and gives it what the generator insists on.
func (w *writer) schema(d *draft, key string, raw json.RawMessage) (n *source.Node, why string) {
	if len(raw) == 0 || string(raw) == "null" {
		w.changed(d.at, d, "it has no %s; any object is taken", key)
		raw = json.RawMessage(`{}`)
	}
	n, found := source.Parse(key, raw)
	switch {
	case source.HasErrors(found):
		return nil, "cannot be read: " + found[0].Message
	case n.Kind == source.Bool && n.True():
		n = yaml.Object()
	case n.Kind != source.Object:
		return nil, fmt.Sprintf("is not a schema but a JSON %s", n.Kind)
	}
	if dropped := strip(n); len(dropped) > 0 {
		w.changed(d.at, d, "%s holds %s, which mean something to the generator and are removed", key, strings.Join(dropped, ", "))
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

// retool solves an error of the event's read tool, and reports whether it could. What the document says itself of the
// tool stays.
func (d *draft) retool(w *writer, code string) bool {
	switch {
	case code == "MCPE221" && d.node.Get("x-tool-name") == nil:
		return d.renameTool(w)
	case code == "MCPE222" && d.node.Get("x-tool-args") == nil:
		return d.reargue()
	}
	return false
}

// renameTool gives the event's read tool a name of its own: the one it would have, with the next number.
func (d *draft) renameTool(w *writer) bool {
	taken := map[string]bool{}
	for _, other := range w.drafts {
		name := readtool.Name(other.name)
		if n := other.node.Get("x-tool-name"); n != nil {
			name = n.Text
		}
		taken[name] = true
	}
	base := readtool.Name(d.name)
	for i := 2; ; i++ {
		end := "_" + strconv.Itoa(i)
		if name := base[:min(len(base), readtool.MaxName-len(end))] + end; !taken[name] {
			yaml.Set(d.node, "x-tool-name", yaml.Text(name))
			return true
		}
	}
}

// reargue names the arguments of the event's read tool otherwise than those of the event.
func (d *draft) reargue() bool {
	properties := d.node.Get("inputSchema").Get("properties")
	args := yaml.Object()
	for _, name := range []string{readtool.CursorArgument, readtool.MaxEventsArgument, readtool.WaitArgument,
		readtool.QuietArgument, readtool.SinceArgument} {
		as := name
		for as = name; properties.Get(as) != nil; {
			as = "read" + strings.ToUpper(as[:1]) + as[1:]
		}
		if as != name {
			yaml.Set(args, name, yaml.Text(as))
		}
	}
	if len(args.Members) == 0 {
		return false // they stand behind a reference
	}
	yaml.Set(d.node, "x-tool-args", args)
	return true
}

// untype makes raw JSON of the innermost schema around the place that is not raw yet and has no exact Go
// type; of an enum of strings, whose constants have no names of their own, a string.
func (d *draft) untype(tokens []string, as string) bool {
	n, first := d.node, 0
	var around []*source.Node
	if d.shared {
		around = append(around, n)
	} else {
		n, first = n.Get(tokens[0]), 1
	}
	for i := first; i < len(tokens) && n != nil; i++ {
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
			around = append(around, n)
		}
	}
	for _, n := range slices.Backward(around) {
		if d.fresh[n] {
			return true // another finding of this round
		}
		if n.Get("x-go-type") == nil {
			yaml.Set(n, "x-go-type", yaml.Text(as))
			d.untyped++
			d.fresh[n] = true
			return true
		}
	}
	return false
}
