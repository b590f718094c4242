package delivery

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

var wireForbidden = wire.ErrorObject{Code: -32012, Message: "Forbidden"}

// A tapped is a view whose calls can be watched and changed.
type tapped struct {
	*view
	cursor func()                       // before each Cursor
	reread func(f Found, n int64) Found // of each Read of one entry, n from 1
	count  atomic.Int64
}

func (v *tapped) Cursor(p store.Position) *string {
	if v.cursor != nil {
		v.cursor()
	}
	return v.view.Cursor(p)
}

func (v *tapped) Read(ctx context.Context, after store.Position, limit int) (Found, error) {
	f, err := v.view.Read(ctx, after, limit)
	if limit == 1 && v.reread != nil {
		f = v.reread(f, v.count.Add(1))
	}
	return f, err
}

// tap adds a subscription whose reader is watched.
func (t *topic) tap(tb testing.TB, e *Engine, s store.Subscription, v *tapped) *Handle {
	tb.Helper()
	v.view = &view{t: t, id: s.ID}
	t.mu.Lock()
	t.all[v.view] = struct{}{}
	t.mu.Unlock()
	h, err := e.Add(context.Background(), Entry{Subscription: s, Reader: v, Shard: e.whole, Begin: func(h *Handle) {
		t.mu.Lock()
		v.h = h
		t.mu.Unlock()
	}})
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// TestTrap15HeadFirst appends while progress is written down: the mark never covers an occurrence that a
// subscription which is stored as closed is to get. [Shard.collect] carries this: it asks each log's head before it
// looks at the subscriptions (trap 15, SUB-11).
func TestTrap15HeadFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(context.Context, got) (int, http.Header, error) { return 503, nil, nil }}
		db := memory.New()
		e := newEngine(t, Options{Sender: s, FlushInterval: time.Hour}, db)
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		emitted := store.Position(0)
		var err error
		if top.track, err = e.whole.OpenLog(t.Context(), "test", func() store.Position {
			if emitted == 0 {
				emitted = top.emit(t, "evt_1")
			}
			return top.Head()
		}); err != nil {
			t.Fatal(err)
		}
		top.track.Ready()
		r := record("sub_1")
		if _, err := db.PutSubscription(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		h, _ := top.join(t, e, r, false)
		synctest.Wait()
		// Nothing is left to do for it: it is stored as closed.
		if err := db.SaveProgress(t.Context(), []store.Update{{ID: r.ID, Generation: r.Generation}}); err != nil {
			t.Fatal(err)
		}
		e.mu.Lock()
		h.open = false
		e.mu.Unlock()
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		mark, err := db.Mark(t.Context(), "test")
		if err != nil || emitted == 0 {
			t.Fatalf("%d %v", emitted, err)
		}
		if p := stored(t, db)[0].Progress; mark >= emitted && (!p.Open || p.Base >= emitted) {
			t.Errorf("the mark is %d and the progress %+v: a crash now would lose %d", mark, p, emitted)
		}
	})
}

// TestTrap6NothingAfterTheEnd ends a subscription while the body of an attempt is being built: by
// Remove, by Terminate and by its expiry. Nothing but the terminated envelope is sent; the check in
// [Engine.send] carries this (trap 6, SUB-9).
func TestTrap6NothingAfterTheEnd(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(h *Handle)
		gap  bool
		want string
	}{
		{"removed", func(h *Handle) { h.Remove() }, false, ""},
		{"removed with a gap", func(h *Handle) { h.Remove() }, true, ""},
		{"expired", func(*Handle) { time.Sleep(2 * time.Hour) }, false, ""},
		{"expired, the timer being late", func(h *Handle) {
			h.e.mu.Lock()
			defer h.e.mu.Unlock()
			h.expires = instantOf(time.Now())
		}, false, ""},
		{"terminated", func(h *Handle) { h.Terminate(wireForbidden) }, false, "terminated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{}
				e := newEngine(t, Options{Sender: s})
				defer shutdown(t, e)
				top := newTopic(store.LogOptions{})
				var armed atomic.Bool
				v := &tapped{}
				var h *Handle
				v.cursor = func() {
					if armed.CompareAndSwap(true, false) {
						c.end(h)
					}
				}
				h = top.tap(t, e, record("sub_1"), v)
				synctest.Wait()
				if c.gap {
					e.mu.Lock()
					h.addGap()
					armed.Store(true)
					e.schedule(h, time.Now())
					e.mu.Unlock()
				} else {
					armed.Store(true)
					top.emit(t, "evt_1")
				}
				time.Sleep(3 * time.Hour)
				got := ""
				for _, g := range s.all() {
					got += g.kind
					if g.kind == "" {
						got += g.id
					}
				}
				if got != c.want || armed.Load() {
					t.Errorf("sent %q, want %q", got, c.want)
				}
			})
		})
	}
}

