package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/actor"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/ring"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// controls are the requests that carried an envelope.
func (s *script) controls() []got {
	return slices.DeleteFunc(s.all(), func(g got) bool { return g.kind == "" })
}

// TestHOOK7Gap signals entries that retention took away before they were read: once, with the
// cursor from which delivery goes on, after the caller was told (D7).
func TestHOOK7Gap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int32
		// Events take a second, so that the envelope is written before any of them is settled: it has the cursor of
		// then.
		s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
			if g.kind == "" {
				time.Sleep(time.Second)
			}
			return http.StatusNoContent, nil, nil
		}}
		e := newEngine(t, Options{Sender: s, Gapped: func(h *Handle) {
			if *h.Watermark() == "c0" {
				told.Add(1)
			}
		}})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{MaxCount: 3})
		r := record("sub_1")
		for i := range 10 {
			top.emit(t, fmt.Sprint("evt_", i))
		}
		h, _ := top.join(t, e, r, false) // from position 0: seven are gone
		time.Sleep(time.Minute)
		var ids []string
		for _, g := range s.all() {
			if g.kind == "" {
				ids = append(ids, g.id)
			}
		}
		slices.Sort(ids)
		if want := []string{"evt_7", "evt_8", "evt_9"}; !slices.Equal(ids, want) {
			t.Errorf("delivered %v", ids)
		}
		cs := s.controls()
		if len(cs) != 1 || !strings.HasPrefix(cs[0].id, "msg_gap_") || string(cs[0].body) != `{"type":"gap","cursor":"c7"}` {
			t.Fatalf("envelopes %+v", cs)
		}
		keys, _ := ring.Of(r.Secrets)
		if _, err := (webhook.Verifier{Secrets: []webhook.Secret{keys[0].Secret}}).Verify(cs[0].header, cs[0].body); err != nil || cs[0].sub != "sub_1" {
			t.Errorf("%v, %v", err, cs[0].header)
		}
		if told.Load() != 1 || !h.Truncated(true) || h.Truncated(false) {
			t.Errorf("told %d times", told.Load())
		}
	})
}

// TestTrap15ParkedNeverGaps never sends a gap to a parked subscription, whatever retention takes away
// (design: a parked reader never gaps).
func TestTrap15ParkedNeverGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{MaxCount: 3})
		h, _ := top.join(t, e, record("sub_1"), false)
		time.Sleep(time.Second)
		for i := range 100 {
			top.emit(t, fmt.Sprint("evt_", i), "nobody")
		}
		top.emit(t, "evt_x", "sub_1")
		time.Sleep(time.Second)
		if gots := s.all(); len(gots) != 1 || gots[0].cursor != "c101" || top.reads.Load() != 1 {
			t.Errorf("%+v, %d entries read", gots, top.reads.Load())
		}
		top.emit(t, "evt_y", "nobody")
		if c := *h.Watermark(); c != "c102" {
			t.Errorf("watermark %s", c)
		}
	})
}

// TestHOOK7Retries retries envelopes like events under one unchanged webhook-id, and nothing of it
// shows in health or watermark (D7).
func TestHOOK7Retries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
			if g.kind != "" {
				return 500, nil, nil
			}
			return 200, nil, nil
		}}
		e := newEngine(t, Options{Sender: s, Suspend: Suspension{Min: 2, Rate: 0.1, Span: -1}, NoExpiryRemoval: time.Second})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		r := record("sub_1")
		r.ExpiresAt = time.Time{}
		h, _ := top.join(t, e, r, false)
		synctest.Wait()
		start := time.Now()
		h.HoldUntil(start.Add(time.Second))
		h.Gap()
		h.Gap() // nobody has seen the first: one envelope tells of both
		h.HoldUntil(start)
		time.Sleep(30 * time.Minute)
		cs := s.controls()
		if ds := offsets(start, cs); !slices.Equal(ds, []time.Duration{0, 5 * time.Second, 35 * time.Second, 155 * time.Second, 755 * time.Second}) {
			t.Errorf("attempts at %v", ds)
		}
		for _, g := range cs {
			if g.id != cs[0].id {
				t.Errorf("webhook-id %s became %s", cs[0].id, g.id)
			}
		}
		if st := h.Status(); !st.Active || st.LastError != "" || !st.FailedSince.IsZero() || *h.Watermark() != "c0" {
			t.Errorf("%+v", st)
		}
		top.emit(t, "evt_1")
		time.Sleep(time.Second)
		if s.count("sub_1") != 6 {
			t.Error("an event does not follow")
		}
	})
}

