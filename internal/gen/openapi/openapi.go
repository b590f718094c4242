// Package openapi reads event types from OpenAPI 3 documents. Event types are the webhooks of version 3.1, the
// callbacks of operations, and schemas with Stripe's keyword x-stripeEvent.
//
// Start with [Read]. The package converts component schemas that events refer to into shared JSON Schemas. For example,
// it replaces nullable with a type and omits examples.
package openapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Read returns the event types of an OpenAPI 3 document. It reports an error for other documents (MCPE510). Read skips
// parts that cannot become event types, with a warning (MCPE511). Component schemas with names that match one of the
// [path.Match] patterns also become event types.
func Read(doc *source.Node, components ...string) (importer.Document, []source.Diagnostic) {
	r := &reader{doc: doc, names: map[string]bool{}, sharedNames: map[sharedKey]string{}, takenNames: map[string]bool{}, families: map[string]*family{}}
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
	r.allowsSiblings = !strings.HasPrefix(version.Text, "3.0")
	out := importer.Document{Title: doc.Get("info").Word("title")}
	// The dialect of OpenAPI extends 2020-12 with keywords that this package converts or omits.
	if d := doc.Get("jsonSchemaDialect"); d != nil && !strings.HasPrefix(d.Text, "https://spec.openapis.org/oas/") {
		out.Dialect = d
	}
	for _, m := range doc.MembersAt("webhooks") {
		r.readItem(m.Key, m.KeyRange, m.Value)
	}
	for _, m := range doc.MembersAt("x-webhooks") { // 3.0 does not have webhooks
		if doc.Get("webhooks").Get(m.Key) != nil {
			r.leaveOut(m.KeyRange, "x-webhook "+m.Key, "webhooks has one of this name")
			continue
		}
		r.readItem(m.Key, m.KeyRange, m.Value)
	}
	r.readCallbacks()
	r.readStripe()
	r.addMatching(components)
	if len(r.events) == 0 && len(r.found) == 0 {
		r.found = append(r.found, source.New("MCPE510", doc.Range, "the document describes no events: it has no webhooks, no x-webhooks, no callbacks and no x-stripeEvent").
			WithHint("events are what the API sends by itself; paths describe what it answers. If schemas of its components describe events, name them: --components 'PATTERN'"))
	}
	out.Events = r.events
	for i := 0; i < len(r.order); i++ { // a schema may refer to more schemas
		w := r.order[i]
		to := r.doc.Lookup(w.pointer)
		at := to.Range
		if _, key := to.Key(); key.Start.Line > 0 {
			at = key
		}
		n, err := r.sharedSchema(w)
		if err != nil {
			r.leaveOut(at, "schema "+r.sharedNames[w], err.Error())
			continue
		}
		out.Schemas = append(out.Schemas, importer.Schema{Name: r.sharedNames[w], Node: n, At: at})
	}
	if len(r.untyped) > 0 {
		slices.SortFunc(r.untyped, func(a, b source.Range) int { return a.Start.Compare(b.Start) })
		r.untyped = slices.Compact(r.untyped) // a base is written several times
		r.found = append(r.found, source.New("MCPE502", r.untyped[0],
			"the document is changed: %d of its schemas (this is the first) have no type although they describe an object or an array; the import adds the type", len(r.untyped)))
	}
	return out, source.Sort(r.found)
}

// A Root is a part of a document in which event types are described.
type Root struct {
	Node *source.Node
	// Names reports whether the author chose the member names of Node. Otherwise, they are keywords.
	Names bool
}

// Roots returns the parts of an OpenAPI document in which event types are described. They can refer to other parts of
// the document.
func Roots(doc *source.Node, components ...string) []Root {
	var all []Root
	add := func(n *source.Node) {
		if n != nil {
			all = append(all, Root{n, true})
		}
	}
	add(doc.Get("webhooks"))
	add(doc.Get("x-webhooks"))
	add(doc.Get("components").Get("callbacks"))
	for _, path := range doc.MembersAt("paths") {
		for _, m := range operations(path.Value) {
			add(m.Value.Get("callbacks"))
		}
	}
	for _, m := range doc.Get("components").MembersAt("schemas") {
		if m.Value.Get("x-stripeEvent") != nil || matchesAny(m.Key, components) {
			all = append(all, Root{Node: m.Value})
		}
	}
	return all
}