// TestHOOK5CutOffIsNoFailure cuts off an attempt by a shutdown whose time is over: that says nothing
// about the endpoint. The first case in [Engine.send] and attemptResult.aborted in [Engine.applyResult] carry
// this.
func TestHOOK5CutOffIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(ctx context.Context, _ got) (int, http.Header, error) {
			<-ctx.Done()
			return 0, nil, ctx.Err()
		}}
		db := memory.New()
		e := newEngine(t, Options{Sender: s}, db)
		top := newTopic(store.LogOptions{})
		r := record("sub_1")
		if _, err := db.PutSubscription(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		h, _ := top.join(t, e, r, false)
		top.emit(t, "evt_1")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := e.Shutdown(ctx); err == nil {
			t.Error("the shutdown was not cut short")
		}
		stored, _, err := db.Subscription(t.Context(), r.ID)
		if err != nil || !stored.Health.FailedSince.IsZero() || stored.Health.LastError != "" || h.stats != nil {
			t.Errorf("stored %+v (%v)", stored.Health, err)
		}
		if stored.Progress.Base != 0 {
			t.Errorf("settled up to %d", stored.Progress.Base)
		}
	})
}

// TestTrap1FilteredSince retries an occurrence that does not concern the subscription any more: it is
// settled, looked for once, and the watermark passes it. The end of [Engine.rereadItem] carries this
// (trap 1).
func TestTrap1FilteredSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(context.Context, got) (int, http.Header, error) { return 503, nil, nil }}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		v := &tapped{reread: func(f Found, n int64) Found {
			if n <= 20 { // then again, so that a loop ends
				f.Items = nil
			}
			return f
		}}
		h := top.tap(t, e, record("sub_1"), v)
		top.emit(t, "evt_1")
		time.Sleep(time.Minute)
		if n := v.count.Load(); n != 1 || s.count("sub_1") != 1 || *h.Watermark() != "c1" {
			t.Errorf("%d rereads, %d attempts, watermark %s", n, s.count("sub_1"), *h.Watermark())
		}
	})
}

// TestTrap13EnvelopesWhileSuspended suspends a subscription while a gap envelope is being retried: the
// suspended time is none of its retry window either. The second loop of [Handle.resume] carries this
// (trap 13, HOOK-7).
func TestTrap13EnvelopesWhileSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(context.Context, got) (int, http.Header, error) { return 503, nil, nil }}
		e := newEngine(t, Options{Sender: s, Suspend: Suspension{Min: 3, Span: -1}})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		r := record("sub_1")
		r.ExpiresAt = time.Now().Add(24 * time.Hour)
		h, _ := top.join(t, e, r, false)
		h.Gap()
		top.emit(t, "evt_1")
		time.Sleep(time.Minute) // attempts at 0, 5 s and 35 s suspend it
		gaps := func() (n int) {
			for _, g := range s.all() {
				if g.kind == "gap" {
					n++
				}
			}
			return n
		}
		before := gaps()
		if h.Status().Active || before == 0 || before > 3 {
			t.Fatalf("%+v after %d gap attempts", h.Status(), before)
		}
		time.Sleep(10 * time.Hour)
		if n := gaps(); n != before {
			t.Errorf("%d gap attempts while suspended", n-before)
		}
		h.Resume()
		time.Sleep(time.Hour)
		if n := gaps(); n != 5 {
			t.Errorf("%d gap attempts in all, %d before the suspension; want 5", n, before)
		}
	})
}

// TestHOOK3AbandonedIsLogged tells the operator's log the id of an occurrence that was given up: after
// its last attempt, and after a final answer. Each line about a failure has its category and the endpoint's status.
func TestHOOK3AbandonedIsLogged(t *testing.T) {
	for status, attempts := range map[int]int{500: 2, 410: 1} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			s := &script{answer: func(context.Context, got) (int, http.Header, error) { return status, nil, nil }}
			e := newEngine(t, Options{Sender: s, Schedule: []time.Duration{0, time.Second}, Suspend: Suspension{Min: attempts, Span: -1}, NoExpiryRemoval: time.Hour,
				Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
			top := newTopic(store.LogOptions{})
			sub := record("sub_1")
			sub.ExpiresAt = time.Time{}
			top.join(t, e, sub, false)
			top.emit(t, "evt_77")
			time.Sleep(2 * time.Hour)
			shutdown(t, e)
			failure := fmt.Sprintf("category=http_%dxx status=%d", status/100, status)
			for _, want := range []string{`msg="webhook attempt failed" subscription=sub_1 event=test attempt=1 type="" ` + failure,
				fmt.Sprintf(`msg="webhook delivery abandoned" subscription=sub_1 event=test eventId=evt_77 attempts=%d %s`, attempts, failure),
				`msg="webhook subscription suspended" subscription=sub_1 event=test ` + failure,
				`msg="webhook subscription without expiry removed" subscription=sub_1 event=test ` + failure} {
				if !strings.Contains(log.String(), want) {
					t.Errorf("%q lacks %q", log.String(), want)
				}
			}
		})
	}
}

// TestTrap1SpansAboveBase keeps stored spans above the base when the log was read into one of them
// ([Watermark.Spans], trap 1).
func TestTrap1SpansAboveBase(t *testing.T) {
	w := NewWatermark(store.Progress{Base: 3, Settled: []store.Span{{From: 5, To: 9}}})
	w.Pass(7)
	if got := w.Spans(); w.Base() != 7 || len(got) != 1 || got[0] != (store.Span{From: 8, To: 9}) {
		t.Errorf("base %d, spans %v", w.Base(), got)
	}
}
