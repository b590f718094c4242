package server

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// published is the file of a generated package whose event type has members beside its schemas, each followed
// by a comma.
func published(members string) *events.Schemas {
	return events.NewSchemas(`{"events":{"e":{"description":"An incident.","fingerprint":"f",` + members +
		`"inputSchema":` + filterSchema + `,"payloadSchema":` + incidentSchema + `}}}`)
}

// What generated code calls registers as Register does: its hooks, its emitter and its errors are those of
// the types.
func TestRegisterUntyped(t *testing.T) {
	s := newServer(t, Options{})
	transformed := 0
	hooks := Hooks[filterArgs, incident]{
		Transform: func(_ context.Context, p *incident, a *filterArgs) error { transformed++; return nil },
	}
	e, err := RegisterUntyped(s, published(""), "e", nil, NewUntypedHooks(&hooks), nil)
	if err != nil {
		t.Fatal(err)
	}
	emitter := (*Emitter[incident])(e)
	if err := emitter.Emit(t.Context(), incident{}); errors.Is(err, events.ErrClosed) {
		t.Fatal(err)
	}
	s.mu.Lock()
	d := s.types["e"].current()
	s.mu.Unlock()
	a, err := d.decodeArguments([]byte(`{}`))
	if _, ok := a.(*filterArgs); !ok || err != nil {
		t.Fatalf("arguments are a %T: %v", a, err)
	}
	p, err := d.decodePayload([]byte(`{}`))
	if _, ok := p.(*incident); !ok || err != nil {
		t.Fatalf("payloads are a %T: %v", p, err)
	}
	if err := d.transform(t.Context(), p, a); err != nil || transformed != 1 {
		t.Error("the hook was not called")
	}
	if d.match != nil || d.onSubscribe != nil || d.onUnsubscribe != nil || d.authorize != nil {
		t.Error("hooks that nobody gave")
	}
}

// A package whose mcpe.schemas.json is damaged is refused when it registers, with the file's name and what
// to do.
func TestDamagedSchemas(t *testing.T) {
	s := newServer(t, Options{})
	schemas := events.NewSchemas(`{"events":{"e":{"inputSchema":{"$defs":["Gone"]}}}}`)
	e, err := RegisterUntyped(s, schemas, "e", nil, NewUntypedHooks(&Hooks[filterArgs, incident]{}), nil)
	if e != nil || err == nil || !strings.HasPrefix(err.Error(), `registering event "e": mcpe.schemas.json is damaged (generate again): the inputSchema of e: `) {
		t.Errorf("registered with %v", err)
	}
}

type checker interface {
	Check(ctx context.Context, a filterArgs, cursor string) (events.Page[incident], error)
}

type found struct{}

func (found) Check(_ context.Context, _ filterArgs, _ string) (events.Page[incident], error) {
	return events.Page[incident]{Cursor: "c"}, nil
}

// The description says whether a type with a check has an emitter; a check that is nil is refused.
func TestRegisterUntypedCheck(t *testing.T) {
	for source, emits := range map[string]bool{"check": false, "both": true} {
		s := newServer(t, Options{})
		h := NewUntypedHooks(&Hooks[filterArgs, incident]{})
		file := published(`"source":"` + source + `",`)
		e, err := RegisterUntyped(s, file, "e", NewUntypedCheck(checker(nil), checker.Check), h, nil)
		if e != nil || err == nil || !strings.Contains(err.Error(), "no check given") {
			t.Errorf("%s without a check: %v", source, err)
		}
		e, err = RegisterUntyped(s, file, "e", NewUntypedCheck(checker(found{}), checker.Check), h, nil)
		if err != nil || (e != nil) != emits {
			t.Errorf("%s: emitter %v, %v", source, e, err)
		}
		if d := s.types["e"].current(); d.check == nil || d.emits != emits {
			t.Errorf("%s: check %v, emits %v", source, d.check, d.emits)
		}
	}
}

// generatedEmitter is what generated packages declare.
type generatedEmitter UntypedEmitter

func (e *generatedEmitter) Emit(ctx context.Context, p incident, o ...events.EmitOption) error {
	return (*UntypedEmitter)(e).Emit(ctx, &p, o)
}

type foreignEmitter struct{}

func (*foreignEmitter) Emit(context.Context, incident, ...events.EmitOption) error { return nil }

// Prepare takes the emitters of generated packages and those of Register, and nobody else's.
func TestPrepareEmitters(t *testing.T) {
	s := newServer(t, Options{})
	e, err := RegisterUntyped(s, published(""), "e", nil, NewUntypedHooks(&Hooks[filterArgs, incident]{}), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []Emits[incident]{(*generatedEmitter)(e), (*Emitter[incident])(e)} {
		if _, err := Prepare(t.Context(), e, incident{}); !errors.Is(err, errNoOutbox) {
			t.Errorf("%T: %v", e, err)
		}
	}
	for _, e := range []Emits[incident]{nil, (*generatedEmitter)(nil), &foreignEmitter{}} {
		if _, err := Prepare(t.Context(), e, incident{}); err == nil || errors.Is(err, errNoOutbox) {
			t.Errorf("%T: %v", e, err)
		}
	}
}
