package delivery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// An ownedStore is a shard's part of a store; it may have another owner.
type ownedStore struct {
	*memory.Store
	fenced atomic.Bool
	away   atomic.Bool
	stuck  atomic.Bool  // SaveProgress does not answer before its context ends
	slow   atomic.Int64 // how long SaveProgress takes
	marks  atomic.Int64
}

func (s *ownedStore) SaveProgress(ctx context.Context, u []store.Update) error {
	if s.fenced.Load() {
		return fmt.Errorf("in a test: %w", engine.ErrFenced)
	}
	if s.away.Load() {
		return errors.New("in a test: the store is away")
	}
	if s.stuck.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(time.Duration(s.slow.Load()))
	return s.Store.SaveProgress(ctx, u)
}

func (s *ownedStore) SaveMark(ctx context.Context, log string, to store.Position) error {
	if s.fenced.Load() {
		return fmt.Errorf("in a test: %w", engine.ErrFenced)
	}
	s.marks.Add(1)
	return s.Store.SaveMark(ctx, log, to)
}

// A lane is a shard with its log, as an owner of it has them.
type lane struct {
	*Shard
	log *Log
	db  *ownedStore
}

// all are the shard's subscriptions.
func (l *lane) all() []*Handle {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	return slices.Collect(maps.Keys(l.handles))
}

// openLane takes a shard up: the records that are stored, of which those that left picks are not for this
// build.
func (t *topic) openLane(tb testing.TB, e *Engine, name string, db *memory.Store, o ShardOptions, left func(store.Subscription) bool) *lane {
	tb.Helper()
	l := &lane{db: &ownedStore{Store: db}}
	o.Store = l.db
	l.Shard = e.NewShard(o)
	subs, err := db.Subscriptions(context.Background(), "", 1000)
	if err != nil {
		tb.Fatal(err)
	}
	if l.log, err = l.OpenLog(context.Background(), name, t.Head); err != nil {
		tb.Fatal(err)
	}
	t.mu.Lock()
	t.lanes = append(t.lanes, l.log)
	t.mu.Unlock()
	for _, s := range subs {
		if s.Event != name {
			continue
		}
		if left != nil && left(s) {
			if err := l.log.StoreOpen(context.Background(), &s); err != nil {
				tb.Fatal(err)
			}
			continue
		}
		t.enter(tb, e, l, s)
	}
	l.log.Ready()
	return l
}

func (t *topic) enter(tb testing.TB, e *Engine, l *lane, s store.Subscription) *Handle {
	tb.Helper()
	v := &view{t: t, id: s.ID}
	t.mu.Lock()
	t.all[v] = struct{}{}
	t.mu.Unlock()
	h, err := e.Add(context.Background(), Entry{Subscription: s, Reader: v, Shard: l.Shard, Log: l.log, Begin: func(h *Handle) {
		t.mu.Lock()
		v.h = h
		t.mu.Unlock()
	}})
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// admit stores a subscription of the shard of that name, as any process does.
func admit(tb testing.TB, db *memory.Store, name, id string, base store.Position) store.Subscription {
	tb.Helper()
	s := record(id)
	s.Event, s.ExpiresAt, s.Progress = name, time.Time{}, store.Progress{Base: base}
	var err error
	if s.Revision, err = db.PutSubscription(context.Background(), s); err != nil {
		tb.Fatal(err)
	}
	s.Progress.Open = true // as it was stored
	return s
}

// stored are all records.
func stored(tb testing.TB, db store.SubscriptionStore) []store.Subscription {
	tb.Helper()
	subs, err := db.Subscriptions(context.Background(), "", 1000)
	if err != nil {
		tb.Fatal(err)
	}
	return subs
}

func (s *script) ids(sub string) (ids []string) {
	for _, g := range s.all() {
		if g.sub == sub {
			ids = append(ids, g.id)
		}
	}
	return ids
}

// same compares what came with what was to come, in any order.
func same(got []string, want ...string) bool {
	return slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)))
}