type reader struct {
	doc *source.Node
	// allowsSiblings reports whether keywords next to $ref apply, as in version 3.1 and later.
	allowsSiblings bool
	// isEmbedded reports whether the schema is in a document of another format. The reader then does not convert
	// references.
	isEmbedded bool
	events     []importer.Event
	names      map[string]bool
	found      []source.Diagnostic
	// order lists the shared schemas to write. sharedNames maps them to their names in the event file.
	order       []sharedKey
	sharedNames map[sharedKey]string
	takenNames  map[string]bool
	// inlined lists the JSON Pointers of the schemas that are currently being inlined.
	inlined []string
	// families caches the results of the method family.
	families map[string]*family
	// bases caches the result of extendedSchemas.
	bases map[*source.Node]bool
	// top is the shared schema that is being converted. isSubtype reports whether it extends the schemas in its allOf.
	top       *source.Node
	isSubtype bool
	// untyped lists the ranges of the schemas to which the conversion added a type.
	untyped []source.Range
	// conditionDepth is the number of enclosing not, if, then and else keywords, within which an added type would
	// change the meaning.
	conditionDepth int
}

func (r *reader) leaveOut(at source.Range, what, why string) {
	r.found = append(r.found, source.New("MCPE511", at, "%s is left out: %s", what, why))
}

var methods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

// operations returns the operations of a path item.
func operations(item *source.Node) []source.Member {
	return slices.DeleteFunc(slices.Clone(item.Members), func(m source.Member) bool { return !slices.Contains(methods, m.Key) })
}

// texts lists the members that describe an object.
var texts = []string{"description", "summary"}

// readItem adds an event for each request in a path item.
func (r *reader) readItem(name string, at source.Range, n *source.Node) {
	item, err := importer.Follow(r.doc, n)
	if err != nil {
		r.leaveOut(at, "webhook "+name, err.Error())
		return
	}
	for _, m := range operations(item) {
		as := name
		if len(operations(item)) > 1 {
			as += "." + m.Key
		}
		if err := r.readOperation(as, at, item, m.Value); err != nil {
			r.leaveOut(at, "webhook "+as, err.Error())
		}
	}
}

func (r *reader) readOperation(name string, at source.Range, item, op *source.Node) error {
	body := op.Get("requestBody")
	if body == nil {
		return fmt.Errorf("it has no requestBody")
	}
	body, err := importer.Follow(r.doc, body)
	if err != nil {
		return err
	}
	var media *source.Node
	for _, m := range body.MembersAt("content") {
		kind, _, _ := strings.Cut(strings.ToLower(m.Key), ";")
		if media == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json") || kind == "*/*") {
			media = m.Value
		}
	}
	if media == nil || media.Get("schema") == nil {
		return fmt.Errorf("its requestBody has no schema for application/json")
	}
	return r.addEvent(name, at, importer.Description(texts, op, item), media.Get("schema"), op.Get("deprecated").True())
}

func (r *reader) addEvent(name string, at source.Range, description string, payload *source.Node, deprecated bool) error {
	n, err := r.convertSchema(payload)
	if err != nil {
		return err
	}
	e := importer.Event{At: at}
	e.Name = importer.UniqueName(importer.CleanName(name), "-", r.names)
	e.Description = cmp.Or(description, "The event "+e.Name+".")
	e.InputSchema = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	e.PayloadSchema = n.JSON()
	if deprecated {
		e.Deprecated = &schema.Deprecated{}
	}
	r.events = append(r.events, e)
	return nil
}

// readCallbacks reads the callbacks of operations and components.
func (r *reader) readCallbacks() {
	type callback struct {
		name, of string
		at       source.Range
		item     *source.Node
	}
	var all []callback
	uses := map[string]int{}
	named := map[string]bool{}
	collect := func(of string, list []source.Member) {
		for _, m := range list {
			if ref := m.Value.Get("$ref"); ref != nil {
				named[importer.Unescaped(ref.Text)] = true
			}
			expressions, err := importer.Follow(r.doc, m.Value)
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
	for _, path := range r.doc.MembersAt("paths") {
		for _, m := range operations(path.Value) {
			collect(cmp.Or(m.Value.Word("operationId"), m.Key+path.Key), m.Value.MembersAt("callbacks"))
		}
	}
	for _, m := range r.doc.Get("components").MembersAt("callbacks") {
		if !named["#/components/callbacks"+wire.Pointer(m.Key)] {
			collect("components", []source.Member{m})
		}
	}
	for _, c := range all {
		name := c.name
		if uses[c.name] > 1 {
			name = c.of + "." + c.name
		}
		r.readItem(name, c.at, c.item)
	}
}

// readStripe reads the schemas of Stripe's events.
func (r *reader) readStripe() {
	for _, m := range r.doc.Get("components").MembersAt("schemas") {
		kind := m.Value.Get("x-stripeEvent").Get("type")
		if kind == nil {
			continue
		}
		if err := r.addEvent(kind.Text, m.KeyRange, importer.Description(texts, m.Value), m.Value, m.Value.Get("deprecated").True()); err != nil {
			r.leaveOut(m.KeyRange, "event "+kind.Text, err.Error())
		}
	}
}
