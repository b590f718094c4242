package docs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/provider"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/sample"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A Page is the reference documentation of a set of event files.
type Page struct {
	// Title is the heading of the page.
	Title string
	// Events lists the events in the order of the files.
	Events []Event
	// Modes lists the delivery modes that at least one event supports.
	Modes []Mode
	// Since names the old version for Changes. It is empty without a comparison.
	Since   string
	Changes []Change
	// Overrides lists the changes that the configuration makes to schemas.
	Overrides []Override
}

// An Override is a change that the configuration makes to a schema.
type Override struct{ File, At, Does string }

// An Event is an event type of a [Page].
type Event struct {
	// Anchor is the event's HTML anchor, which is unique in the page.
	Anchor, Name, Description string
	// GoName is the prefix of the event's identifiers in the generated code.
	GoName   string
	Delivery []string
	Source   string
	// From describes the webhooks that become events. It is empty without a `from:`.
	From   string
	Replay bool
	// Actor is the path of the actor in table notation. It is empty if the event type does not declare an actor.
	Actor string
	// Coalesce describes the events that a consumer can merge. It is empty without an x-coalesce.
	Coalesce string
	// Experimental reports whether the type may change incompatibly.
	Experimental bool
	Deprecated   *model.Deprecated
	// Replacement is the anchor of the event that replaces a deprecated one. It is empty if the page does not contain
	// that event.
	Replacement string
	// OpenArguments and OpenPayload report whether members without a row are allowed.
	Arguments, Payload []Row
	// Filters lists the arguments that filter events by payload values.
	Filters []Filter
	// Subscribe contains example arguments, and Example an example event. They are nil if no example was found.
	Subscribe, Example json.RawMessage
	// Fingerprint identifies the schemas (EVOL-4).
	Fingerprint string
}

// A Filter describes an x-match.
type Filter struct{ Argument, Place, Says string }

// A Mode is a delivery mode with its explanation.
type Mode struct {
	// Name is poll, push or webhook.
	Name, Title, Text string
	// Diagram shows the message flow of the mode.
	Diagram Diagram
}

// Options configures a page.
type Options struct {
	Title string
	// Since names an older version. Changes lists the changes since that version.
	Since   string
	Changes []Change
}

// A Package contains the event files and the model of one package. The model provides the types, and the published
// schemas provide the examples.
type Package struct {
	Set   *schema.Set
	Model *model.Package
}

// New returns the page for the given event files. Files reached by $ref contribute only types. An event that belongs to
// several packages appears only once.
func New(packages []Package, o Options) *Page {
	p := &Page{Title: o.Title, Since: o.Since, Changes: o.Changes}
	taken := map[string]bool{}
	anchors := map[string]string{}
	shown := map[string]bool{} // by position
	for _, pkg := range packages {
		for _, a := range pkg.Model.Overrides {
			if o := (Override{a.File, a.At, a.Does}); !slices.Contains(p.Overrides, o) {
				p.Overrides = append(p.Overrides, o)
			}
		}
		types, samples, given := typesOf(pkg.Model), new(sample.Maker), pkg.givenEvents()
		for _, e := range pkg.Model.Events {
			s := given[e.Pos]
			if s == nil || shown[e.Pos] {
				continue
			}
			shown[e.Pos] = true
			out := types.event(e, anchorOf(e.Name, taken))
			anchors[e.Name] = out.Anchor
			out.Subscribe, _ = samples.Example(pkg.Set.Shared(s.Input))
			if data, ok := samples.Example(pkg.Set.Shared(s.Payload)); ok {
				out.Example = occurrence(e.Name, data)
			}
			p.Events = append(p.Events, out)
		}
	}
	for i, e := range p.Events {
		if e.Deprecated != nil {
			p.Events[i].Replacement = anchors[e.Deprecated.ReplacedBy]
		}
	}
	for i, c := range p.Changes {
		p.Changes[i].Anchor = anchors[c.Event]
	}
	for _, m := range modes {
		if slices.ContainsFunc(p.Events, func(e Event) bool { return slices.Contains(e.Delivery, m.Name) }) {
			p.Modes = append(p.Modes, m)
		}
	}
	return p
}

// anchorOf returns a unique HTML anchor for the event.
func anchorOf(name string, taken map[string]bool) string {
	base := "event-" + strings.Map(func(r rune) rune {
		if r == '.' || r == '_' {
			return '-'
		}
		return r
	}, strings.ToLower(name))
	anchor := base
	for taken[anchor] {
		anchor += "-"
	}
	taken[anchor] = true
	return anchor
}

// givenEvents maps positions to the event types of the given files.
func (p Package) givenEvents() map[string]*schema.Event {
	all := map[string]*schema.Event{}
	for _, f := range p.Set.Files {
		for _, e := range f.Events {
			if f.Given {
				all[e.NameRange.Start.String()] = e
			}
		}
	}
	return all
}

