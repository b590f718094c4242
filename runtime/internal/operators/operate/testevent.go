package operate

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/actor"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
)

func (a *Admin) Test(ctx context.Context, id string, data json.RawMessage) (eventID string, err error) {
	i, err := a.Get(ctx, id)
	if err != nil {
		return "", err
	}
	et := a.o.Host.EventType(i.Event)
	switch {
	case et == nil || et.Current() == nil:
		return "", fault.NotFound("event")
	case et.Topic() == nil:
		return "", fmt.Errorf("its source is a check, so test events cannot be emitted: %w", events.NewError(wire.Unsupported, map[string]string{"feature": "emit"}))
	}
	eventID = "test_" + cmp.Or(actor.Key(ctx), rand.Text()) // a repeated call emits it once
	err = et.EmitJSON(ctx, data, events.WithID(eventID), events.To(id), events.WithMeta(map[string]any{wire.MetaTest: true}))
	if errors.Is(err, events.ErrInvalidPayload) || errors.Is(err, events.ErrTooLarge) {
		err = events.Invalid(events.FieldError{Path: "/data", Message: err.Error()})
	}
	if err != nil {
		return "", err
	}
	return eventID, nil
}
