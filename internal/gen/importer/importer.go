package importer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/toolschema"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Options describes the event file to write.
type Options struct {
	// From is the name of the source in the first line of the file and in diagnostics. It must not contain secrets.
	From string
	// Package is the Go package that the file declares, or empty.
	Package string
	// Dialect is the dialect of schemas without a supported dialect: a name from [schema.Dialects] or a $schema URI. If
	// it is empty, 2020-12 applies to schemas without a dialect, and unsupported dialects are errors.
	Dialect string
	// Previous is the event file of an earlier import, or nil. Shared schemas that Write makes keep their names in it.
	Previous *source.Node
}

// An Event is an event type to write. It consists of a descriptor and, if known, details that a descriptor does not
// contain.
type Event struct {
	wire.Descriptor
	// Source is "emit", "check" or "both"; empty means the default.
	Source string
	// NoReplay reports whether the event type does not support replay, so its cursors are null.
	NoReplay bool
	// Stability is "stable" or "experimental"; empty means the default.
	Stability string
	// Deprecated is nil if the type is not deprecated.
	Deprecated *schema.Deprecated
	// Match lists the rules for filtering events by arguments.
	Match []schema.MatchRule
	// Node is the complete event file entry, if known. If it is set, Write ignores all other fields except Name, At and
	// Comments.
	Node *source.Node
	// Own reports whether an event file described the event. Write then shares only the definitions in its schemas.
	Own bool
	// At is the position of the event type for diagnostics, or zero if unknown.
	At source.Range
	// Comments lists the comment lines to write above the event type.
	Comments []string
}

// A Document is the input of an import.
type Document struct {
	// Title is the title of the document, or empty.
	Title string
	// Package is the Go package that the document declares, or empty.
	Package string
	// Schemas lists the shared schemas. References to them have the form #/schemas/NAME.
	Schemas []Schema
	Events  []Event
	// Tasks and Conversation are the values of the event file keys tasks and conversation, or nil.
	Tasks, Conversation *source.Node
	// Published reports whether a server published the schemas. Write then converts definitions in them to shared
	// schemas.
	Published bool
	// Dialect is the dialect that the document declares for its schemas, or nil.
	Dialect *source.Node
	// Comments lists the comment lines to write at the start of the file.
	Comments []string
}

// A Schema is a shared schema to write.
type Schema struct {
	Name string
	Node *source.Node
	// Own reports whether to keep the keywords of this generator in the schema.
	Own bool
	// At is the position of the schema for diagnostics, or zero if unknown.
	At source.Range
	// Comments lists the comment lines to write above the schema.
	Comments []string
}

// Events returns a document for the descriptors that a server published.
func Events(ds []wire.Descriptor) Document {
	doc := Document{Published: true, Events: make([]Event, len(ds))}
	for i, d := range ds {
		doc.Events[i].Descriptor = d
	}
	return doc
}

// ErrNothing indicates that the document has no event type that can be written.
var ErrNothing = errors.New("there is no event type to import")

// Write returns an event file for the document, with the same order of event types. The generator accepts the file
// without errors. Diagnostics report omitted event types (MCPE501) and changed event types (MCPE502, MCPE503, MCPE504).
// If no event type can be written, the error is [ErrNothing]. If a schema has an unsupported dialect and Options has no
// Dialect, the file is nil and a diagnostic reports the error (MCPE132).
func Write(doc Document, o Options) ([]byte, []source.Diagnostic, error) {
	o.Package = cmp.Or(o.Package, doc.Package)
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
		if d := w.eventDraft(e); d != nil {
			w.drafts = append(w.drafts, d)
		}
	}
	if doc.Published {
		w.sharePublished()
	}
	if !w.checkDialects() {
		return nil, w.found, nil
	}
	if !doc.Published {
		w.share(nil)
	}
	if err := w.repair(); err != nil {
		return nil, w.found, err
	}
	for _, d := range w.allDrafts() {
		for _, name := range d.renamed {
			w.found = append(w.found, source.New("MCPE503", w.knownRange(d.at), "%s: x-go-name %s distinguishes two names", d, name.Text))
		}
		if d.addedGoTypes > 0 {
			w.found = append(w.found, source.New("MCPE504", w.knownRange(d.at), "%s: x-go-type is added where there is no exact Go type (%d)", d, d.addedGoTypes))
		}
	}
	return w.render(), w.found, nil
}

type writer struct {
	o      Options
	at     source.Range
	doc    Document
	drafts []*draft
	// shared maps the names of shared schemas to their drafts. order lists the names.
	shared map[string]*draft
	order  []string
	// dropped maps the name of each omitted shared schema to the reason.
	dropped   map[string]string
	omissions []string // comment lines
	found     []source.Diagnostic
}