func (all types) event(e model.Event, anchor string) Event {
	out := Event{
		Anchor: anchor, Name: e.Name, Description: strings.TrimSpace(source.Prose(e.Description)), GoName: e.Go.Prefix, Delivery: e.Delivery,
		Source: e.Source, Replay: e.Replay, Experimental: e.Stability == "experimental", Deprecated: e.Deprecated,
		Arguments: all.rowsOf(e.Arguments), Payload: all.rowsOf(e.Payload), From: describeWebhooks(e.From), Coalesce: describeCoalescing(e.Coalesce), Actor: formatPath(e.Actor),
		Fingerprint: e.Fingerprint,
	}
	for _, m := range e.Match {
		out.Filters = append(out.Filters, Filter{Argument: m.Argument, Place: formatPath(m.Path), Says: describeFilter(m, out.Payload)})
	}
	for i, r := range out.Arguments {
		for _, m := range out.Filters {
			if r.Path == m.Argument {
				out.Arguments[i].Filter = m.Says
			}
		}
	}
	return out
}

// occurrence returns an example event with the given payload.
func occurrence(name string, data json.RawMessage) json.RawMessage {
	out := []byte(`{"eventId":"evt_1","name":`)
	out = schematree.AppendString(out, name)
	out = append(out, `,"timestamp":"2026-11-20T08:00:00Z","data":`...)
	return append(append(out, data...), '}')
}

// formatPath converts a JSON Pointer with wildcards to table notation.
func formatPath(path string) string {
	tokens, _ := wire.SplitPointer(path)
	var b strings.Builder
	for i, t := range tokens {
		switch {
		case t == "*":
			b.WriteString("[]")
		case i > 0:
			b.WriteString("." + t)
		default:
			b.WriteString(t)
		}
	}
	return b.String()
}

// operatorPhrases maps the operators of x-match to descriptions.
var operatorPhrases = map[string]string{
	"equal": "equals this", "in": "is one of these", "glob": "fits this pattern (* any text, ? one character)",
	"prefix": "begins with this", "lt": "is less than this", "lte": "is at most this", "gt": "is greater than this", "gte": "is at least this",
	"min": "is at least this", "max": "is at most this",
}

// describeFilter describes a filter in words. payload contains the rows of the payload.
func describeFilter(m model.Match, payload []Row) string {
	does := "delivers"
	if m.Not {
		does = "leaves out"
	}
	at := formatPath(m.Path)
	if slices.ContainsFunc(payload, func(r Row) bool { return r.Path == at && strings.HasPrefix(r.Type, arrayOf) }) {
		at += "[]"
	}
	array, member := at, ""
	if i := strings.LastIndex(at, "[]"); i >= 0 {
		array, member = at[:i], strings.TrimPrefix(at[i+len("[]"):], ".")
	}
	switch {
	case array == at:
		return does + " events whose " + at + " " + operatorPhrases[m.Op]
	case member == "":
		return does + " events with an element of " + array + " that " + operatorPhrases[m.Op]
	}
	return does + " events with an element of " + array + " whose " + member + " " + operatorPhrases[m.Op]
}

// Command returns a command line that listens to the event.
func (e Event) Command() string {
	line := "mcpe-gen listen URL " + e.Name
	var args map[string]any
	if len(e.Subscribe) > 0 && json.Unmarshal(e.Subscribe, &args) == nil {
		for _, r := range e.Arguments {
			if s, ok := args[r.Path].(string); ok && (r.Required || r.Filter != "") && !strings.ContainsAny(s, " '\"$*?`\\") {
				line += " --arg " + r.Path + "=" + s
			}
		}
	}
	return line
}

// describeWebhooks describes the webhooks that become events.
func describeWebhooks(f *model.From) string {
	if f == nil {
		return ""
	}
	p, _ := provider.Lookup(f.Provider)
	words := "webhooks of " + p.Title
	if p.Eventless {
		words = p.Title
	}
	switch {
	case f.Event != "" && f.Action != "":
		words += ": " + f.Event + ", " + f.Action
	case f.Event+f.Action != "":
		words += ": " + f.Event + f.Action
	}
	return words
}

// describeCoalescing describes the events that a consumer can merge.
func describeCoalescing(c *model.Coalesce) string {
	if c == nil {
		return ""
	}
	places := make([]string, len(c.Key))
	for i, key := range c.Key {
		places[i] = formatPath(key)
	}
	what := "the latest of them"
	if c.Keep == wire.KeepAll {
		what = "all of them"
	}
	return fmt.Sprintf("Events with the same %s are about the same thing. A consumer that joins them gets %s once nothing more has come for %d s, after %d s at the latest.",
		strings.Join(places, " and "), what, c.QuietSeconds, c.MaxSeconds)
}

// Sources describes how the server obtains the events.
func (e Event) Sources() string {
	switch {
	case e.From != "" && e.Source == "both":
		return "emitted by the server, also from " + e.From + ", and found by asking an upstream system"
	case e.From != "":
		return "emitted by the server, also from " + e.From
	}
	switch e.Source {
	case "check":
		return "found by asking an upstream system"
	case "both":
		return "emitted by the server, and found by asking an upstream system"
	}
	return "emitted by the server"
}
