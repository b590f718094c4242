package delivery

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// A moody endpoint answers with the status that is set.
func moody() (*script, *atomic.Int64) {
	status := new(atomic.Int64)
	status.Store(503)
	return &script{answer: func(context.Context, got) (int, http.Header, error) { return int(status.Load()), nil, nil }}, status
}

// again sends the event of the last kept attempt once more by hand.
func again(t *testing.T, e *Engine, db *memory.Store, h *Handle) (operator.Attempt, error) {
	t.Helper()
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h.SendAgain(t.Context(), kept(t, db)[0])
}

// E12: a retry that is due is the attempt that an operator asks for. One delivery is made, every attempt has
// a number of its own, and the record says who asked for it.
func TestSendAgainTakesTheRetry(t *testing.T) {
	for _, c := range []struct {
		name    string
		byHand  int64 // the answer
		numbers []int // of all attempts, the latest first
		seconds []int // when they were made
	}{
		{"accepted", 204, []int{2, 1}, []int{3, 0}},
		{"refused", 503, []int{3, 2, 1}, []int{13, 3, 0}},
		{"refused for good", 410, []int{2, 1}, []int{3, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, status := moody()
				e, db, tp, h := attempting(t, s, Options{Schedule: []time.Duration{0, 10 * time.Second, 10 * time.Second}})
				began := time.Now()
				tp.emit(t, "evt_1")
				time.Sleep(3 * time.Second)
				status.Store(c.byHand)
				made, err := again(t, e, db, h)
				if err != nil || made.Number != 2 || made.Status != int(c.byHand) || made.AskedBy == "" {
					t.Fatalf("%+v, %v", made, err)
				}
				if next := began.Add(13 * time.Second); c.byHand == 503 && !made.NextAt.Equal(next) || c.byHand != 503 && !made.NextAt.IsZero() {
					t.Errorf("the next one is due at %s", made.NextAt)
				}
				time.Sleep(time.Minute)
				all := kept(t, db)
				if len(all) != len(c.numbers) || len(s.all()) != len(c.numbers) {
					t.Fatalf("%d attempts are kept, %d were made", len(all), len(s.all()))
				}
				for i, a := range all {
					if a.Number != c.numbers[i] || a.At.Sub(began) != time.Duration(c.seconds[i])*time.Second || a.AskedBy != "" != (a.Number == 2) {
						t.Errorf("%+v", a)
					}
				}
				if p := h.Progress(); p.Base != 1 {
					t.Errorf("it is not settled: %+v", p)
				}
				if found := h.Status(); c.byHand == 204 && (!found.FailedSince.IsZero() || found.LastDeliveryAt.IsZero()) {
					t.Errorf("%+v", found)
				}
				// Of what is settled it is one more attempt.
				status.Store(204)
				if made, err := again(t, e, db, h); err != nil || made.Number != c.numbers[0]+1 || made.AskedBy == "" {
					t.Errorf("%+v, %v", made, err)
				}
				time.Sleep(time.Minute)
				if len(s.all()) != len(c.numbers)+1 {
					t.Errorf("%d requests", len(s.all()))
				}
				shutdown(t, e)
			})
		})
	}
}

// E12: one attempt at an occurrence is made at a time, by whomever.
func TestSendAgainWhileUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, status := moody()
		answer := s.answer
		s.answer = func(ctx context.Context, g got) (int, http.Header, error) {
			time.Sleep(2 * time.Second)
			return answer(ctx, g)
		}
		e, db, tp, h := attempting(t, s, Options{Schedule: []time.Duration{0, 10 * time.Second, 10 * time.Second}})
		tp.emit(t, "evt_1")
		time.Sleep(11 * time.Second) // the second attempt has begun
		if _, err := again(t, e, db, h); !errors.Is(err, ErrUnderWay) {
			t.Errorf("beside a retry: %v", err)
		}
		time.Sleep(2 * time.Second)
		status.Store(204)
		for range 2 { // of what is due, then of what is settled
			first := make(chan error, 1)
			go func() {
				_, err := again(t, e, db, h)
				first <- err
			}()
			time.Sleep(time.Second)
			if _, err := again(t, e, db, h); !errors.Is(err, ErrUnderWay) {
				t.Errorf("beside one by hand: %v", err)
			}
			if err := <-first; err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute)
		numbers := map[int]bool{}
		for _, a := range kept(t, db) {
			numbers[a.Number] = true
		}
		if len(numbers) != 4 || len(s.all()) != 4 {
			t.Errorf("numbers %v of %d requests", numbers, len(s.all()))
		}
		shutdown(t, e)
	})
}

