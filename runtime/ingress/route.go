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

// A From maps webhooks to occurrences of an event type: the `from:` of an event file.
type From struct {
	// Provider is the name of the service, such as [ProviderGitHub].
	Provider string
	// Event and Action are the required values of a delivery; an empty one matches any.
	Event, Action string
	// ID is the place of the delivery's id, for services without a standard one. It is a JSON Pointer into the body
	// or the name of a header.
	ID string
	// Fields lists the sources of the payload's members. Without fields, the body itself is the payload, and the
	// event type keeps the members that it describes.
	Fields []Field
}

// A Field copies one member of the payload from the body.
type Field struct {
	// Target is a JSON Pointer into the payload, and Source into the body. A missing source is omitted. In Source,
	// the token * stands for each element of an array, so that /labels/*/name gives an array of names.
	Target, Source string
	// Nullable copies a null to the payload; otherwise a null is omitted.
	Nullable bool
}

// A Route emits webhooks as occurrences of an event type. Create one with [To].
type Route struct {
	event  string
	from   From
	shape  *object          // nil if the body is the payload
	check  *validate.Schema // compiled from schema by NewHandler
	schema *published.Schema
	emit   func(ctx context.Context, payload jsontext.Value, o []events.EmitOption) error
	err    error
}

// An Emitter emits payloads P. The emitters of package server and of generated packages implement it. Programs may
// wrap them.
type Emitter[P any] interface {
	Emit(ctx context.Context, p P, o ...events.EmitOption) error
}

// To returns the route from webhooks to an event type that e emits; e must not be nil. [NewHandler] reports its
// errors.
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

// takes reports whether a delivery matches the route.
func (r *Route) takes(d Delivery) bool {
	return (r.from.Event == "" || r.from.Event == d.Event) && (r.from.Action == "" || r.from.Action == d.Action)
}

// id returns the eventId of a delivery (OCC-5). It hashes an id that is too long or not visible ASCII.
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

// payload builds the payload from a body and validates it against payloadSchema. The error is a [misfit].
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

// A misfit is the permanent error of a delivery that cannot become an occurrence. It has pointers and reasons, but
// no values.
type misfit struct{ fields []events.FieldError }

func (m *misfit) Error() string { return "the delivery does not match payloadSchema" }

// cause converts errors about a payload from the codec, the validator or the emitter to a misfit. It returns any
// other error unchanged: a repeated delivery may succeed.
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

// An object is the shape of a payload: members that are objects or leaves, in the order of the fields.
type object struct {
	names   []string
	members []any // *object or *leaf
}

type leaf struct {
	source   []string
	nullable bool
}

// add puts a leaf at a place. It returns false if the place is taken.
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

// render appends the object as JSON, or nothing if all members are missing.
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
