package docs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/gen/provider"
	"github.com/mcpe-gen/mcpe-gen/gen/sample"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A Page is the reference of a set of event files.
type Page struct {
	// Title is the heading of the page.
	Title string
	// Events are in the order of the files.
	Events []Event
	// Modes are the delivery modes that any event offers.
	Modes []Mode
	// Since names what Changes compares with; empty when nothing was compared.
	Since   string
	Changes []Change
	// Overrides are where the schemas differ from their files.
	Overrides []Override
}

// An Override is a change that the configuration makes to a schema.
type Override struct{ File, At, Does string }

// An Event is one event type of a [Page].
type Event struct {
	// Anchor is unique in the page.
	Anchor, Name, Description string
	// GoName is what names of generated code begin with.
	GoName   string
	Delivery []string
	Source   string
	// From says which webhooks of a service become occurrences, in words; empty where none do.
	From   string
	Replay bool
	// Coalesce says which events a consumer may join, in words; empty where none.
	Coalesce string
	// Experimental tells that the type may change in any way.
	Experimental bool
	Deprecated   *model.Deprecated
	// Replacement is the anchor of the event that replaces a deprecated one, when it is on the page.
	Replacement string
	// OpenArguments and OpenPayload tell that members beyond the rows are allowed.
	Arguments, Payload []Row
	// Filters are the arguments that are compared with the payload.
	Filters []Filter
	// Subscribe is an example of arguments, Example one of an occurrence; nil when none was found.
	Subscribe, Example json.RawMessage
	// Fingerprint identifies the schemas (EVOL-4).
	Fingerprint string
}

// A Filter is an x-match in words.
type Filter struct{ Argument, Place, Says string }

// A Mode is a way of delivery with what a reader has to know of it.
type Mode struct {
	// Name is poll, push or webhook.
	Name, Title, Text string
	// Diagram is who sends what to whom.
	Diagram Diagram
}

// Options says what a page holds.
type Options struct {
	Title string
	// Since names an older version and Changes what has changed since.
	Since   string
	Changes []Change
}

// A Package is the event files of one package. Its types are those of the model; examples are made of what is
// published.
type Package struct {
	Set   *schema.Set
	Model *model.Package
}

// New makes the page of the given event files: those reached by $ref show in types only. A file of several packages
// is shown once.
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
		types, samples, given := typesOf(pkg.Model), new(sample.Maker), pkg.given()
		for _, e := range pkg.Model.Events {
			s := given[e.Pos]
			if s == nil || shown[e.Pos] {
				continue
			}
			shown[e.Pos] = true
			out := types.event(e, anchorOf(e.Name, taken))
			anchors[e.Name] = out.Anchor
			out.Subscribe, _ = samples.Value(pkg.Set.Shared(s.Input))
			if data, ok := samples.Value(pkg.Set.Shared(s.Payload)); ok {
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

// anchorOf is a fragment for the event, which differs from that of every other.
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

// given are the event types of the files that were given, by position.
func (p Package) given() map[string]*schema.Event {
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
		Arguments: all.rows(e.Arguments), Payload: all.rows(e.Payload), From: from(e.From), Coalesce: joined(e.Coalesce),
		Fingerprint: e.Fingerprint,
	}
	for _, m := range e.Match {
		out.Filters = append(out.Filters, Filter{Argument: m.Argument, Place: place(m.Path), Says: says(m, out.Payload)})
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

// occurrence wraps an example of a payload as it is delivered.
func occurrence(name string, data json.RawMessage) json.RawMessage {
	out := []byte(`{"eventId":"evt_1","name":`)
	out = source.AppendString(out, name)
	out = append(out, `,"timestamp":"2026-11-20T08:00:00Z","data":`...)
	return append(append(out, data...), '}')
}

// place is a JSON Pointer as the tables write it.
func place(pointer string) string {
	tokens, _ := source.SplitPointer(pointer)
	return strings.Join(tokens, ".")
}

// verbs are the operators of x-match in words.
var verbs = map[string]string{
	"equal": "equals this", "in": "is one of these", "glob": "fits this pattern (* any text, ? one character)",
	"prefix": "begins with this", "min": "is at least this", "max": "is at most this",
}

// says is a filter in words; payload are the rows of what it looks at.
func says(m model.Match, payload []Row) string {
	at := place(m.Path)
	if slices.ContainsFunc(payload, func(r Row) bool { return r.Path == at && strings.HasPrefix(r.Type, arrayOf) }) {
		return "delivers events with an element of " + at + " that " + verbs[m.Op]
	}
	return "delivers events whose " + at + " " + verbs[m.Op]
}

// Command is a line for a terminal that listens to the event.
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

// from says which webhooks become occurrences.
func from(f *model.From) string {
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

// joined says which events a consumer may join.
func joined(c *model.Coalesce) string {
	if c == nil {
		return ""
	}
	places := make([]string, len(c.Key))
	for i, key := range c.Key {
		places[i] = place(key)
	}
	what := "the latest of them"
	if c.Keep == wire.KeepAll {
		what = "all of them"
	}
	return fmt.Sprintf("Events with the same %s are about the same thing. A consumer that joins them gets %s once nothing more has come for %d s, after %d s at the latest.",
		strings.Join(places, " and "), what, c.QuietSeconds, c.MaxSeconds)
}

// Sources says where occurrences come from.
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
