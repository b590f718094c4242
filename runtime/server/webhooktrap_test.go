package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// A replacedStore keeps subscriptions; its logs are others after each opening, with entries in them.
type replacedStore struct{ *memory.Store }

func (replacedStore) OpenLog(ctx context.Context, _ string, o store.LogOptions) (store.EventLog, error) {
	told, filled := o.Appended, false
	o.Appended = func(entries []store.Entry) {
		if filled {
			told(entries)
		}
	}
	l := memory.NewLog(o)
	for i := range 10 {
		id := fmt.Sprint("n", i)
		data, err := json.Marshal(incident{ID: id})
		if err != nil {
			return nil, err
		}
		if _, err := l.Append(ctx, store.Entry{EventID: id, Timestamp: events.NewTime(time.Now()), Data: data}); err != nil {
			return nil, err
		}
	}
	filled = true
	return l, nil
}

// TestTrap5ProgressOfAnotherEpoch restarts over a log that is another one and has come further: a
// stored position of the old one means nothing in it. The comparison of epochs in
// subscriber.Subscriptions.takeUp carries this (trap 5, SUB-11).
func TestTrap5ProgressOfAnotherEpoch(t *testing.T) {
	bubble(t, func(o *Options) { o.Store = replacedStore{memory.New()} }, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.subscribe("alice", params(plain, secretA, "")) // at position 10 of 10
		w.settle(time.Second)
		w.restart(nil)
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.settle(time.Minute)
		got := w.r.shorts()
		slices.Sort(got)
		wantStrings(t, "delivered", got, "gap", "n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9")
	})
}
