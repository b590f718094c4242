package orders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// terminationKey returns the key of the state that stores the termination of an event type.
func terminationKey(event string) string { return "terminated/" + event }

// ClosedType returns the termination of the event type, or nil if it is open.
func (l *Log) ClosedType(ctx context.Context, event string) (*eventtype.Closing, error) {
	c, _, err := l.readTermination(ctx, event)
	return c, err
}

// A storedTermination is the stored form of a [eventtype.Closing].
type storedTermination struct {
	wire.ErrorObject
	operator.Termination
}

// readTermination reads the stored termination of the type.
func (l *Log) readTermination(ctx context.Context, event string) (c *eventtype.Closing, revision uint64, err error) {
	key := terminationKey(event)
	found, err := l.o.Store.States(ctx, key, "", 1)
	if err != nil {
		return nil, 0, err
	}
	if len(found) == 0 || found[0].Key != key {
		return nil, 0, nil
	}
	var o storedTermination
	if err := json.Unmarshal(found[0].Value, &o); err != nil {
		return nil, 0, fmt.Errorf("state %s: %w", key, err)
	}
	return &eventtype.Closing{Err: fault.FromStored(&o.ErrorObject), Termination: o.Termination}, found[0].Revision, nil
}

// CloseType stores the termination of the event type. If c is nil, it deletes the stored termination.
func (l *Log) CloseType(ctx context.Context, event string, c *eventtype.Closing) error {
	for {
		_, revision, err := l.readTermination(ctx, event)
		if err != nil {
			return err
		}
		switch {
		case c != nil:
			var value []byte
			if value, err = json.Marshal(storedTermination{*fault.Stored(c.Err), c.Termination}); err == nil {
				_, err = l.o.Store.PutState(ctx, engine.State{Key: terminationKey(event), Value: value, Revision: revision})
			}
		case revision > 0:
			err = l.o.Store.DeleteState(ctx, terminationKey(event), revision)
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}