// REP-9: what was delivered while the store was away is written soon after it is back, however many shards could not be
// written and however long it was away: until then a process that dies has it delivered again.
func TestREP9StoreOfShardsIsBack(t *testing.T) {
	for _, away := range []time.Duration{time.Second, time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				top, db := newTopic(store.LogOptions{}), memory.New()
				e := newEngine(t, Options{Sender: &script{}})
				defer shutdown(t, e)
				const shards = 16
				var lanes []*lane
				for i := range shards {
					name := fmt.Sprint("s", i)
					admit(t, db, name, name+"_1", 0)
					lanes = append(lanes, top.openLane(t, e, name, db, ShardOptions{}, nil))
				}
				time.Sleep(time.Minute)
				for _, l := range lanes {
					l.db.away.Store(true)
				}
				top.emit(t, "one")
				time.Sleep(away)
				for _, l := range lanes {
					l.db.away.Store(false)
				}
				time.Sleep(min(away, maxSavePause) + 100*time.Millisecond)
				for i := range shards {
					sub, _, err := db.Subscription(t.Context(), fmt.Sprint("s", i, "_1"))
					if err != nil || sub.Progress.Base != 1 {
						t.Fatalf("shard %d: %+v, %v", i, sub.Progress, err)
					}
				}
			})
		})
	}
}

// SRV-6, SRV-8: when Flush returns, also what a writing that was under way had taken is stored.
func TestFlushWaitsForTheWritingUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, db := newTopic(store.LogOptions{}), memory.New()
		e := newEngine(t, Options{Sender: &script{}})
		defer shutdown(t, e)
		admit(t, db, "s", "s_1", 0)
		l := top.openLane(t, e, "s", db, ShardOptions{}, nil)
		time.Sleep(time.Minute)
		l.db.slow.Store(int64(10 * time.Second))
		top.emit(t, "one")
		time.Sleep(5 * time.Second) // it is being stored
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if sub, _, err := db.Subscription(t.Context(), "s_1"); err != nil || sub.Progress.Base != 1 {
			t.Errorf("%+v, %v", sub.Progress, err)
		}
	})
}

// REP-9: a shard that is given away begins nothing, concludes what is under way and stores it, while the
// others go on; who takes it up repeats nothing.
func TestREP9DrainOfOneShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, db := newTopic(store.LogOptions{}), memory.New()
		hang := make(chan struct{})
		s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
			if g.sub == "a1" && g.id == "slow" {
				<-hang
			}
			return 204, nil, nil
		}}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		admit(t, db, "a", "a1", 0)
		admit(t, db, "b", "b1", 0)
		a, _ := top.openLane(t, e, "a", db, ShardOptions{}, nil), top.openLane(t, e, "b", db, ShardOptions{}, nil)
		top.emit(t, "first")
		top.emit(t, "slow")
		time.Sleep(time.Second)
		drained := make(chan error)
		go func() { drained <- a.Drain(context.Background()) }()
		synctest.Wait()
		top.emit(t, "late")
		time.Sleep(3 * time.Second)
		select {
		case <-drained:
			t.Fatal("given away with an attempt under way")
		default:
		}
		a1, b1 := s.ids("a1"), s.ids("b1")
		close(hang)
		if !same(a1, "first", "slow") || !same(b1, "first", "slow", "late") {
			t.Fatalf("a1 got %v, b1 %v", a1, b1)
		}
		if err := <-drained; err != nil {
			t.Fatal(err)
		}
		next := newEngine(t, Options{Sender: s})
		defer shutdown(t, next)
		top.openLane(t, next, "a", db, ShardOptions{}, nil)
		time.Sleep(time.Second)
		if got := s.ids("a1"); !same(got, "first", "slow", "late") {
			t.Fatalf("a1 got %v", got)
		}
	})
}

