package server

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// OCC-1: a forgotten date-time is an invalid payload that names the member, with and without
// validation: the year 1 would be valid.
func TestEmitTimeNotSet(t *testing.T) {
	type payload struct {
		OpenedAt events.Time `json:"openedAt"`
	}
	typ := events.Type[filterArgs, payload]{Info: events.Info{Name: "e", InputSchema: json.RawMessage(`{"type":"object"}`),
		PayloadSchema: json.RawMessage(`{"type":"object","properties":{"openedAt":{"type":"string","format":"date-time"}},"required":["openedAt"]}`)}}
	for _, skip := range []bool{false, true} {
		e, err := Register(newServer(t, Options{SkipPayloadValidation: skip}), typ, Hooks[filterArgs, payload]{})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Emit(t.Context(), payload{}); !errors.Is(err, events.ErrInvalidPayload) || !strings.Contains(err.Error(), "/openedAt: is not set") {
			t.Errorf("skipping validation %v: %v", skip, err)
		}
		if err := e.Emit(t.Context(), payload{events.NewTime(time.Now())}); err != nil {
			t.Error(err)
		}
	}
}

// OCC-4 and OCC-5: JSON of a program in another language is emitted as the payload type has it. A member that is missing
// or wrong is named and nothing is emitted, although a decoded payload would be valid; a repeated id is emitted once.
func TestJSONEmitter(t *testing.T) {
	type payload struct {
		ID string `json:"id"`
		N  int    `json:"n"`
	}
	typ := events.Type[filterArgs, payload]{Info: events.Info{Name: "e", InputSchema: json.RawMessage(`{"type":"object"}`),
		PayloadSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"},"n":{"type":"integer"}},"required":["id","n"]}`)}}
	s := newServer(t, Options{})
	e, err := Register(s, typ, Hooks[filterArgs, payload]{})
	if err != nil {
		t.Fatal(err)
	}
	emit := JSONEmitter(e)
	l := stream(t, s, `{"name":"e"}`)
	waitUntil(t, "active", func() bool { return len(l.frames()) > 0 })
	for body, want := range map[string]string{
		`{"n":1}`: "id", `{"id":"a","n":"1"}`: "/n", `{"id":"a","n":1.5}`: "/n", `[]`: "object", ``: "object", `{"id":"a",`: "JSON", `{"id":"a","n":99999999999999999999}`: "/n",
	} {
		if err := emit(t.Context(), []byte(body)); !errors.Is(err, events.ErrInvalidPayload) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an invalid payload with %s", body, err, want)
		}
	}
	for range 2 {
		if err := emit(t.Context(), []byte(" {\"id\":\"a\",\"n\":1.0,\"internal\":true}\n"), events.WithID("one")); err != nil {
			t.Error(err)
		}
	}
	if err := emit(t.Context(), []byte(`{"id":"b","n":1}`), events.WithID("one")); !errors.Is(err, events.ErrIDReused) {
		t.Errorf("other data for an id: %v", err)
	}
	if err := emit(t.Context(), []byte(`{"id":"b","n":2}`), events.WithID("two")); err != nil {
		t.Error(err)
	}
	waitUntil(t, "two events", func() bool { return len(l.ids()) >= 2 })
	if got := l.ids(); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("received %q", got)
	}
	if frames := l.frames(); strings.Contains(frames[1].raw, "internal") {
		t.Errorf("a member that the type does not have was sent: %s", frames[1].raw)
	}
	if err := JSONEmitter((*Emitter[payload])(nil))(t.Context(), []byte(`{}`)); !errors.Is(err, errNoEmitter) {
		t.Errorf("without an emitter: %v", err)
	}
}
