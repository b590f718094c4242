package server

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// stored edits a record as another process does that cannot tell of it, and returns it.
func (f *fleet) stored(id string, edit func(r *store.Subscription)) store.Subscription {
	f.t.Helper()
	db := f.afloat()[0].store
	for {
		r, ok, err := db.Subscription(context.Background(), id)
		if err == nil && ok {
			edit(&r)
			_, err = db.PutSubscription(context.Background(), r)
		}
		switch {
		case errors.Is(err, store.ErrConflict): // its owner has written in between
		case err != nil || !ok:
			f.t.Fatal(ok, err)
		default:
			return r
		}
	}
}

// REP-11: what a process did and could not tell of, since it died, is found by comparing.
func TestREP11WhatNobodyToldOf(t *testing.T) {
	sail(t, 1, nil, func(t *testing.T, f *fleet) {
		m := f.members[0]
		var ids []string
		for i := range 4 {
			ids = append(ids, m.subscribe(t, "ann", params(fmt.Sprint(plain, i), secretA, "")).ID)
		}
		r, _, err := m.store.Subscription(t.Context(), ids[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := m.store.DeleteSubscription(t.Context(), ids[0], r.Generation); err != nil {
			t.Fatal(err)
		}
		f.stored(ids[1], func(r *store.Subscription) { r.PausedAt = time.Now() })
		fresh := r
		fresh.URL, fresh.Revision, fresh.Generation, fresh.Progress.Base = plain+"9", 0, 7, m.types["e"].topic.Head()
		fresh.ID = wire.SubscriptionID(wire.ModeWebhook, fresh.Principal, fresh.URL, fresh.Event, fresh.Arguments)
		// K13: its URL is not the one that its id was made of.
		forged := fresh
		forged.ID, forged.URL = ids[0], plain+"8"
		for _, made := range []store.Subscription{forged, fresh} {
			if _, err := m.store.PutSubscription(t.Context(), made); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.webhooks.Compare(t.Context()); err != nil {
			t.Fatal(err)
		}
		waitUntil(t, "all is as it is stored", func() bool {
			return m.webhooks.Get(ids[0]) == nil && m.webhooks.Get(fresh.ID) != nil && m.webhooks.Get(ids[1]).Handle.Status().Paused
		})
		if m.webhooks.Get(forged.ID) != nil {
			t.Error("a record is delivered to another URL than the one that its id was made of")
		}
		if m.webhooks.Get(ids[2]).Handle.Status().Paused {
			t.Error("another one is paused")
		}
	})
}
