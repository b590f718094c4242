package server

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// What generated code calls registers as Register does: its hooks, its emitter and its errors are those of
// the types.
func TestRegisterUntyped(t *testing.T) {
	s := newServer(t, Options{})
	schemas := events.NewSchemas(`{"events":{"e":{"inputSchema":` + filterSchema + `,"payloadSchema":` + incidentSchema + `}}}`)
	described := &events.Info{Name: "e", Description: "An incident.", Match: filterRules}
	transformed := 0
	e, err := RegisterUntyped(s, schemas, described, Hooks[filterArgs, incident]{
		Transform: func(_ context.Context, p *incident, a *filterArgs) error { transformed++; return nil },
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if described.InputSchema != nil {
		t.Error("registering changed the description")
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
	e, err := RegisterUntyped(s, schemas, &events.Info{Name: "e"}, Hooks[filterArgs, incident]{}, nil)
	if e != nil || err == nil || !strings.HasPrefix(err.Error(), `registering event "e": mcpe.schemas.json is damaged (generate again): the inputSchema of e: `) {
		t.Errorf("registered with %v", err)
	}
}
