package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// closingKey names the lasting state of an event type that an operator has terminated.
func closingKey(event string) string { return "terminated/" + event }

// closingOf reads whether the type was terminated.
func (c *control) closingOf(ctx context.Context, event string) (e *events.Error, revision uint64, err error) {
	key := closingKey(event)
	found, err := c.store.States(ctx, key, "", 1)
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
	return errorFrom(&o), found[0].Revision, nil
}

// close makes the termination of the type last, or ends it where e is nil.
func (c *control) close(ctx context.Context, event string, e *events.Error) error {
	for {
		_, revision, err := c.closingOf(ctx, event)
		if err != nil {
			return err
		}
		switch {
		case e != nil:
			var value []byte
			if value, err = json.Marshal(objectOf(e)); err == nil {
				_, err = c.store.PutState(ctx, engine.State{Key: closingKey(event), Value: value, Revision: revision})
			}
		case revision > 0:
			err = c.store.DeleteState(ctx, closingKey(event), revision)
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// recallClosing makes the type as open or closed as the store says.
func (s *Server) recallClosing(ctx context.Context, et *eventType) error {
	e, err := s.cluster.closing(ctx, et.name)
	if err != nil {
		return fmt.Errorf("reading whether it was terminated: %w", err)
	}
	if e == nil {
		et.mu.Lock()
		defer et.mu.Unlock()
		et.terminated = nil
		return nil
	}
	(&admin{s}).shut(et, e)
	return nil
}

// reopen ends the termination of a type that is registered again, for all processes.
func (s *Server) reopen(ctx context.Context, et *eventType) error {
	if et.Refuses() == nil {
		return nil
	}
	if err := s.cluster.close(ctx, et.name, nil); err != nil {
		return fmt.Errorf("opening it again: %w", err)
	}
	return s.cluster.tell(ctx, order{Kind: orderReopened, Target: &operator.Target{Event: et.name}})
}