// knownRange returns the given range if it is known, or the range of the whole source.
func (w *writer) knownRange(at source.Range) source.Range {
	if at.Start.File == "" {
		return w.at
	}
	return at
}

// allDrafts returns all drafts in the order of the file.
func (w *writer) allDrafts() []*draft {
	var list []*draft
	for _, name := range w.order {
		list = append(list, w.shared[name])
	}
	return append(list, w.drafts...)
}

func (w *writer) leaveOut(at source.Range, name, why string) {
	w.found = append(w.found, source.New("MCPE501", w.knownRange(at), "event %q is left out: %s", name, why))
	w.omissions = append(w.omissions, fmt.Sprintf("%q: %s", name, why))
}

func (w *writer) changed(at source.Range, what fmt.Stringer, format string, args ...any) {
	w.found = append(w.found, source.New("MCPE502", w.knownRange(at), "%s is changed: %s", what, fmt.Sprintf(format, args...)))
}

// A draft is an event or shared schema to write.
type draft struct {
	name   string
	shared bool
	// isExact reports whether the document contains the complete entry of an event file.
	isExact bool
	// isOwn reports whether an event file described the event.
	isOwn bool
	at    source.Range
	node  *source.Node
	// comments lists the comment lines above the entry.
	comments []string
	// renamed lists the values of the x-go-name keywords that Write added. addedGoTypes is the number of x-go-type
	// keywords that it added.
	renamed      []*source.Node
	addedGoTypes int
	// retyped is the set of schemas to which addGoType added a keyword in this round.
	retyped map[*source.Node]bool
}

// schemas returns the top-level schemas of the draft.
func (d *draft) schemas() []*source.Node {
	if d.shared {
		return []*source.Node{d.node}
	}
	return []*source.Node{d.node.Get("inputSchema"), d.node.Get("payloadSchema")}
}

// String returns a description of the draft for diagnostics.
func (d *draft) String() string {
	if d.shared {
		return fmt.Sprintf("schema %q", d.name)
	}
	return fmt.Sprintf("event %q", d.name)
}

// Node returns an event as an event file entry, without correcting errors. If an event file cannot express the event,
// it returns nil.
func Node(e Event) *source.Node {
	if d := (&writer{}).eventDraft(e); d != nil {
		return d.node
	}
	return nil
}

var eventName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// schemaDraft adds a draft for a shared schema.
func (w *writer) schemaDraft(s Schema) {
	d := &draft{name: s.Name, shared: true, isExact: s.Own, at: s.At, node: s.Node, comments: s.Comments}
	if !s.Own {
		if dropped := removeGeneratorKeywords(d.node); len(dropped) > 0 {
			w.changed(d.at, d, "it holds %s, which mean something to the generator and are removed", strings.Join(dropped, ", "))
		}
	}
	if w.shared[s.Name] == nil {
		w.shared[s.Name] = d
		w.order = append(w.order, s.Name)
	}
}

// eventDraft returns a draft for an event. If an event file cannot express the event, it returns nil.
func (w *writer) eventDraft(e Event) *draft {
	d := &draft{name: e.Name, isOwn: e.Own, at: e.At, node: e.Node, comments: e.Comments}
	if !eventName.MatchString(e.Name) {
		w.leaveOut(e.At, e.Name, "an event file cannot name it; ASCII letters and digits, '_', '.' and '-' are allowed")
		return nil
	}
	if d.node != nil {
		d.isExact = true
		return d
	}
	d.node = yaml.Object()
	if e.Description == "" {
		w.changed(e.At, d, "it has no description, which the protocol requires; its name is used")
		e.Description = e.Name
	}
	yaml.Set(d.node, "name", yaml.Text(e.Name))
	yaml.Set(d.node, "description", yaml.Text(e.Description))
	if modes := knownModes(e.Delivery); len(modes) > 0 {
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
		yaml.Set(d.node, "deprecated", Deprecation(*e.Deprecated))
	}
	if meta, err := metaOf(e.Meta); err != nil {
		w.changed(e.At, d, "its _meta cannot be written: %v", err)
	} else if meta != nil {
		yaml.Set(d.node, "_meta", meta)
	}
	if c, err := wire.CoalesceOf(e.Meta); err != nil {
		w.changed(e.At, d, "it does not say which events to join: %v", err)
	} else if c != nil {
		yaml.Set(d.node, "x-coalesce", coalesceNode(*c))
	}
	for _, part := range []struct {
		key string
		raw json.RawMessage
	}{{"inputSchema", e.InputSchema}, {"payloadSchema", e.PayloadSchema}} {
		n, why := w.parseSchema(d, part.key, part.raw)
		if why != "" {
			w.leaveOut(e.At, e.Name, part.key+" "+why)
			return nil
		}
		yaml.Set(d.node, part.key, n)
	}
	if path := wire.ActorOf(e.Meta); path != "" {
		if removeActorArgument(d.node, path) {
			yaml.Set(d.node, "x-actor", yaml.Text(path))
		} else {
			w.changed(e.At, d, "x-actor is left out: its arguments have no %s as x-actor adds it", wire.NotBy)
		}
	}
	for _, m := range e.Match {
		addMatch(d.node, m)
	}
	return d
}