// TestHOOK7GapOfBefore has a subscription told at once of what it lost before it was handed over.
func TestHOOK7GapOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		top.emit(t, "evt_1")
		r := record("sub_1")
		r.Truncated = true
		v := &view{t: top, id: r.ID}
		h, err := e.Add(t.Context(), Entry{Subscription: r, Reader: v, Shard: e.whole, Gap: true, Begin: func(h *Handle) { v.h = h }})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if all, told := s.all(), s.controls(); len(all) != 2 || len(told) != 1 || told[0].kind != wire.EnvelopeGap {
			t.Errorf("got %+v", all)
		}
		if !h.Truncated(false) {
			t.Error("the next answer does not tell of it")
		}
	})
}

// TestHOOK7GapOutlivesOwner gives a subscription away before its receiver could be told of what it lost: what is stored
// stays in front of the gap, so that the next owner finds it (D7).
func TestHOOK7GapOutlivesOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(context.Context, got) (int, http.Header, error) { return 204, nil, nil }}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		top, db := newTopic(store.LogOptions{}), memory.New()
		top.emit(t, "evt_1")
		r := record("sub_1")
		r.ExpiresAt, r.Progress = time.Time{}, store.Progress{Epoch: 1, Base: 5}
		if _, err := db.PutSubscription(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		stored := func() uint64 {
			t.Helper()
			now, ok, err := db.Subscription(t.Context(), r.ID)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			return now.Progress.Epoch
		}
		r.Progress, r.Truncated = store.Progress{Epoch: 2}, true // as the log is since it was put back
		own := func(hold time.Time) *Shard {
			shard := e.NewShard(ShardOptions{Store: &ownedStore{Store: db}})
			v := &view{t: top, id: r.ID}
			if _, err := e.Add(t.Context(), Entry{Subscription: r, Reader: v, Shard: shard, Gap: true, Hold: hold, Begin: func(h *Handle) { v.h = h }}); err != nil {
				t.Fatal(err)
			}
			return shard
		}
		shard := own(time.Now().Add(10 * time.Second))
		time.Sleep(5 * time.Second)
		if err := shard.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, epoch := len(s.controls()), stored(); n != 0 || epoch != 1 {
			t.Fatalf("%d envelopes, and progress of epoch %d is stored: nobody will tell of the gap", n, epoch)
		}
		shard = own(time.Time{})
		time.Sleep(5 * time.Second)
		if told, epoch := s.controls(), stored(); len(told) != 1 || told[0].kind != wire.EnvelopeGap || epoch != 2 {
			t.Errorf("%d envelopes, progress of epoch %d is stored", len(told), epoch)
		}
		if err := shard.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestHOOK7GapsDoNotPile keeps one envelope waiting for its retry, however many gaps there are;
// each gap after an attempt has a webhook-id of its own, for receivers drop repetitions.
func TestHOOK7GapsDoNotPile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: refuse(500)}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		r := record("sub_1")
		r.ExpiresAt = time.Time{}
		h, _ := top.join(t, e, r, false)
		for range 100 {
			h.Gap()
			time.Sleep(time.Second)
		}
		ids := map[string]bool{}
		for _, g := range s.controls() {
			ids[g.id] = true
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if len(h.controls) != 1 || len(ids) != 100 {
			t.Errorf("%d envelopes wait, %d were sent", len(h.controls), len(ids))
		}
	})
}

