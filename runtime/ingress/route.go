package ingress

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A From says which webhooks become occurrences of an event type, and how: the `from:` of an event file.
type From struct {
	// Provider is the service's word.
	Provider string
	// Event and Action are what a delivery must have; an empty one takes any.
	Event, Action string
	// ID is where the id of the delivery is, for services that do not say: a JSON Pointer into the body, or the
	// name of a header.
	ID string
	// Fields say where the payload's members come from. Without any, the body itself is the payload, of which the
	// event type keeps what its payload describes.
	Fields []Field
}

// A Field takes one member of the payload from the body.
type Field struct {
	// Target is a JSON Pointer into the payload, Source one into the body. What is not there is left out. In
	// Source a token * stands for each element of an array, so that /labels/*/name is an array of names.
	Target, Source string
	// Nullable says that the payload takes null there; otherwise a null is left out.
	Nullable bool
}

// A Route leads webhooks to an event type. [To] makes it.
type Route struct {
	event  string
	from   From
	shape  *object          // nil when the body is the payload
	check  *validate.Schema // made by NewHandler of schema
	schema *published.Schema
	emit   func(ctx context.Context, payload jsontext.Value, o []events.EmitOption) error
	err    error
}

// An Emitter emits payloads P: the emitters of package server and of generated packages do, and what a program wraps
// around them.
type Emitter[P any] interface {
	Emit(ctx context.Context, p P, o ...events.EmitOption) error
}

// To makes the route from webhooks to an event type that is emitted by e, which is not nil. What is wrong with it
// is told by [NewHandler].
func To[P any](e Emitter[P], info events.Info, from From) Route {
	r := newRoute(info, from)
	if v := reflect.ValueOf(e); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		r.err = fmt.Errorf("ingress: there is no emitter for %s", info.Name)
		return r
	}
	r.emit = func(ctx context.Context, payload jsontext.Value, o []events.EmitOption) error {
		var p P
		if err := codec.Decode(payload, &p); err != nil {
			return err
		}
		return e.Emit(ctx, p, o...)
	}
	return r
}

func newRoute(info events.Info, from From) Route {
	r := Route{event: info.Name, from: from}
	fail := func(err error) Route {
		r.err = fmt.Errorf("ingress: the route to %s: %w", info.Name, err)
		return r
	}
	_, r.schema = published.Of(&info).Schemas(info.InputSchema, info.PayloadSchema)
	if from.ID != "" {
		if err := checkPlace(from.ID); err != nil {
			return fail(fmt.Errorf("ID: %w", err))
		}
	}
	for _, f := range from.Fields {
		target, ok := wire.SplitPointer(f.Target)
		source, found := wire.SplitPointer(f.Source)
		if !ok || !found {
			return fail(fmt.Errorf("%q from %q: both must be JSON Pointers", f.Target, f.Source))
		}
		if r.shape == nil {
			r.shape = &object{}
		}
		if !r.shape.add(target, &leaf{source: source, nullable: f.Nullable}) {
			return fail(fmt.Errorf("%q is filled twice", f.Target))
		}
	}
	return r
}

// takes reports whether a delivery is for the route.
func (r *Route) takes(d Delivery) bool {
	return (r.from.Event == "" || r.from.Event == d.Event) && (r.from.Action == "" || r.from.Action == d.Action)
}

// id returns the eventId of a delivery (OCC-5). An id that cannot go on the wire, because it is too long or not
// visible ASCII, is hashed.
func (r *Route) id(d Delivery, h http.Header, doc *document) (string, error) {
	id := d.ID
	if r.from.ID != "" {
		id = doc.text(h, r.from.ID)
	}
	if id == "" {
		wrong := events.FieldError{Path: r.from.ID, Message: "is where the id of the delivery should be"}
		if !strings.HasPrefix(r.from.ID, "/") {
			wrong = events.FieldError{Message: "header " + r.from.ID + " should have the id of the delivery"}
		}
		return "", &misfit{fields: []events.FieldError{wrong}}
	}
	return eventID(id), nil
}

// payload makes the payload of a body and holds it against payloadSchema; the error is a [misfit].
func (r *Route) payload(doc *document) (jsontext.Value, error) {
	payload := doc.body
	if r.shape != nil {
		payload, _ = r.shape.render(doc, nil)
		if payload == nil {
			payload = jsontext.Value("{}")
		}
	}
	if err := r.check.Validate([]byte(payload)); err != nil {
		return nil, cause(err)
	}
	return payload, nil
}

// A misfit is a delivery that cannot become an occurrence, however often it is sent. It has pointers and reasons,
// and no values.
type misfit struct{ fields []events.FieldError }

func (m *misfit) Error() string { return "the delivery does not match payloadSchema" }

// cause makes a misfit of what the codec, the validator or the emitter says about a payload. Any other error stays
// what it is: it may be gone when the delivery is sent again.
func cause(err error) error {
	if invalid, ok := errors.AsType[*validate.Error](err); ok {
		return &misfit{fields: invalid.Fields}
	}
	if decoding, ok := errors.AsType[*events.DecodeError](err); ok {
		return &misfit{fields: []events.FieldError{{Path: decoding.Pointer, Message: "has no Go value"}}}
	}
	switch {
	case errors.Is(err, events.ErrTooLarge):
		return &misfit{fields: []events.FieldError{{Message: "is larger than payloads may be"}}}
	case errors.Is(err, events.ErrInvalidPayload):
		return &misfit{fields: []events.FieldError{{Message: "is refused by the event type"}}}
	}
	return err
}

// An object is what the payload is made of: members that are objects or leaves, in the order of the fields.
type object struct {
	names   []string
	members []any // *object or *leaf
}

type leaf struct {
	source   []string
	nullable bool
}

// add puts a leaf at a place; false when something is there.
func (o *object) add(target []string, l *leaf) bool {
	for i, name := range o.names {
		if name != target[0] {
			continue
		}
		inner, ok := o.members[i].(*object)
		return ok && len(target) > 1 && inner.add(target[1:], l)
	}
	o.names = append(o.names, target[0])
	if len(target) == 1 {
		o.members = append(o.members, l)
		return true
	}
	inner := &object{}
	o.members = append(o.members, inner)
	return inner.add(target[1:], l)
}

// render appends the object as JSON; nothing when no member is there.
func (o *object) render(doc *document, out jsontext.Value) (jsontext.Value, bool) {
	start := len(out)
	for i, name := range o.names {
		before := len(out)
		if before == start {
			out = append(out, '{')
		} else {
			out = append(out, ',')
		}
		out, _ = jsontext.AppendQuote(out, name)
		out = append(out, ':')
		there := false
		switch m := o.members[i].(type) {
		case *object:
			out, there = m.render(doc, out)
		case *leaf:
			if value := doc.at(m.source); value != nil && (m.nullable || value.Kind() != 'n') {
				out, there = append(out, value...), true
			}
		}
		if !there {
			out = out[:before]
		}
	}
	if len(out) == start {
		return out, false
	}
	return append(out, '}'), true
}
