package server

import (
	"encoding/json"
	"errors"
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