// E12: while an operator holds deliveries back, what is accepted by hand is not sent once more afterwards, and
// what is refused waits as it did, however often.
func TestSendAgainWhilePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, status := moody()
		e, db, tp, h := attempting(t, s, Options{Schedule: []time.Duration{0, 10 * time.Second}})
		tp.emit(t, "evt_1")
		time.Sleep(time.Second)
		h.Pause(time.Now())
		before := h.Status()
		for n := range 5 {
			if made, err := again(t, e, db, h); err != nil || made.Number != n+2 || made.Category == "" {
				t.Fatalf("%+v, %v", made, err)
			}
			time.Sleep(time.Second)
		}
		if after := h.Status(); after != before {
			t.Errorf("%+v, was %+v", after, before)
		}
		if p := h.Progress(); p.Base != 0 {
			t.Fatalf("given up while nothing is sent: %+v", p)
		}
		status.Store(204)
		if _, err := again(t, e, db, h); err != nil {
			t.Fatal(err)
		}
		h.Unpause()
		time.Sleep(time.Minute)
		if n := len(s.all()); n != 7 || h.Progress().Base != 1 {
			t.Errorf("%d requests, %+v", n, h.Progress())
		}
		shutdown(t, e)
	})
}

// E12: the same after a restart, when what waits has not been read yet. Another restart forgets nothing.
func TestSendAgainPausedRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, status := moody()
		db, tp := memory.New(), newTopic(store.LogOptions{})
		sub := record("a")
		if _, err := db.PutSubscription(t.Context(), sub); err != nil {
			t.Fatal(err)
		}
		start := func(restored bool) (*Engine, *Handle) {
			e := newEngine(t, Options{Sender: s, Attempts: db, Schedule: []time.Duration{0, 10 * time.Second, 10 * time.Second}}, db)
			var err error
			if tp.track, err = e.whole.OpenLog(t.Context(), "test", tp.Head); err != nil {
				t.Fatal(err)
			}
			found, _, err := db.Subscription(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			if restored {
				found.PausedAt = time.Now()
			}
			h, _ := tp.join(t, e, found, restored)
			tp.track.Ready()
			return e, h
		}
		e, _ := start(false)
		tp.emit(t, "evt_1")
		tp.emit(t, "evt_2")
		time.Sleep(time.Second)
		shutdown(t, e)
		e, h := start(true)
		status.Store(204)
		if _, err := again(t, e, db, h); err != nil {
			t.Fatal(err)
		}
		again := kept(t, db)[0].EventID
		shutdown(t, e)
		e, h = start(true)
		before := len(s.all())
		h.Unpause()
		time.Sleep(time.Minute)
		if rest := s.all()[before:]; len(rest) != 1 || rest[0].id == again {
			t.Errorf("%d requests after the end of the pause, %s was sent by hand", len(rest), again)
		}
		if p := h.Progress(); p.Base != 2 {
			t.Errorf("%+v", p)
		}
		shutdown(t, e)
	})
}

// E12: an attempt by hand that takes the place of a retry has its consequences, the end of a subscription
// without expiry as well.
func TestSendAgainEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := moody()
		var why []End
		o := Options{Schedule: []time.Duration{0, time.Hour}, RetryWindow: 2 * time.Hour, NoExpiryRemoval: 10 * time.Minute, Ended: func(_ *Handle, e End) { why = append(why, e) }}
		e, db, tp, h := attempting(t, s, o)
		sub := record("a")
		sub.ExpiresAt = time.Time{}
		h.Refresh(sub)
		tp.emit(t, "evt_1")
		time.Sleep(20 * time.Minute)
		if made, err := again(t, e, db, h); err != nil || made.Number != 2 || made.AskedBy == "" {
			t.Errorf("%+v, %v", made, err)
		}
		if len(why) != 1 || why[0] != Failed {
			t.Errorf("%v", why)
		}
		time.Sleep(time.Second)
		if all := s.all(); all[len(all)-1].kind != wire.EnvelopeTerminated {
			t.Errorf("the last request is %+v", all[len(all)-1])
		}
		shutdown(t, e)
	})
}

// A delivery that was under way when a subscription without expiry was suspended, and that arrives, leaves the
// engine at rest: its time to give up begins anew.
func TestHOOK5AcceptedAfterSuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(ctx context.Context, g got) (int, http.Header, error) {
			if g.id == "late" {
				time.Sleep(5 * time.Second)
				return 204, nil, nil
			}
			return 503, nil, nil
		}}
		var ended atomic.Int32
		e := newEngine(t, Options{Sender: s, Suspend: Suspension{Rate: 0.5, Min: 1, Window: time.Hour, Span: -1}, NoExpiryRemoval: time.Hour, Ended: func(*Handle, End) { ended.Add(1) }})
		tp := newTopic(store.LogOptions{})
		sub := record("a")
		sub.ExpiresAt = time.Time{}
		h, _ := tp.join(t, e, sub, false)
		tp.emit(t, "late")
		tp.emit(t, "bad")
		time.Sleep(30 * time.Minute)
		if h.Status().Active || ended.Load() != 0 {
			t.Fatalf("%+v, ended %d times", h.Status(), ended.Load())
		}
		time.Sleep(40 * time.Minute)
		if ended.Load() != 1 {
			t.Errorf("ended %d times", ended.Load())
		}
		shutdown(t, e)
	})
}
