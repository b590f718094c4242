package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
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
	bubble(t, func(o *Options) { o.Store = replacedStore{memory.New()} }, func(w *world) {
		t := w.t
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

// TestTrap6LateExpiry lets the engine's word of an expiry come when the subscription has been made
// anew: that one lives. The comparison of handles in subscriber.Subscriptions.ended carries this (trap 6, SUB-5).
func TestTrap6LateExpiry(t *testing.T) {
	bubble(t, nil, func(w *world) {
		t := w.t
		hooks := &journal{}
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{
			OnSubscribe:   func(context.Context, Subscription, *filterArgs) error { hooks.add("on"); return nil },
			OnUnsubscribe: func(context.Context, Subscription, *filterArgs) { hooks.add("off") },
		})
		short := params(plain, secretA, `,"ttlMs":60000`)
		s := w.subscribe("alice", short)
		if err := w.webhooks.Store().DeleteVerification(t.Context(), "alice", plain); err != nil {
			t.Fatal(err)
		}
		// The time is over while the refresh waits for the challenge, with the subscription's key: what
		// expired is told of once the new one has begun.
		w.r.on(func(_ http.ResponseWriter, d *delivered) bool {
			if d.body.Type == wire.EnvelopeVerification {
				time.Sleep(2 * time.Second)
			}
			return false
		})
		w.settle(59 * time.Second)
		if r := w.subscribe("alice", short); r.ID != s.ID || r.DeliveryStatus != nil {
			t.Errorf("not a new one: %+v", r)
		}
		w.r.on(nil)
		w.settle(time.Second)
		emit(t, e, incident{ID: "i1"})
		w.settle(time.Second)
		wantStrings(t, "delivered", w.r.shorts(), "i1")
		wantStrings(t, "hooks", hooks.lines(), "on", "off", "on")
		if i, err := w.Admin().Get(t.Context(), s.ID); err != nil || i.State != operator.StateActive {
			t.Errorf("%+v %v", i, err)
		}
	})
}