// TestHOOK7Terminated ends deliveries at once and retries its envelope, through a suspension too.
func TestHOOK7Terminated(t *testing.T) {
	for _, suspended := range []bool{false, true} {
		t.Run(fmt.Sprint("suspended ", suspended), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
					if g.kind == wire.EnvelopeTerminated && g.attempt == 2 {
						return 200, nil, nil
					}
					return 500, nil, nil
				}}
				e := newEngine(t, Options{Sender: s})
				defer shutdown(t, e)
				top := newTopic(store.LogOptions{})
				r := record("sub_1")
				r.Health.Suspended = suspended
				h, v := top.join(t, e, r, false)
				top.emit(t, "evt_1")
				time.Sleep(time.Second)
				n := len(s.all())
				h.Terminate(wire.ErrorObject{Code: -32012, Message: "Forbidden"})
				h.Terminate(wire.ErrorObject{Code: -1, Message: "again"})
				top.emit(t, "evt_2")
				time.Sleep(time.Hour)
				gots := s.all()[n:]
				if len(gots) != 2 || gots[0].id != gots[1].id || !strings.HasPrefix(gots[0].id, "msg_terminated_") ||
					string(gots[0].body) != `{"type":"terminated","error":{"code":-32012,"message":"Forbidden"}}` {
					t.Errorf("%+v", gots)
				}
				if !v.closed.Load() || h.Status().Active {
					t.Error("it lives on")
				}
				e.mu.Lock()
				if len(e.whole.handles) != 0 || len(e.hosts) != 0 || len(e.due.queue) != 0 {
					t.Errorf("left behind: %d handles, %d hosts, %d timers", len(e.whole.handles), len(e.hosts), len(e.due.queue))
				}
				e.mu.Unlock()
			})
		})
	}
}

// TestOCC4Gap turns an occurrence that cannot be encoded into a gap and goes on.
func TestOCC4Gap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		h, v := top.join(t, e, record("sub_1"), false)
		v.bad = func(e store.Entry) bool { return e.EventID == "evt_2" }
		time.Sleep(time.Second)
		for i := range 4 {
			top.emit(t, fmt.Sprint("evt_", i))
		}
		top.emit(t, "no header\n")
		time.Sleep(time.Second)
		if cs := s.controls(); len(cs) == 0 || len(cs) > 2 || s.count("sub_1")-len(cs) != 3 || *h.Watermark() != "c5" || !h.Truncated(false) {
			t.Errorf("%d envelopes of %d requests, watermark %s", len(cs), s.count("sub_1"), *h.Watermark())
		}
	})
}

// TestHOOK7RetriedEntryGone signals a gap when retention took an entry that waits for its retry.
func TestHOOK7RetriedEntryGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
			if g.id == "evt_0" {
				return 500, nil, nil
			}
			return 200, nil, nil
		}}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{MaxCount: 3})
		h, _ := top.join(t, e, record("sub_1"), false)
		for i := range 10 {
			top.emit(t, fmt.Sprint("evt_", i))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Hour - time.Minute)
		if cs := s.controls(); len(cs) != 1 || string(cs[0].body) != `{"type":"gap","cursor":"c10"}` || *h.Watermark() != "c10" {
			t.Errorf("%+v, watermark %s", cs, *h.Watermark())
		}
	})
}

// TestHOOK7GapOverRetries loses, with what was not read, also what waits for a retry below it.
func TestHOOK7GapOverRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
			if g.id == "evt_0" || g.id == "evt_1" || g.id == "evt_2" {
				return 503, http.Header{"Retry-After": {map[string]string{"evt_0": "5", "evt_1": "60", "evt_2": "60"}[g.id]}}, nil
			}
			return 200, nil, nil
		}}
		e := newEngine(t, Options{Sender: s, MaxUnsettled: 3})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{MaxCount: 4})
		h, _ := top.join(t, e, record("sub_1"), false)
		for i := range 3 {
			top.emit(t, fmt.Sprint("evt_", i))
		}
		time.Sleep(time.Second)
		for i := range 17 {
			top.emit(t, fmt.Sprint("evt_", i+3))
		}
		time.Sleep(10 * time.Second)
		if *h.Watermark() != "c20" || len(h.Progress().Settled) != 0 || len(s.controls()) == 0 || len(s.controls()) > 2 {
			t.Errorf("watermark %s, %d gaps", *h.Watermark(), len(s.controls()))
		}
		delivered := map[string]bool{}
		for _, g := range s.all() {
			delivered[g.id] = true
		}
		for i := 16; i < 20; i++ {
			if !delivered[fmt.Sprint("evt_", i)] {
				t.Errorf("evt_%d is missing", i)
			}
		}
	})
}

