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
	r := &reader{doc: doc, names: map[string]bool{}, wanted: map[string]string{}, called: map[string]bool{}}
	version := doc.Get("openapi")
	if version == nil || !strings.HasPrefix(version.Text, "3.") {
		at := doc.Range
		if v := doc.Get("swagger"); v != nil {
			at = v.Range
		}
		r.found = append(r.found, source.New("MCPE510", at, "this is no OpenAPI document of version 3").
			WithHint("convert an older one first, for example with swagger2openapi"))
		return importer.Document{}, r.found
	}
	r.beside = !strings.HasPrefix(version.Text, "3.0")
	var out importer.Document
	if t := doc.Get("info").Get("title"); t != nil {
		out.Title = t.Text
	}
	for _, m := range members(doc.Get("webhooks")) {
		r.item(m.Key, m.KeyRange, m.Value)
	}
	r.callbacks()
	r.stripe()
	if len(r.events) == 0 && len(r.found) == 0 {
		r.found = append(r.found, source.New("MCPE510", doc.Range, "the document describes no events: it has no webhooks, no callbacks and no x-stripeEvent").
			WithHint("events are what the API sends by itself; paths describe what it answers"))
	}
	out.Events = r.events
	for i := 0; i < len(r.order); i++ { // one schema may ask for more
		name := r.order[i]
		m := doc.Get("components").Get("schemas").Member(name)
		n, err := r.schema(m.Value)
		if err != nil {
			r.leaveOut(m.KeyRange, "schema "+name, err.Error())
			continue
		}
		out.Schemas = append(out.Schemas, importer.Schema{Name: r.wanted[name], Node: n, At: m.KeyRange})
	}
	return out, source.Sort(r.found)
}

