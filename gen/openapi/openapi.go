// Package openapi reads event types from OpenAPI 3 documents: the webhooks of 3.1, the callbacks of
// operations, and the schemas that Stripe marks with x-stripeEvent.
//
// Start with [Read]. The schemas of components that the events refer to become shared schemas, as JSON
// Schema has them: nullable is a type, exclusiveMinimum a number, and examples are left out.
//
// The package makes no promise of compatibility.
package openapi

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/gen/yaml"
)

// Read returns the event types of an OpenAPI 3 document. One that is none gives an error diagnostic
// (MCPE510); what cannot be an event type is left out with a warning (MCPE511).
func Read(doc *source.Node) (importer.Document, []source.Diagnostic) {
	r := &reader{doc: doc, names: map[string]bool{}, wanted: map[wanted]string{}, called: map[string]bool{}, families: map[string]*family{}}
	version := doc.Get("openapi")
	if version == nil || !strings.HasPrefix(version.Text, "3.") {
		at := doc.Range
		if v := doc.Get("swagger"); v != nil {
			at = v.Range
		}
		r.found = append(r.found, source.New("MCPE510", at, "this is not an OpenAPI document of version 3").
			WithHint("convert an older one first, for example with swagger2openapi"))
		return importer.Document{}, r.found
	}
	r.beside = !strings.HasPrefix(version.Text, "3.0")
	var out importer.Document
	if t := doc.Get("info").Get("title"); t != nil {
		out.Title = t.Text
	}
	// The dialect of OpenAPI itself is 2020-12 with keywords that are read or left out here.
	if d := doc.Get("jsonSchemaDialect"); d != nil && !strings.HasPrefix(d.Text, "https://spec.openapis.org/oas/") {
		out.Dialect = d
	}
	for _, m := range members(doc.Get("webhooks")) {
		r.item(m.Key, m.KeyRange, m.Value)
	}
	for _, m := range members(doc.Get("x-webhooks")) { // of 3.0, which has none
		if doc.Get("webhooks").Get(m.Key) != nil {
			r.leaveOut(m.KeyRange, "x-webhook "+m.Key, "webhooks has one of this name")
			continue
		}
		r.item(m.Key, m.KeyRange, m.Value)
	}
	r.callbacks()
	r.stripe()
	if len(r.events) == 0 && len(r.found) == 0 {
		r.found = append(r.found, source.New("MCPE510", doc.Range, "the document describes no events: it has no webhooks, no x-webhooks, no callbacks and no x-stripeEvent").
			WithHint("events are what the API sends by itself; paths describe what it answers"))
	}
	out.Events = r.events
	for i := 0; i < len(r.order); i++ { // one schema may ask for more
		w := r.order[i]
		to := r.doc.Lookup(w.pointer)
		at := to.Range
		if _, key := to.Key(); key.Start.Line > 0 {
			at = key
		}
		n, err := r.shared(w)
		if err != nil {
			r.leaveOut(at, "schema "+r.wanted[w], err.Error())
			continue
		}
		out.Schemas = append(out.Schemas, importer.Schema{Name: r.wanted[w], Node: n, At: at})
	}
	if len(r.untyped) > 0 {
		slices.SortFunc(r.untyped, func(a, b source.Range) int { return a.Start.Compare(b.Start) })
		r.untyped = slices.Compact(r.untyped) // a base is written more than once
		r.found = append(r.found, source.New("MCPE502", r.untyped[0],
			"the document is changed: %d of its schemas, of which this is the first, do not say that they describe an object or an array; their type is added", len(r.untyped)))
	}
	return out, source.Sort(r.found)
}

// A Root is a part of a document from which event types come.
type Root struct {
	Node *source.Node
	// Names is set if the members of the node have names of the author's own.
	Names bool
}