// TestLogFails reads again after a pause while the log fails, for retries as well.
func TestLogFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
			if g.attempt == 1 {
				return 500, nil, nil
			}
			return 200, nil, nil
		}}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		h, v := top.join(t, e, record("sub_1"), false)
		time.Sleep(time.Second)
		top.emit(t, "evt_0")
		time.Sleep(time.Second)
		v.fail.Store(true)
		top.emit(t, "evt_1")
		time.Sleep(time.Minute)
		if n := s.count("sub_1"); n != 1 {
			t.Fatalf("%d attempts", n)
		}
		if n := v.fails.Load(); n > 5+60 {
			t.Errorf("%d reads of a log that fails", n)
		}
		v.fail.Store(false)
		time.Sleep(time.Minute)
		if n := s.count("sub_1"); n != 4 || *h.Watermark() != "c2" {
			t.Errorf("%d attempts, watermark %s", n, *h.Watermark())
		}
	})
}

// TestSRV8Rewind delivers again from a position, while attempts are under way.
func TestSRV8Rewind(t *testing.T) {
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprint("busy ", busy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
					time.Sleep(time.Second)
					return 200, nil, nil
				}}
				e := newEngine(t, Options{Sender: s})
				defer shutdown(t, e)
				top := newTopic(store.LogOptions{})
				h, _ := top.join(t, e, record("sub_1"), false)
				for i := range 6 {
					top.emit(t, fmt.Sprint("evt_", i))
				}
				if busy {
					time.Sleep(500 * time.Millisecond)
				} else {
					time.Sleep(time.Minute)
				}
				n := len(s.all())
				if err := h.Rewind(t.Context(), 2, 0, unstored); err != nil {
					t.Fatal(err)
				}
				if c := *h.Watermark(); c != "c2" {
					t.Errorf("watermark %s after the rewind", c)
				}
				time.Sleep(time.Minute)
				if got := len(s.all()) - n; got != 4 || *h.Watermark() != "c6" {
					t.Errorf("%d deliveries after the rewind, watermark %s", got, *h.Watermark())
				}
				h.Remove()
				if err := h.Rewind(t.Context(), 0, 0, unstored); err == nil {
					t.Error("rewound after the end")
				}
			})
		})
	}
}

// SRV-8: a replay with an end delivers what lies before it and nothing else, also when the process ends in the middle
// of it; what was waiting behind the end goes on. The attempts that were asked for say by whom.
func TestSRV8RewindWithAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := map[string]bool{"evt_7": true}
		var mu sync.Mutex
		s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			if refuse[g.id] {
				return 500, nil, nil
			}
			return 200, nil, nil
		}}
		db := memory.New()
		start := func() *Engine {
			return newEngine(t, Options{Sender: s, Attempts: db, PerSubscription: 1, Schedule: []time.Duration{0, time.Minute, time.Hour}}, db)
		}
		e := start()
		top := newTopic(store.LogOptions{})
		top.track, _ = e.whole.OpenLog(t.Context(), "test", top.Head)
		top.track.Ready()
		r := record("sub_1")
		if _, err := db.PutSubscription(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		h, _ := top.join(t, e, r, false)
		for i := range 7 {
			top.emit(t, fmt.Sprint("evt_", i))
		}
		time.Sleep(30 * time.Second)
		top.emit(t, "evt_7") // refused, and due again in a minute
		time.Sleep(30 * time.Second)
		came := 0
		since := func() (ids []string) {
			for _, g := range s.all()[came:] {
				ids = append(ids, g.id)
			}
			came += len(ids)
			return ids
		}
		since()
		if err := h.Rewind(actor.With(t.Context(), "olga"), 2, 5, unstored); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond) // evt_2 has come again, evt_3 is under way
		shutdown(t, e)
		first := since()
		e = start()
		defer shutdown(t, e)
		top.track, _ = e.whole.OpenLog(t.Context(), "test", top.Head)
		stored, ok, err := db.Subscription(t.Context(), "sub_1")
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		h, _ = top.join(t, e, stored, true)
		top.track.Ready()
		mu.Lock()
		clear(refuse)
		mu.Unlock()
		time.Sleep(10 * time.Minute)
		all := append(first, since()...)
		want := []string{"evt_2", "evt_3", "evt_4", "evt_7"}
		if !slices.Equal(slices.Compact(all), want) || *h.Watermark() != "c8" {
			t.Errorf("delivered again %q, watermark %s", all, *h.Watermark())
		}
		made, err := db.Attempts(t.Context(), "sub_1", 100)
		if err != nil {
			t.Fatal(err)
		}
		asked := map[string]int{}
		for _, a := range made {
			if a.AskedBy != "" {
				asked[a.AskedBy+" "+a.EventID]++
			}
		}
		if asked["olga evt_2"] != 1 || asked["olga evt_7"]+asked["olga evt_5"]+asked["olga evt_0"] != 0 {
			t.Errorf("asked for: %v", asked)
		}
	})
}