// parseSchema parses a published schema and removes the keywords of this generator. If the schema cannot be used, it
// returns the reason.
func (w *writer) parseSchema(d *draft, key string, raw json.RawMessage) (n *source.Node, why string) {
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
	if dropped := removeGeneratorKeywords(n); len(dropped) > 0 {
		w.changed(d.at, d, "%s holds %s, which mean something to the generator and are removed", key, strings.Join(dropped, ", "))
	}
	return n, ""
}

// removeGeneratorKeywords removes the keywords of this generator, because a third party did not intend them for it. It
// returns the removed keywords.
func removeGeneratorKeywords(n *source.Node) (dropped []string) {
	walk(n, func(n *source.Node) {
		n.Members = slices.DeleteFunc(n.Members, func(m source.Member) bool {
			mine := schema.GeneratorOnly(m.Key)
			if mine && !slices.Contains(dropped, m.Key) {
				dropped = append(dropped, m.Key)
			}
			return mine
		})
	})
	return dropped
}

// rename sets the x-go-name of n to base, followed by a number. Each call for the same node increments the number.
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

// fixTool tries to correct an error in the event's read tool and reports whether it succeeded. It does not change
// settings from the document.
func (d *draft) fixTool(w *writer, code string) bool {
	switch {
	case code == "MCPE221" && d.node.Get("x-tool-name") == nil:
		return d.renameTool(w)
	case code == "MCPE222" && d.node.Get("x-tool-args") == nil:
		return d.renameArguments()
	}
	return false
}

// renameTool makes the name of the event's read tool unique by appending a number to the default name.
func (d *draft) renameTool(w *writer) bool {
	taken := map[string]bool{}
	for _, other := range w.drafts {
		taken[cmp.Or(other.node.Word("x-tool-name"), toolschema.Name(other.name))] = true
	}
	name := source.ShortUniqueName(toolschema.Name(d.name), "_", toolschema.MaxDefaultName, taken)
	yaml.Set(d.node, "x-tool-name", yaml.Text(name))
	return true
}

// renameArguments renames arguments of the event's read tool that collide with arguments of the event. It reports
// whether it renamed any.
func (d *draft) renameArguments() bool {
	properties := d.node.Get("inputSchema").Get("properties")
	args := yaml.Object()
	for _, name := range []string{toolschema.CursorArgument, toolschema.MaxEventsArgument, toolschema.WaitArgument,
		toolschema.QuietArgument, toolschema.SinceArgument} {
		as := name
		for as = name; properties.Get(as) != nil; {
			as = "read" + strings.ToUpper(as[:1]) + as[1:]
		}
		if as != name {
			yaml.Set(args, name, yaml.Text(as))
		}
	}
	if len(args.Members) == 0 {
		return false // they are behind a reference
	}
	yaml.Set(d.node, "x-tool-args", args)
	return true
}

// addGoType sets x-go-type to as in the innermost schema around a location that has no x-go-type. It reports whether
// there is such a schema.
func (d *draft) addGoType(tokens []string, as string) bool {
	n, first := d.node, 0
	var around []*source.Node
	if d.shared {
		around = append(around, n)
	} else {
		n, first = n.Get(tokens[0]), 1
	}
	for i := first; i < len(tokens) && n != nil; i++ {
		k, _ := schematree.Any.Keyword(tokens[i])
		n = n.Get(tokens[i])
		switch {
		case k.Holds == schematree.Nothing:
			n = nil
		case k.Holds != schematree.Schema && i+1 < len(tokens) && n != nil && (n.Kind == source.Array || k.Holds != schematree.SchemaOrList):
			i++
			n = n.Lookup(wire.Pointer(tokens[i]))
		}
		if n != nil && n.Kind == source.Object {
			around = append(around, n)
		}
	}
	for _, n := range slices.Backward(around) {
		if d.retyped[n] {
			return true // another finding of this round did so
		}
		if n.Get("x-go-type") == nil {
			yaml.Set(n, "x-go-type", yaml.Text(as))
			d.addedGoTypes++
			d.retyped[n] = true
			return true
		}
	}
	return false
}