// REP-10: a record that is added late, after the mark has begun to move, may be stored as closed: its last owner found
// it settled. What is open when the shard is given away is not lost then.
func TestREP10LateAndClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, db := newTopic(store.LogOptions{}), memory.New()
		s := &script{answer: refuse(500)}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		a := top.openLane(t, e, "a", db, ShardOptions{}, nil)
		top.emit(t, "settled")
		r := admit(t, db, "a", "a1", top.Head())
		r.Progress.Open = false
		if err := db.SaveProgress(t.Context(), []store.Update{{ID: r.ID, Generation: r.Generation, Progress: r.Progress}}); err != nil {
			t.Fatal(err)
		}
		top.enter(t, e, a, r)
		top.emit(t, "open") // before anything was stored of it here
		time.Sleep(time.Second)
		if err := a.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		s = &script{}
		next := newEngine(t, Options{Sender: s})
		defer shutdown(t, next)
		top.openLane(t, next, "a", db, ShardOptions{}, nil)
		time.Sleep(time.Minute)
		if got := s.ids("a1"); !same(got, "open") {
			t.Fatalf("the next owner delivers %q", got)
		}
	})
}

// REP-9: what waits for a worker when its shard is given away is not begun.
func TestREP9DrainLeavesWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, db := newTopic(store.LogOptions{}), memory.New()
		hang := make(chan struct{})
		s := &script{answer: func(context.Context, got) (int, http.Header, error) {
			<-hang
			return 204, nil, nil
		}}
		e := newEngine(t, Options{Sender: s, Workers: 1, PerHost: 8})
		defer shutdown(t, e)
		for i := range 4 {
			admit(t, db, "a", fmt.Sprint("a", i), 0)
		}
		a := top.openLane(t, e, "a", db, ShardOptions{}, nil)
		top.emit(t, "1")
		time.Sleep(time.Second)
		drained := make(chan error)
		go func() { drained <- a.Drain(context.Background()) }()
		synctest.Wait()
		close(hang)
		if err := <-drained; err != nil || len(s.all()) != 1 {
			t.Fatalf("%v, %d attempts", err, len(s.all()))
		}
		top.openLane(t, e, "a", db, ShardOptions{}, nil)
		time.Sleep(time.Second)
		if n := len(s.all()); n != 4 {
			t.Fatalf("%d attempts", n)
		}
	})
}

// REP-9: a shard is given away in time although the store does not answer a write that began before.
func TestREP9DrainBesideWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, db := newTopic(store.LogOptions{}), memory.New()
		e := newEngine(t, Options{Sender: &script{}})
		defer shutdown(t, e)
		admit(t, db, "a", "a1", 0)
		a := top.openLane(t, e, "a", db, ShardOptions{}, nil)
		a.db.stuck.Store(true)
		top.emit(t, "1")
		time.Sleep(5 * time.Second) // the write has begun, and ends after saveTime
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := a.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Second+2*graceTime {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
	})
}

// REP-9: when the time is over attempts are cut off; they are made again elsewhere.
func TestREP9DrainCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, db := newTopic(store.LogOptions{}), memory.New()
		s := &script{answer: func(ctx context.Context, g got) (int, http.Header, error) {
			if g.attempt == 1 {
				<-ctx.Done()
				return 0, nil, ctx.Err()
			}
			return 204, nil, nil
		}}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		admit(t, db, "a", "a1", 0)
		a := top.openLane(t, e, "a", db, ShardOptions{}, nil)
		top.emit(t, "1")
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := a.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Minute+2*graceTime {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		next := newEngine(t, Options{Sender: s})
		defer shutdown(t, next)
		top.openLane(t, next, "a", db, ShardOptions{}, nil)
		time.Sleep(time.Second)
		if got := s.ids("a1"); !same(got, "1", "1") {
			t.Fatalf("a1 got %v", got)
		}
	})
}