// Roots returns the parts of an OpenAPI document from which event types come; their references may lead elsewhere.
func Roots(doc *source.Node) []Root {
	var all []Root
	add := func(n *source.Node) {
		if n != nil {
			all = append(all, Root{n, true})
		}
	}
	add(doc.Get("webhooks"))
	add(doc.Get("x-webhooks"))
	add(doc.Get("components").Get("callbacks"))
	for _, path := range members(doc.Get("paths")) {
		for _, m := range path.Value.Members {
			if slices.Contains(methods, m.Key) {
				add(m.Value.Get("callbacks"))
			}
		}
	}
	for _, m := range members(doc.Get("components").Get("schemas")) {
		if m.Value.Get("x-stripeEvent") != nil {
			all = append(all, Root{Node: m.Value})
		}
	}
	return all
}

type reader struct {
	doc *source.Node
	// beside tells that keywords beside $ref count, as they do since 3.1.
	beside bool
	events []importer.Event
	names  map[string]bool
	found  []source.Diagnostic
	// order are the shared schemas that are needed, wanted what they are called in the event file.
	order  []wanted
	wanted map[wanted]string
	called map[string]bool
	// inlined are the pointers of the schemas being written in the place of their references.
	inlined []string
	// families are those of the bases that were met, by pointer.
	families map[string]*family
	// bases are the schemas that others extend; nil before the first question.
	bases map[*source.Node]bool
	// top is the shared schema that is being written, subtype that it extends those of its allOf.
	top     *source.Node
	subtype bool
	// untyped are the places of schemas whose type was added.
	untyped []source.Range
	// asking is above 0 within not, if, then and else, where a type would change what is asked.
	asking int
}

func (r *reader) leaveOut(at source.Range, what, why string) {
	r.found = append(r.found, source.New("MCPE511", at, "%s is left out: %s", what, why))
}

func members(n *source.Node) []source.Member {
	if n == nil {
		return nil
	}
	return n.Members
}

// follow resolves references of the document that are no schemas.
func (r *reader) follow(n *source.Node) (*source.Node, error) {
	for range 20 {
		ref := n.Get("$ref")
		if ref == nil {
			return n, nil
		}
		to, err := r.lookup(ref.Text)
		if err != nil {
			return nil, err
		}
		n = to
	}
	return nil, fmt.Errorf("its references lead back to themselves")
}

func (r *reader) lookup(ref string) (*source.Node, error) {
	_, to, err := r.resolve(ref)
	return to, err
}

// resolve returns the JSON Pointer that a reference has as its fragment, and the node there.
func (r *reader) resolve(ref string) (string, *source.Node, error) {
	fragment, local := strings.CutPrefix(ref, "#")
	if !local {
		return "", nil, fmt.Errorf("it refers to %s, another document, which was not read", ref)
	}
	pointer := Unescaped(fragment)
	if to := r.doc.Lookup(pointer); pointer != "" && to != nil {
		return pointer, to, nil
	}
	return "", nil, fmt.Errorf("it refers to %s, which does not exist", ref)
}

// Unescaped undoes the percent-encoding of a URI fragment, as far as it is one.
func Unescaped(fragment string) string {
	if plain, err := url.PathUnescape(fragment); err == nil {
		return plain
	}
	return fragment
}

var methods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

// item takes the operations of a path item: what is sent for the event.
func (r *reader) item(name string, at source.Range, n *source.Node) {
	item, err := r.follow(n)
	if err != nil {
		r.leaveOut(at, "webhook "+name, err.Error())
		return
	}
	var operations []source.Member
	for _, m := range item.Members {
		if slices.Contains(methods, m.Key) {
			operations = append(operations, m)
		}
	}
	for _, m := range operations {
		as := name
		if len(operations) > 1 {
			as += "." + m.Key
		}
		if err := r.operation(as, at, item, m.Value); err != nil {
			r.leaveOut(at, "webhook "+as, err.Error())
		}
	}
}

