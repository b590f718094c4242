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

// A From maps webhooks to occurrences of an event type. It corresponds to `from:` in an event file.
type From struct {
	// Provider is the name of the service, such as [ProviderGitHub].
	Provider string
	// Event and Action are the required values of a delivery. An empty string matches any value.
	Event, Action string
	// ID is the location of the delivery's id, for services without a standard location. It is a JSON Pointer into the
	// body or the name of a header.
	ID string
	// Fields lists the sources of the payload's members. If Fields is empty, the body itself is the payload, and the
	// event type keeps only the members that it describes.
	Fields []Field
}

// A Field copies a value from the body to a member of the payload.
type Field struct {
	// Target is a JSON Pointer into the payload, and Source is a JSON Pointer into the body. A missing source is
	// omitted. The token * in Source matches each element of an array, so /labels/*/name produces an array of names.
	Target, Source string
	// Nullable specifies that a null is copied to the payload. Otherwise, a null is omitted.
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

// An Emitter emits payloads P. The emitters in package server and in generated packages implement it. Programs may wrap
// them.
type Emitter[P any] interface {
	Emit(ctx context.Context, p P, o ...events.EmitOption) error
}

// To returns a route from webhooks to the event type that e emits. e must not be nil. [NewHandler] reports any errors.
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

// matches reports whether a delivery matches the route.
func (r *Route) matches(d Delivery) bool {
	return (r.from.Event == "" || r.from.Event == d.Event) && (r.from.Action == "" || r.from.Action == d.Action)
}

// eventID returns the eventId for a delivery (OCC-5). If the id is too long or not visible ASCII, it returns a hash of
// the id.
func (r *Route) eventID(d Delivery, h http.Header, doc *document) (string, error) {
	id := d.ID
	if r.from.ID != "" {
		id = doc.textAt(h, r.from.ID)
	}
	if id == "" {
		wrong := events.FieldError{Path: r.from.ID, Message: "is where the id of the delivery should be"}
		if !strings.HasPrefix(r.from.ID, "/") {
			wrong = events.FieldError{Message: "header " + r.from.ID + " should have the id of the delivery"}
		}
		return "", &mismatchError{fields: []events.FieldError{wrong}}
	}
	return eventID(id), nil
}

// buildPayload builds a payload from a document and validates it against payloadSchema. The error is a [mismatchError].
func (r *Route) buildPayload(doc *document) (jsontext.Value, error) {
	payload := doc.body
	if r.shape != nil {
		payload, _ = r.shape.render(doc, nil)
		if payload == nil {
			payload = jsontext.Value("{}")
		}
	}
	if err := r.check.Validate([]byte(payload)); err != nil {
		return nil, asMismatch(err)
	}
	return payload, nil
}

// A mismatchError is a permanent error about a delivery that cannot be emitted. It contains pointers and reasons, but
// no values.
type mismatchError struct{ fields []events.FieldError }

func (m *mismatchError) Error() string { return "the delivery does not match payloadSchema" }

// asMismatch converts a payload error from the codec, the validator or the emitter to a mismatchError. It returns any
// other error unchanged, because a repeated delivery may succeed.
func asMismatch(err error) error {
	if invalid, ok := errors.AsType[*validate.Error](err); ok {
		return &mismatchError{fields: invalid.Fields}
	}
	if decoding, ok := errors.AsType[*events.DecodeError](err); ok {
		return &mismatchError{fields: []events.FieldError{{Path: decoding.Pointer, Message: "has no Go value"}}}
	}
	switch {
	case errors.Is(err, events.ErrTooLarge):
		return &mismatchError{fields: []events.FieldError{{Message: "is larger than payloads may be"}}}
	case errors.Is(err, events.ErrInvalidPayload):
		return &mismatchError{fields: []events.FieldError{{Message: "is refused by the event type"}}}
	}
	return err
}

// An object is the structure of a payload. Its members are objects or leaves, in the order of the fields.
type object struct {
	names   []string
	members []any // *object or *leaf
}

type leaf struct {
	source   []string
	nullable bool
}

// add adds a leaf at a location. It returns false if the location is occupied.
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

// render appends the object as JSON to out. If all members are missing, it appends nothing and returns false.
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
			if value := doc.valueAt(m.source); value != nil && (m.nullable || value.Kind() != 'n') {
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