// REP-7: a write that is fenced ends the shard at once: attempts under way are cut off and nothing else is
// sent or written, whatever is asked of its handles. Others go on.
func TestREP7FencedWriteEndsTheShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, db := newTopic(store.LogOptions{}), memory.New()
		var cut atomic.Int64
		s := &script{answer: func(ctx context.Context, g got) (int, http.Header, error) {
			if g.id == "hangs" && g.sub != "b1" {
				<-ctx.Done()
				cut.Add(1)
				return 0, nil, ctx.Err()
			}
			return 204, nil, nil
		}}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		one := admit(t, db, "a", "a1", 0)
		admit(t, db, "b", "b1", 0)
		var told atomic.Int64
		a := top.openLane(t, e, "a", db, ShardOptions{Fenced: func() { told.Add(1) }}, nil)
		b := top.openLane(t, e, "b", db, ShardOptions{}, nil)
		h := top.enter(t, e, a, admit(t, db, "a", "a2", 0))
		top.emit(t, "answered")
		time.Sleep(time.Second)
		top.emit(t, "hangs")
		time.Sleep(time.Second)
		a.db.fenced.Store(true)
		top.emit(t, "then")
		time.Sleep(time.Second)
		if told.Load() != 1 || cut.Load() != 2 {
			t.Fatalf("told %d times, %d cut off", told.Load(), cut.Load())
		}
		n := len(s.all())
		top.emit(t, "after")
		h.Wake()
		h.Resume()
		h.Terminate(wire.ErrorObject{})
		if err := h.Rewind(t.Context(), 0, 0, unstored); !errors.Is(err, ErrClosed) {
			t.Errorf("Rewind: %v", err)
		}
		if _, ok := h.Refresh(one); ok {
			t.Error("it can be refreshed")
		}
		if _, err := e.Add(t.Context(), Entry{Subscription: one, Reader: &view{t: top, id: "a1"}, Shard: a.Shard, Log: a.log}); !errors.Is(err, ErrClosed) {
			t.Errorf("Add: %v", err)
		}
		time.Sleep(time.Minute)
		for _, g := range s.all()[n:] {
			if g.sub != "b1" {
				t.Errorf("%s was sent to %s", g.id, g.sub)
			}
		}
		if got := s.ids("b1"); !same(got, "answered", "hangs", "then", "after") {
			t.Errorf("b1 got %v", got)
		}
		if told.Load() != 1 {
			t.Errorf("told %d times", told.Load())
		}
		if err := b.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// REP-8, REP-11: no attempt begins while it may not, envelopes and repetitions included; all is sent once it
// may again.
func TestREP8NothingBeginsWhileItMayNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, db := newTopic(store.LogOptions{}), memory.New()
		s := &script{}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		admit(t, db, "a", "a1", 0)
		admit(t, db, "a", "a2", 0)
		var may atomic.Bool
		a := top.openLane(t, e, "a", db, ShardOptions{May: may.Load}, nil)
		top.emit(t, "1")
		time.Sleep(time.Minute)
		for _, h := range a.all() {
			h.Gap()
			if h.id == "a2" {
				h.Terminate(wire.ErrorObject{})
			}
		}
		time.Sleep(time.Minute)
		if n := len(s.all()); n != 0 {
			t.Fatalf("%d attempts", n)
		}
		may.Store(true)
		time.Sleep(2 * recheckPause)
		if got := s.ids("a1"); len(got) != 2 {
			t.Errorf("a1 got %v", got)
		}
		if got := s.ids("a2"); len(got) != 1 || !strings.HasPrefix(got[0], "msg_terminated_") {
			t.Errorf("a2 got %v", got)
		}
	})
}