type reader struct {
	doc *source.Node
	// beside tells that keywords beside $ref count, as they do since 3.1.
	beside bool
	events []importer.Event
	names  map[string]bool
	found  []source.Diagnostic
	// order are the schemas of components that are needed, wanted what they are called in the event file.
	order  []string
	wanted map[string]string
	called map[string]bool
	// inlined are the references being followed.
	inlined []string
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
	pointer, local := strings.CutPrefix(ref, "#")
	if !local {
		return nil, fmt.Errorf("it refers to %s, another document; bundle them first", ref)
	}
	if to := r.doc.Lookup(pointer); pointer != "" && to != nil {
		return to, nil
	}
	return nil, fmt.Errorf("it refers to %s, which does not exist", ref)
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

// callbacks takes what operations call back.
func (r *reader) callbacks() {
	type callback struct {
		name, of string
		at       source.Range
		item     *source.Node
	}
	var all []callback
	uses := map[string]int{}
	collect := func(of string, list *source.Node) {
		for _, m := range members(list) {
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

// schema writes a schema of OpenAPI as JSON Schema.
func (r *reader) schema(n *source.Node) (*source.Node, error) {
	if n.Kind != source.Object {
		return n, nil
	}
	out := yaml.Object()
	nullable := false
	for _, m := range n.Members {
		switch {
		case m.Key == "$ref" && m.Value.Kind == source.String:
			to, err := r.reference(m.Value.Text)
			if err != nil {
				return nil, err
			}
			if to.Get("$ref") == nil {
				return to, nil
			}
			out.Members = append(out.Members, to.Members...)
		case m.Key == "nullable":
			nullable = m.Value.True()
		case m.Key == "discriminator":
			if err := r.discriminator(out, m.Value); err != nil {
				return nil, err
			}
		case m.Key == "example" || m.Key == "examples" || m.Key == "xml" || m.Key == "externalDocs" || strings.HasPrefix(m.Key, "x-") && m.Key != "x-enum-varnames":
		case (m.Key == "exclusiveMinimum" || m.Key == "exclusiveMaximum") && m.Value.Kind == source.Bool:
			if limit := n.Get(bounds[m.Key]); m.Value.True() && limit != nil {
				yaml.Set(out, m.Key, limit)
			}
		case (m.Key == "minimum" || m.Key == "maximum") && n.Get("exclusive"+strings.ToUpper(m.Key[:1])+m.Key[1:]).True():
		default:
			v, err := r.keyword(m)
			if err != nil {
				return nil, err
			}
			yaml.Set(out, m.Key, v)
		}
	}
	if out.Get("$ref") != nil && !r.beside {
		out.Members = slices.DeleteFunc(out.Members, func(m source.Member) bool { return m.Key != "$ref" })
	}
	if nullable {
		return orNull(out), nil
	}
	return out, nil
}

var bounds = map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}

// keyword writes the value of one keyword.
func (r *reader) keyword(m source.Member) (*source.Node, error) {
	each := func(list *source.Node) (*source.Node, error) {
		out := *list
		out.Members, out.Items = slices.Clone(list.Members), slices.Clone(list.Items)
		for i, inner := range list.Members {
			v, err := r.schema(inner.Value)
			if err != nil {
				return nil, err
			}
			out.Members[i].Value = v
		}
		for i, inner := range list.Items {
			v, err := r.schema(inner)
			if err != nil {
				return nil, err
			}
			out.Items[i] = v
		}
		return &out, nil
	}
	switch m.Key {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "allOf", "anyOf", "oneOf", "prefixItems":
		return each(m.Value)
	case "items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else", "unevaluatedProperties", "unevaluatedItems":
		if m.Value.Kind == source.Array {
			return each(m.Value)
		}
		return r.schema(m.Value)
	}
	return m.Value, nil
}

const shared = "#/components/schemas/"

// reference writes a $ref: to a shared schema, or what it leads to where that is none.
func (r *reader) reference(ref string) (*source.Node, error) {
	if rest, ok := strings.CutPrefix(ref, shared); ok {
		name, below, nested := strings.Cut(rest, "/")
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		if r.doc.Get("components").Get("schemas").Get(name) == nil {
			return nil, fmt.Errorf("it refers to %s, which does not exist", ref)
		}
		to := r.want(name)
		if nested {
			to += "/" + below
		}
		n := yaml.Object()
		yaml.Set(n, "$ref", yaml.Text("#/schemas/"+to))
		return n, nil
	}
	to, err := r.lookup(ref)
	if err != nil {
		return nil, err
	}
	if slices.Contains(r.inlined, ref) {
		return nil, fmt.Errorf("it refers to %s, which refers to itself", ref)
	}
	r.inlined = append(r.inlined, ref)
	defer func() { r.inlined = r.inlined[:len(r.inlined)-1] }()
	return r.schema(to)
}

// want notes that a schema of the components is needed and returns what it is called in the event file:
// the same, unless that is too long or holds other characters.
func (r *reader) want(name string) string {
	if as := r.wanted[name]; as != "" {
		return as
	}
	as := importer.CleanName(name)
	for i := 2; r.called[as]; i++ {
		suffix := fmt.Sprintf("_%d", i)
		as = importer.CleanName(name)
		as = as[:min(len(as), importer.MaxName-len(suffix))] + suffix
	}
	r.called[as], r.wanted[name] = true, as
	r.order = append(r.order, name)
	return as
}

// discriminator writes a discriminator whose mapping names shared schemas.
func (r *reader) discriminator(out, d *source.Node) error {
	n := yaml.Object()
	for _, m := range members(d) {
		switch {
		case m.Key == "propertyName":
			yaml.Set(n, m.Key, m.Value)
		case m.Key == "mapping":
			mapping := yaml.Object()
			for _, e := range m.Value.Members {
				to := e.Value
				if strings.HasPrefix(to.Text, shared) {
					ref, err := r.reference(to.Text)
					if err != nil {
						return err
					}
					to = ref.Get("$ref")
				}
				yaml.Set(mapping, e.Key, to)
			}
			yaml.Set(n, m.Key, mapping)
		}
	}
	yaml.Set(out, "discriminator", n)
	return nil
}

// orNull allows null beside what a schema allows: by its type where that is enough.
func orNull(n *source.Node) *source.Node {
	t := n.Member("type")
	for _, k := range []string{"$ref", "allOf", "anyOf", "oneOf", "not", "const", "if"} {
		if n.Get(k) != nil {
			t = nil
		}
	}
	if t == nil && n.Get("enum") == nil || t == nil && len(n.Members) > 1 {
		null := yaml.Object()
		yaml.Set(null, "type", yaml.Text("null"))
		either := yaml.Object()
		for _, k := range []string{"title", "description", "deprecated"} { // of both
			if m := n.Member(k); m != nil {
				either.Members = append(either.Members, *m)
				key := k
				n.Members = slices.DeleteFunc(n.Members, func(m source.Member) bool { return m.Key == key })
			}
		}
		yaml.Set(either, "anyOf", yaml.List(n, null))
		return either
	}
	if t != nil && t.Value.Kind == source.String {
		t.Value = yaml.Texts([]string{t.Value.Text, "null"})
	} else if t != nil && !slices.ContainsFunc(t.Value.Items, func(v *source.Node) bool { return v.Text == "null" }) {
		t.Value = yaml.List(append(slices.Clone(t.Value.Items), yaml.Text("null"))...)
	}
	if e := n.Member("enum"); e != nil && !slices.ContainsFunc(e.Value.Items, func(v *source.Node) bool { return v.Kind == source.Null }) {
		e.Value = yaml.List(append(slices.Clone(e.Value.Items), &source.Node{Kind: source.Null})...)
	}
	return n
}
