package orders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// closingKey returns the key of the state that records the termination of an event type.
func closingKey(event string) string { return "terminated/" + event }

// ClosedType returns the error with which the type was terminated, or nil if it is open.
func (l *Log) ClosedType(ctx context.Context, event string) (*events.Error, error) {
	e, _, err := l.closingState(ctx, event)
	return e, err
}

// closingState reads the stored termination of the type.
func (l *Log) closingState(ctx context.Context, event string) (e *events.Error, revision uint64, err error) {
	key := closingKey(event)
	found, err := l.o.Store.States(ctx, key, "", 1)
	if err != nil {
		return nil, 0, err
	}
	if len(found) == 0 || found[0].Key != key {
		return nil, 0, nil
	}
	var o wire.ErrorObject
	if err := json.Unmarshal(found[0].Value, &o); err != nil {
		return nil, 0, fmt.Errorf("state %s: %w", key, err)
	}
	return fault.FromStored(&o), found[0].Revision, nil
}

// CloseType stores the termination of the type, or deletes it if e is nil.
func (l *Log) CloseType(ctx context.Context, event string, e *events.Error) error {
	for {
		_, revision, err := l.closingState(ctx, event)
		if err != nil {
			return err
		}
		switch {
		case e != nil:
			var value []byte
			if value, err = json.Marshal(fault.Stored(e)); err == nil {
				_, err = l.o.Store.PutState(ctx, engine.State{Key: closingKey(event), Value: value, Revision: revision})
			}
		case revision > 0:
			err = l.o.Store.DeleteState(ctx, closingKey(event), revision)
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}