// REP-8: what is signed, stored and compared is in the time that the engine is given.
func TestREP8GivenTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const by = 30 * time.Hour
		top, db := newTopic(store.LogOptions{}), memory.New()
		s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
			if g.attempt == 1 {
				return 500, nil, nil
			}
			return 204, nil, nil
		}}
		var ended atomic.Int64
		e := newEngine(t, Options{Sender: s, Now: func() time.Time { return time.Now().Add(by) },
			Ended: func(*Handle, End) { ended.Add(1) }}, db)
		defer shutdown(t, e)
		r := record("sub_1")
		r.ExpiresAt = time.Now().Add(by + time.Hour)
		if _, err := db.PutSubscription(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		top.join(t, e, r, false)
		top.emit(t, "1")
		time.Sleep(10 * time.Second)
		all := s.all()
		if len(all) != 2 || all[1].at.Sub(all[0].at) != 5*time.Second {
			t.Fatalf("%d attempts", len(all))
		}
		if got, want := all[0].header.Get(wire.HeaderWebhookTimestamp), fmt.Sprint(all[0].at.Add(by).Unix()); got != want {
			t.Errorf("stamped %s, want %s", got, want)
		}
		stored, _, _ := db.Subscription(t.Context(), "sub_1")
		if got, want := stored.Health.LastDeliveryAt, all[1].at.Add(by); !got.Equal(want) {
			t.Errorf("stored %v, want %v", got, want)
		}
		time.Sleep(time.Hour)
		if ended.Load() != 1 {
			t.Error("it has not expired")
		}
	})
}

// REP-10: how far a log was offered is stored at most once a second for a shard with many subscriptions, more
// rarely with few, not at all without any, and at once when it is given away.
func TestREP10MarksOfAShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, db := newTopic(store.LogOptions{}), memory.New()
		s := &script{}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		admit(t, db, "a", "a1", 0)
		a, b := top.openLane(t, e, "a", db, ShardOptions{}, nil), top.openLane(t, e, "b", db, ShardOptions{}, nil)
		for i := range fewHandles + 1 {
			admit(t, db, "c", fmt.Sprint("c", i), 0)
		}
		many := top.openLane(t, e, "c", db, ShardOptions{}, nil)
		time.Sleep(5 * time.Second)
		a.db.marks.Store(0)
		many.db.marks.Store(0)
		for i := range 100 {
			top.emit(t, fmt.Sprint("evt_", i), "nobody")
			time.Sleep(100 * time.Millisecond)
		}
		if n := a.db.marks.Load(); n < 2 || n > 3 {
			t.Errorf("%d marks in 10 s", n)
		}
		if n := many.db.marks.Load(); n < 8 || n > 11 {
			t.Errorf("%d marks in 10 s of a shard with many", n)
		}
		if n := b.db.marks.Load(); n != 0 {
			t.Errorf("%d marks of a shard without subscriptions", n)
		}
		top.enter(t, e, a, admit(t, db, "a", "a2", top.Head()))
		if new, _, err := db.Subscription(t.Context(), "a2"); !new.Progress.Open || err != nil {
			t.Errorf("a new subscription is %+v, %v", new.Progress, err)
		}
		time.Sleep(time.Second)
		top.emit(t, "last", "nobody")
		if err := a.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if mark, err := db.Mark(t.Context(), "a"); mark != top.Head() || err != nil {
			t.Errorf("the mark is %d of %d, %v", mark, top.Head(), err)
		}
		for _, s := range stored(t, db) {
			if s.Event == "a" && s.Progress.Open {
				t.Errorf("stored: %+v", s.Progress)
			}
		}
	})
}

