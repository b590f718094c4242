package delivery

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// REP-10: the mark moves only after the progress of all subscriptions was stored: a writing that fails halfway, or a
// crash there, leaves it where it was. [Shard.write] carries this.
func TestREP10MarkComesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		var broken error
		writes := 0
		spy := &writeSpy{Owned: db, after: func() {}, fail: func() error {
			if broken == nil {
				return nil
			}
			if writes++; writes == 2 {
				return broken
			}
			return nil
		}}
		e := newEngine(t, Options{Sender: &script{answer: refuse(503)}, FlushInterval: time.Hour}, spy)
		defer shutdown(t, e)
		e.saver.batch = 1
		top := newTopic(store.LogOptions{})
		var err error
		if top.track, err = e.whole.OpenLog(t.Context(), "test", top.Head); err != nil {
			t.Fatal(err)
		}
		top.track.Ready()
		for i := range 3 {
			r := record(fmt.Sprint("sub_", i))
			if _, err := db.PutSubscription(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			top.join(t, e, r, false)
		}
		synctest.Wait()
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		check := func(marked bool) {
			t.Helper()
			mark, err := db.Mark(t.Context(), "test")
			if err != nil || mark == top.Head() != marked {
				t.Errorf("the mark is %d of %d, %v", mark, top.Head(), err)
			}
			open := 0
			for _, r := range stored(t, db) {
				if r.Progress.Open {
					open++
				}
			}
			if marked && open != 3 || !marked && open != 1 {
				t.Errorf("%d are open with the mark at %d", open, mark)
			}
		}
		top.emit(t, "evt_1")
		time.Sleep(time.Second)
		broken = errors.New("disk full")
		if err := e.Flush(t.Context()); !errors.Is(err, broken) {
			t.Fatalf("Flush: %v", err)
		}
		check(false)
		broken = nil
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		check(true)
	})
}

// A countingStore counts the writings of progress.
type countingStore struct {
	*memory.Store
	saves int
}

func (s *countingStore) SaveProgress(ctx context.Context, u []store.Update) error {
	s.saves++
	return s.Store.SaveProgress(ctx, u)
}

// REP-10, REP-16: a record that is not added is stored as open where its delivery would begin, with one writing, and
// nothing else of it changes; one that is open, or of another generation, stays as it is.
func TestREP10StoreOpen(t *testing.T) {
	db := &countingStore{Store: memory.New()}
	e := newEngine(t, Options{Sender: &script{}})
	defer shutdown(t, e)
	if err := db.SaveMark(t.Context(), "a", 7); err != nil {
		t.Fatal(err)
	}
	log, err := e.NewShard(ShardOptions{Store: db}).OpenLog(t.Context(), "a", func() store.Position { return 9 })
	if err != nil {
		t.Fatal(err)
	}
	health := store.Health{LastError: "timeout"}
	for name, c := range map[string]struct {
		stored, want store.Progress
		saves        int
	}{
		"closed before the mark": {store.Progress{Epoch: 1, Base: 3}, store.Progress{Epoch: 1, Base: 7, Open: true}, 1},
		"closed after it":        {store.Progress{Epoch: 1, Base: 8}, store.Progress{Epoch: 1, Base: 8, Open: true}, 1},
		"open":                   {store.Progress{Epoch: 1, Base: 3, Open: true}, store.Progress{Epoch: 1, Base: 3, Open: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := admit(t, db.Store, "a", name, 0)
			if err := db.SaveProgress(t.Context(), []store.Update{{ID: r.ID, Generation: r.Generation, Progress: c.stored, Health: health}}); err != nil {
				t.Fatal(err)
			}
			r.Progress, r.Health = c.stored, health
			db.saves = 0
			for range 2 {
				if err := log.StoreOpen(t.Context(), &r); err != nil {
					t.Fatal(err)
				}
			}
			got, _, err := db.Subscription(t.Context(), r.ID)
			if err != nil || db.saves != c.saves || !reflect.DeepEqual(got.Progress, c.want) || got.Health != health || !reflect.DeepEqual(r.Progress, c.want) {
				t.Errorf("%d writings: %+v, %+v, %v", db.saves, got.Progress, got.Health, err)
			}
		})
	}
}

