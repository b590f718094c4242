package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// TestTrap15Restart restarts with many subscriptions, few of which have anything left to do: the
// others read nothing that was dispatched before.
// Log.restore and Engine.collect carry it.
func TestTrap15Restart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		top := newTopic(store.LogOptions{})
		db := memory.New()
		var accept atomic.Bool
		s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
			if g.sub == "sub_7" && !accept.Load() {
				return 500, nil, nil
			}
			return 200, nil, nil
		}}
		e := newEngine(t, Options{Sender: s}, db)
		top.track, _ = e.whole.OpenLog(ctx, "test", top.Head)
		top.track.Ready()
		for i := range 100 {
			r := record(fmt.Sprint("sub_", i))
			if _, err := db.PutSubscription(ctx, r); err != nil {
				t.Fatal(err)
			}
			top.join(t, e, r, false)
		}
		time.Sleep(time.Second) // the bases are stored
		for i := range 500 {
			top.emit(t, fmt.Sprint("evt_", i), "nobody")
		}
		top.emit(t, "evt_for_7", "sub_7")
		for i := range 500 {
			top.emit(t, fmt.Sprint("evt_later_", i), "nobody")
		}
		time.Sleep(20 * time.Second)
		shutdown(t, e)

		subs, err := db.Subscriptions(ctx, "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		accept.Store(true)
		top.emit(t, "evt_while_away", "sub_3")
		e = newEngine(t, Options{Sender: s}, db)
		defer shutdown(t, e)
		top.track, _ = e.whole.OpenLog(ctx, "test", top.Head)
		top.reads.Store(0)
		for _, r := range subs {
			top.join(t, e, r, true)
		}
		top.track.Ready()
		time.Sleep(time.Minute)
		// Each reads the one entry that came while nobody was there; sub_7 the rest after its base.
		if n := top.reads.Load(); n > 100+501 {
			t.Errorf("%d entries read after the restart", n)
		}
		if s.count("sub_3") != 1 || s.count("sub_7") != 3 || len(s.all()) != 4 {
			t.Errorf("%d deliveries to sub_3, %d to sub_7", s.count("sub_3"), s.count("sub_7"))
		}
		mark, err := db.Mark(ctx, "test")
		if err != nil || mark != top.Head() {
			t.Errorf("the mark is %d of %d, %v", mark, top.Head(), err)
		}
		for _, r := range stored(t, db) {
			if r.Progress.Open {
				t.Errorf("%s is stored as %+v", r.ID, r.Progress)
			}
		}
	})
}

// TestStoreFails keeps delivering while the store fails, and writes when it is back.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		top := newTopic(store.LogOptions{})
		db := memory.New()
		var away atomic.Bool
		spy := &writeSpy{Owned: db, after: func() {}, fail: func() error {
			if away.Load() {
				return errors.New("disk full")
			}
			return nil
		}}
		s := &script{}
		e := newEngine(t, Options{Sender: s}, spy)
		defer shutdown(t, e)
		top.track, _ = e.whole.OpenLog(ctx, "test", top.Head)
		top.track.Ready()
		r := record("sub_1")
		if _, err := db.PutSubscription(ctx, r); err != nil {
			t.Fatal(err)
		}
		top.join(t, e, r, false)
		time.Sleep(time.Second)
		away.Store(true)
		top.emit(t, "evt_1")
		time.Sleep(10 * time.Second)
		if s.count("sub_1") != 1 {
			t.Error("no delivery while the store is away")
		}
		if n := spy.count.Load(); n > 20 {
			t.Errorf("%d writings tried in ten seconds", n)
		}
		away.Store(false)
		time.Sleep(time.Minute)
		got, _, _ := db.Subscription(ctx, "sub_1")
		if got.Progress.Base != 1 || got.Health.LastDeliveryAt.IsZero() {
			t.Errorf("stored: %+v", got)
		}
		// What is quiet is not written.
		before := spy.count.Load()
		time.Sleep(10 * time.Minute)
		if n := spy.count.Load() - before; n != 0 {
			t.Errorf("%d writings of nothing", n)
		}
	})
}

// TestQuietAfterATurn writes between the end of a read and that of its turn: a subscription that has nothing left to do
// is stored as closed all the same, without anything else happening to it.
func TestQuietAfterATurn(t *testing.T) {
	ctx := t.Context()
	top := newTopic(store.LogOptions{})
	db := memory.New()
	e := newEngine(t, Options{Sender: &script{}, FlushInterval: time.Hour}, db)
	defer shutdown(t, e)
	var err error
	if top.track, err = e.whole.OpenLog(ctx, "test", top.Head); err != nil {
		t.Fatal(err)
	}
	top.track.Ready()
	r := record("sub_1")
	if _, err := db.PutSubscription(ctx, r); err != nil {
		t.Fatal(err)
	}
	e.mu.Lock()
	places := e.o.Workers
	e.o.Workers = 0 // this test takes the turn
	e.mu.Unlock()
	top.join(t, e, r, false)
	e.mu.Lock()
	j, ok := e.nextJob()
	e.mu.Unlock()
	if !ok || !j.read {
		t.Fatalf("the turn is %+v, %v", j, ok)
	}
	e.run(j)
	if err := e.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	e.mu.Lock()
	e.releaseSlots(j)
	e.o.Workers = places
	e.mu.Unlock()
	if err := e.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if p := stored(t, db)[0].Progress; p.Open {
		t.Errorf("stored: %+v", p)
	}
}