// REP-16: what is left to others loses nothing by the marks of who left it.
func TestREP16LeftIsNotPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, db := newTopic(store.LogOptions{}), memory.New()
		s := &script{}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		admit(t, db, "a", "a1", 0)
		admit(t, db, "a", "a2", 0)
		top.emit(t, "1")
		first := top.openLane(t, e, "a", db, ShardOptions{}, nil)
		time.Sleep(time.Second)
		top.emit(t, "2", "nobody")
		time.Sleep(2 * time.Second)
		if err := first.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := top.openLane(t, e, "a", db, ShardOptions{}, func(s store.Subscription) bool { return s.ID == "a2" })
		top.emit(t, "3")
		time.Sleep(5 * time.Second)
		if err := second.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		top.openLane(t, e, "a", db, ShardOptions{}, nil)
		time.Sleep(time.Second)
		for _, id := range []string{"a1", "a2"} {
			if got := s.ids(id); !same(got, "1", "3") {
				t.Errorf("%s got %v", id, got)
			}
		}
	})
}

// REP-9, HOOK-7: an envelope that tells of an end is still sent when the shard is given away; it is not when
// the shard is lost.
func TestREP9Farewells(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			top, db := newTopic(store.LogOptions{}), memory.New()
			s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
				if g.attempt < 3 {
					return 500, nil, nil
				}
				return 204, nil, nil
			}}
			e := newEngine(t, Options{Sender: s})
			defer shutdown(t, e)
			admit(t, db, "a", "a1", 0)
			a := top.openLane(t, e, "a", db, ShardOptions{}, nil)
			for _, h := range a.all() {
				h.Terminate(wire.ErrorObject{})
			}
			time.Sleep(time.Second)
			want := 3
			if lost {
				a.Drop()
				want = 1
			} else if err := a.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
			if n := s.count("a1"); n != want {
				t.Errorf("lost %v: %d attempts", lost, n)
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			if len(e.whole.handles) != 0 || len(e.shards) != 1 {
				t.Errorf("left: %d handles, %d shards", len(e.whole.handles), len(e.shards))
			}
		})
	}
}

// REP-10: owners that come, give away and crash at any moment deliver everything to whoever subscribes
// whenever; without a crash nothing is repeated.
func TestREP10OwnersByTurns(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				crashes := seed%2 == 0
				top, db := newTopic(store.LogOptions{}), memory.New()
				s := &script{answer: func(ctx context.Context, g got) (int, http.Header, error) {
					select {
					case <-time.After(time.Duration(rand.IntN(300)) * time.Millisecond):
					case <-ctx.Done():
						return 0, nil, ctx.Err()
					}
					return 204, nil, nil
				}}
				want := map[string][]string{}
				n := 0
				emit := func() {
					id := fmt.Sprintf("evt_%04d", n)
					n++
					if r.IntN(3) == 0 {
						top.emit(t, id, "nobody")
						return
					}
					top.emit(t, id)
					for sub := range want {
						want[sub] = append(want[sub], id)
					}
				}
				for turn := range 6 {
					e := newEngine(t, Options{Sender: s})
					l := top.openLane(t, e, "a", db, ShardOptions{}, nil)
					for range 8 {
						for range r.IntN(5) {
							emit()
						}
						if r.IntN(3) == 0 {
							id := fmt.Sprintf("sub_%d_%d", turn, len(want))
							sub := admit(t, db, "a", id, top.Head())
							want[id] = nil
							emit() // before its owner hears of it
							time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
							top.enter(t, e, l, sub)
						}
						time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
					}
					if crashes {
						l.db.fenced.Store(true)
						l.Drop()
					} else if err := l.Drain(t.Context()); err != nil {
						t.Fatal(err)
					}
					shutdown(t, e)
					for range r.IntN(5) {
						emit()
					}
				}
				e := newEngine(t, Options{Sender: s})
				defer shutdown(t, e)
				top.openLane(t, e, "a", db, ShardOptions{}, nil)
				time.Sleep(time.Minute)
				for sub, ids := range want {
					got := s.ids(sub)
					slices.Sort(got)
					if crashes {
						got = slices.Compact(got)
					}
					if !slices.Equal(got, ids) {
						t.Errorf("%s got %v, want %v", sub, got, ids)
					}
				}
			})
		})
	}
}
