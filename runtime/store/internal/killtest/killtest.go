// Package killtest kills a process between any two writes of a call of its store, and checks that the call took effect as
// a whole or not at all.
package killtest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
)

// A Receiver is a store of received bodies and of the cursors up to which they were handled.
type Receiver interface {
	clientstore.ReceivedStore
	clientstore.CursorStore
}

// A Call is a call of a store in a process that is killed.
type Call[S any] struct {
	// Prepare writes what the call finds. Do is the call.
	Prepare, Do func(ctx context.Context, s S) error
	// State describes what the call changes. It has one value before the call and one after it.
	State func(ctx context.Context, s S) (string, error)
}

// BetweenWrites kills a process before the first write of a call, then between the first and the second one, and so
// on, until the call comes to its end. It fails the test if a killed call has changed a part of the state, or if the
// call, repeated by the next process, does not come to the same state.
//
// The function run prepares a new store, kills the process after the given number of writes of the call, and returns
// the store as the next process finds it and whether the call made all its writes.
func BetweenWrites[S any](t *testing.T, c Call[S], run func(t *testing.T, writes int, c Call[S]) (left S, all bool)) {
	t.Helper()
	var before, after string
	read := func(s S) string {
		t.Helper()
		return check.Must(c.State(t.Context(), s))(t)
	}
	for writes := 0; ; writes++ {
		left, all := run(t, writes, c)
		state := read(left)
		if err := c.Do(t.Context(), left); err != nil {
			t.Fatalf("after %d writes, the next process: %v", writes, err)
		}
		repeated := read(left)
		if writes == 0 {
			before, after = state, repeated
			if all || before == after {
				t.Fatalf("the call without a write: whole %v, state %s, after it %s", all, before, after)
			}
		}
		if state != before && state != after || all && state != after {
			t.Errorf("after %d writes (all: %v) the state is %s; before the call it is %s, after it %s", writes, all, state, before, after)
		}
		if repeated != after {
			t.Errorf("after %d writes, the repeated call leaves %s, want %s", writes, repeated, after)
		}
		if all {
			return
		}
	}
}

// TakeReceived returns a call of TakeReceived that takes three of five bodies.
func TakeReceived() Call[Receiver] {
	const key = "k"
	return Call[Receiver]{
		Prepare: func(ctx context.Context, s Receiver) error {
			for i := range 5 {
				body := clientstore.Received{EventID: fmt.Sprint("e", i), Body: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))}
				if _, err := s.PutReceived(ctx, key, body); err != nil {
					return err
				}
			}
			return nil
		},
		Do: func(ctx context.Context, s Receiver) error {
			all, err := s.Received(ctx, key, 0, 100)
			if err != nil {
				return err
			}
			saved := clientstore.Saved{Cursor: "c3", EventIDs: []string{"e0", "e1", "e2"}}
			if len(all) < 5 { // the three are taken
				return s.TakeReceived(ctx, key, all[0].Sequence-1, saved)
			}
			return s.TakeReceived(ctx, key, all[2].Sequence, saved)
		},
		State: func(ctx context.Context, s Receiver) (string, error) {
			all, err := s.Received(ctx, key, 0, 100)
			if err != nil {
				return "", err
			}
			var ids []string
			for _, b := range all {
				ids = append(ids, b.EventID)
			}
			saved, ok, err := s.Load(ctx, key)
			return fmt.Sprint(ids, ok, saved.Cursor, saved.EventIDs), err
		},
	}
}
