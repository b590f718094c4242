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