func (r *reader) operation(name string, at source.Range, item, op *source.Node) error {
	body := op.Get("requestBody")
	if body == nil {
		return fmt.Errorf("it has no requestBody")
	}
	body, err := r.follow(body)
	if err != nil {
		return err
	}
	var media *source.Node
	for _, m := range members(body.Get("content")) {
		kind, _, _ := strings.Cut(strings.ToLower(m.Key), ";")
		if media == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json") || kind == "*/*") {
			media = m.Value
		}
	}
	if media == nil || media.Get("schema") == nil {
		return fmt.Errorf("its requestBody has no schema for application/json")
	}
	return r.event(name, at, describe(op, item), media.Get("schema"), op.Get("deprecated").True())
}

func (r *reader) event(name string, at source.Range, description string, payload *source.Node, deprecated bool) error {
	n, err := r.schema(payload)
	if err != nil {
		return err
	}
	e := importer.Event{At: at}
	e.Name = r.name(name)
	e.Description = description
	if e.Description == "" {
		e.Description = "The event " + e.Name + "."
	}
	e.InputSchema = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	e.PayloadSchema = n.JSON()
	if deprecated {
		e.Deprecated = &schema.Deprecated{}
	}
	r.events = append(r.events, e)
	return nil
}

// name makes a name that an event file can hold and no other event has.
func (r *reader) name(name string) string {
	clean := importer.CleanName(name)
	unique := clean
	for i := 2; r.names[unique]; i++ {
		unique = fmt.Sprintf("%s-%d", clean, i)
	}
	r.names[unique] = true
	return unique
}

func describe(nodes ...*source.Node) string {
	for _, n := range nodes {
		for _, key := range []string{"description", "summary"} {
			if d := n.Get(key); d != nil && strings.TrimSpace(d.Text) != "" {
				return d.Text
			}
		}
	}
	return ""
}

// callbacks takes what operations call back, and what stands among the components for it.
func (r *reader) callbacks() {
	type callback struct {
		name, of string
		at       source.Range
		item     *source.Node
	}
	var all []callback
	uses := map[string]int{}
	named := map[string]bool{}
	collect := func(of string, list *source.Node) {
		for _, m := range members(list) {
			if ref := m.Value.Get("$ref"); ref != nil {
				named[Unescaped(ref.Text)] = true
			}
			expressions, err := r.follow(m.Value)
			if err != nil {
				r.leaveOut(m.KeyRange, "callback "+m.Key, err.Error())
				continue
			}
			for _, e := range expressions.Members {
				if !strings.HasPrefix(e.Key, "x-") {
					all = append(all, callback{m.Key, of, m.KeyRange, e.Value})
					uses[m.Key]++
				}
			}
		}
	}
	for _, path := range members(r.doc.Get("paths")) {
		for _, m := range path.Value.Members {
			if slices.Contains(methods, m.Key) {
				of := m.Key + path.Key
				if id := m.Value.Get("operationId"); id != nil {
					of = id.Text
				}
				collect(of, m.Value.Get("callbacks"))
			}
		}
	}
	for _, m := range members(r.doc.Get("components").Get("callbacks")) {
		if !named["#/components/callbacks/"+source.EscapeToken(m.Key)] {
			one := yaml.Object()
			one.Members = append(one.Members, m)
			collect("components", one)
		}
	}
	for _, c := range all {
		name := c.name
		if uses[c.name] > 1 {
			name = c.of + "." + c.name
		}
		r.item(name, c.at, c.item)
	}
}

// stripe takes the schemas that describe the data of an event of Stripe.
func (r *reader) stripe() {
	for _, m := range members(r.doc.Get("components").Get("schemas")) {
		kind := m.Value.Get("x-stripeEvent").Get("type")
		if kind == nil {
			continue
		}
		if err := r.event(kind.Text, m.KeyRange, describe(m.Value), m.Value, m.Value.Get("deprecated").True()); err != nil {
			r.leaveOut(m.KeyRange, "event "+kind.Text, err.Error())
		}
	}
}