// REP-10: a subscription that is given up although its record stays, such as one that another process has prolonged, is
// passed over by no mark until it is added again: by the same owner, whatever record it has read, or by the next one.
func TestREP10DetachedIsNotPassedOver(t *testing.T) {
	for _, crash := range []bool{false, true} {
		for _, away := range []bool{false, true} {
			t.Run(fmt.Sprintf("crash %v, store away %v", crash, away), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testDetached(t, crash, away) })
			})
		}
	}
}

func testDetached(t *testing.T, crash, away bool) {
	top, db := newTopic(store.LogOptions{}), memory.New()
	s := &script{}
	e := newEngine(t, Options{Sender: s})
	defer shutdown(t, e)
	admit(t, db, "a", "a1", 0)
	admit(t, db, "a", "a2", 0)
	a := top.openLane(t, e, "a", db, ShardOptions{}, nil)
	top.emit(t, "before")
	time.Sleep(10 * time.Second)
	closed := stored(t, db)[0]
	if closed.Progress.Open {
		t.Fatalf("stored: %+v", closed.Progress)
	}
	for _, h := range a.all() {
		if h.ID() == "a1" {
			h.Detach()
			h.Detach()
		}
	}
	a.db.away.Store(away)
	top.emit(t, "meanwhile")
	time.Sleep(10 * time.Second)
	a.db.away.Store(false)
	time.Sleep(10 * time.Second)
	if got := stored(t, db)[0].Progress; !got.Open || got.Base != 1 {
		t.Errorf("stored: %+v", got)
	}
	if mark, err := db.Mark(t.Context(), "a"); mark != 2 || err != nil {
		t.Errorf("the mark is %d, %v", mark, err)
	}
	if crash {
		a.Drop()
		top.openLane(t, e, "a", db, ShardOptions{}, nil)
	} else {
		top.enter(t, e, a, closed) // as it was read before the mark moved
	}
	time.Sleep(10 * time.Second)
	if got := s.ids("a1"); !same(got, "before", "meanwhile") {
		t.Errorf("a1 got %v", got)
	}
	if got := stored(t, db)[0].Progress; got.Open {
		t.Errorf("afterwards %+v", got)
	}
}

// REP-10: what is stored of a subscription that was given up and added again is what its new handle knows, although it
// was added with an older record and has nothing to do, and although a turn of the old handle ends late.
func TestREP10AddedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, db := newTopic(store.LogOptions{}), memory.New()
		e := newEngine(t, Options{Sender: &script{}})
		defer shutdown(t, e)
		admit(t, db, "a", "a1", 0)
		a := top.openLane(t, e, "a", db, ShardOptions{}, nil)
		top.emit(t, "before")
		time.Sleep(10 * time.Second)
		closed, old := stored(t, db)[0], a.all()[0]
		old.Detach()
		time.Sleep(time.Second)
		if got := stored(t, db)[0].Progress; !got.Open {
			t.Errorf("given up, it is stored as %+v", got)
		}
		top.enter(t, e, a, closed)
		time.Sleep(time.Second)
		if got := stored(t, db)[0].Progress; got.Open {
			t.Errorf("added again, it is stored as %+v", got)
		}
		e.mu.Lock()
		e.markDirty(old) // as when its reader has parked
		e.mu.Unlock()
		time.Sleep(time.Second)
		if got := stored(t, db)[0].Progress; got.Open {
			t.Errorf("after the late turn it is stored as %+v", got)
		}
	})
}

// REP-10, SRV-8: what a replay has moved back is stored with its open bit in one step, however far the mark is.
func TestREP10RewindOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, db := newTopic(store.LogOptions{}), memory.New()
		s := &script{}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		admit(t, db, "a", "a1", 0)
		a := top.openLane(t, e, "a", db, ShardOptions{}, nil)
		top.emit(t, "1")
		top.emit(t, "2")
		time.Sleep(10 * time.Second)
		h := a.all()[0]
		h.Pause(time.Now())
		if err := h.Rewind(t.Context(), 1, 0, unstored); err != nil {
			t.Fatal(err)
		}
		if got := stored(t, db)[0].Progress; !got.Open || got.Base != 1 {
			t.Errorf("stored: %+v", got)
		}
		a.Drop() // a crash
		top.openLane(t, e, "a", db, ShardOptions{}, nil)
		time.Sleep(10 * time.Second)
		if got := s.ids("a1"); !same(got, "1", "2", "2") {
			t.Errorf("a1 got %v", got)
		}
	})
}