// SRV-8: a replay of many occurrences that is ended in the middle delivers nothing more of them, and nothing else is
// lost or comes twice: what was waiting before it, and what happened meanwhile.
func TestSRV8EndReplay(t *testing.T) {
	const many = 100_000
	for _, last := range []store.Position{0, many - 10} {
		t.Run(fmt.Sprint("until ", last), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var refuse atomic.Bool
				refuse.Store(true)
				s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
					time.Sleep(time.Second)
					if g.id == "late" && refuse.Load() {
						return 500, nil, nil
					}
					return 200, nil, nil
				}}
				e := newEngine(t, Options{Sender: s, PerSubscription: 2, Schedule: []time.Duration{0, 5 * time.Minute, time.Hour}})
				defer shutdown(t, e)
				top := newTopic(store.LogOptions{})
				for i := range many {
					top.emit(t, fmt.Sprint("evt_", i))
				}
				r := record("sub_1")
				r.Progress.Base = many
				h, _ := top.join(t, e, r, false)
				if err := h.EndReplay(t.Context()); err != nil {
					t.Errorf("without a replay: %v", err)
				}
				top.emit(t, "late") // refused, and due again in five minutes
				time.Sleep(10 * time.Second)
				n := len(s.all())
				if err := h.Rewind(actor.With(t.Context(), "olga"), 2, last, unstored); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10500 * time.Millisecond)
				if r := h.Replaying(); r == nil || r.By != "olga" || r.Last-h.Base() < many-50 || r.Last-h.Base() > many {
					t.Errorf("under way: %+v", r)
				}
				if err := h.Rewind(actor.With(t.Context(), "ivan"), 1, last, unstored); err != nil { // another one, which is ended with it
					t.Fatal(err)
				}
				top.emit(t, "meanwhile")
				time.Sleep(10500 * time.Millisecond)
				if err := h.EndReplay(t.Context()); err != nil {
					t.Fatal(err)
				}
				if r := h.Replaying(); r != nil {
					t.Errorf("ended: %+v", r)
				}
				refuse.Store(false)
				time.Sleep(10 * time.Minute)
				top.emit(t, "after")
				time.Sleep(10 * time.Second)
				came := map[string]int{}
				for _, g := range s.all()[n:] {
					came[g.id]++
				}
				if len(came) < 20 || len(came) > 60 || came["late"] != 1 || came["meanwhile"] != 1 || came["after"] != 1 || came["evt_1"] != 1 {
					t.Errorf("%d came: %v", len(came), came)
				}
				if c := *h.Watermark(); c != fmt.Sprint("c", many+3) {
					t.Errorf("watermark %s", c)
				}
				if err := h.EndReplay(t.Context()); err != nil {
					t.Errorf("again: %v", err)
				}
				h.Remove()
				if err := h.EndReplay(t.Context()); !errors.Is(err, ErrClosed) {
					t.Errorf("after its end: %v", err)
				}
			})
		})
	}
}

// HOOK-5, HOOK-8 (M15): the answer to an attempt at what was forgotten meanwhile, from a sender that is deaf to its
// context, counts nothing.
func TestHOOK8ForgottenAnswerCountsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		s := &script{answer: func(context.Context, got) (int, http.Header, error) {
			if n.Add(1) == 1 {
				time.Sleep(time.Minute)
				return 500, nil, nil
			}
			return 200, nil, nil
		}}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		h, _ := top.join(t, e, record("sub_1"), false)
		top.emit(t, "evt_1")
		synctest.Wait()
		if err := h.Rewind(t.Context(), 1, 0, unstored); err != nil { // behind it
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if st := h.Status(); n.Load() != 1 || !st.Active || st.LastError != "" || !st.FailedSince.IsZero() {
			t.Errorf("after %d attempts: %+v", n.Load(), st)
		}
	})
}
