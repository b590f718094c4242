package server

import (
	"context"
	"errors"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/untyped"
)

// Hooks without their types are called with the types' own pointers, and those that nobody gave are nil.
func TestErasedHooks(t *testing.T) {
	s := newServer(t, Options{})
	transformed := 0
	e, err := Register(s, incidentType("e"), Hooks[filterArgs, incident]{
		Transform: func(_ context.Context, p *incident, a *filterArgs) error { transformed++; return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	d := e.et.current()
	a, err := d.DecodeArguments([]byte(`{}`))
	if _, ok := a.(*filterArgs); !ok || err != nil {
		t.Fatalf("arguments are a %T: %v", a, err)
	}
	p, err := d.DecodePayload([]byte(`{}`))
	if _, ok := p.(*incident); !ok || err != nil {
		t.Fatalf("payloads are a %T: %v", p, err)
	}
	if err := d.Transform(t.Context(), p, a); err != nil || transformed != 1 {
		t.Error("the hook was not called")
	}
	if h := d.hooks; d.Match != nil || h.OnSubscribe != nil || h.OnUnsubscribe != nil || h.Authorize != nil {
		t.Error("hooks that nobody gave")
	}
}

// generatedEmitter is what generated packages declare.
type generatedEmitter Emitter[any]

func (e *generatedEmitter) Emit(ctx context.Context, p incident, o ...events.EmitOption) error {
	return untyped.Emit(ctx, (*Emitter[any])(e), &p, o)
}

// Prepare takes the emitters of generated packages and those of Register, whatever the store; nil is an error.
func TestPrepareEmitters(t *testing.T) {
	s := newServer(t, Options{})
	e, err := Register(s, incidentType("e"), Hooks[filterArgs, incident]{})
	if err != nil {
		t.Fatal(err)
	}
	own, err := Prepare(t.Context(), e, incident{})
	generated, err2 := Prepare(t.Context(), (*generatedEmitter)(e), incident{})
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if a, b := own.Outgoing(), generated.Outgoing(); a.Log != "e" || b.Log != "e" || string(a.Entry.Data) != string(b.Entry.Data) || a.Once || own.EventID() == "" {
		t.Errorf("%+v, %+v", a, b)
	}
	if _, err := Prepare(t.Context(), (*Emitter[incident])(nil), incident{}); !errors.Is(err, errNoEmitter) {
		t.Error(err)
	}
	if _, err := Prepare(t.Context(), (*generatedEmitter)(nil), incident{}); !errors.Is(err, errNoEmitter) {
		t.Error(err)
	}
}
