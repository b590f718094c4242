package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/ring"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

func refuse(status int) func(context.Context, got) (int, http.Header, error) {
	return func(context.Context, got) (int, http.Header, error) { return status, nil, nil }
}

// TestTrap6RefreshAgainstExpiry refreshes just before, at and just after the expiry: before it the
// subscription lives on and keeps its retries, from it on only subscribing anew helps (SUB-5).
// [Handle.Refresh] and Handle.isExpired carry it.
func TestTrap6RefreshAgainstExpiry(t *testing.T) {
	for _, c := range []struct {
		offset time.Duration
		want   bool
	}{{-1, true}, {0, false}, {1, false}, {-time.Second, true}, {time.Second, false}} {
		t.Run(c.offset.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ended atomic.Int32
				s := &script{answer: refuse(500)}
				e := newEngine(t, Options{Sender: s, Ended: func(h *Handle, why End) {
					if why == Expired && h.ID() == "sub_1" && h.Generation() == 1 && h.Event() == "test" {
						ended.Add(1)
					}
					h.Remove()
				}})
				defer shutdown(t, e)
				top := newTopic(store.LogOptions{})
				r := record("sub_1")
				r.ExpiresAt = time.Now().Add(time.Minute)
				h, v := top.join(t, e, r, false)
				top.emit(t, "evt_1") // at 0, 5, 35, 155, 755 s
				time.Sleep(time.Minute + c.offset)
				r.ExpiresAt = time.Now().Add(time.Hour)
				if _, ok := h.Refresh(r); ok != c.want {
					t.Fatalf("Refresh gives %v", ok)
				}
				time.Sleep(30 * time.Minute)
				n, want := s.count("sub_1"), 3
				if c.want {
					want = 5
				}
				if n != want || (ended.Load() == 1) == c.want || v.closed.Load() == c.want || h.Status().Active != c.want {
					t.Errorf("%d attempts, want %d; ended %d times", n, want, ended.Load())
				}
				time.Sleep(2 * time.Hour)
				if ended.Load() != 1 || !v.closed.Load() {
					t.Errorf("ended %d times", ended.Load())
				}
			})
		})
	}
}

// TestExtendAfterExpiry extends a subscription that expired here and was refreshed elsewhere: it keeps what it
// has settled and what it retries, and nothing is attempted in between.
// Engine.handleTimer and Handle.Extend carry it.
func TestExtendAfterExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: refuse(500)}
		told := 0
		e := newEngine(t, Options{Sender: s, Ended: func(h *Handle, why End) {
			told++
			time.Sleep(10 * time.Minute) // who is told asks a slow store
			h.Extend(time.Now().Add(time.Hour))
		}})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		r := record("sub_1")
		r.ExpiresAt = time.Now().Add(time.Minute)
		h, _ := top.join(t, e, r, false)
		top.emit(t, "evt_1") // at 0, 5, 35, 155, 755 s
		time.Sleep(5 * time.Minute)
		if n := s.count("sub_1"); n != 3 || h.Status().Active {
			t.Errorf("%d attempts, want the 3 before the expiry; active: %v", n, h.Status().Active)
		}
		time.Sleep(10 * time.Minute)
		if n := s.count("sub_1"); n < 4 || told != 1 || !h.Status().Active {
			t.Errorf("%d attempts, told %d times, active: %v", n, told, h.Status().Active)
		}
	})
}

// TestStop lets nothing begin but what ends the subscription.
// Handle.Stop carries it.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: refuse(500)}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		h, _ := top.join(t, e, record("sub_1"), false)
		top.emit(t, "evt_1")
		synctest.Wait()
		h.Stop()
		h.Resume()
		top.emit(t, "evt_2")
		time.Sleep(time.Hour)
		if n := s.count("sub_1"); n != 1 {
			t.Errorf("%d attempts, want the one before the stop", n)
		}
		h.Terminate(wire.ErrorObject{Code: -32012, Message: "Forbidden"})
		time.Sleep(time.Second)
		if n := s.count("sub_1"); n != 2 {
			t.Errorf("%d attempts, want one with the envelope", n-1)
		}
	})
}

// TestTrap6ExpiryCutsOff stops an attempt that is under way when the subscription expires; its
// answer counts nothing.
// Engine.handleTimer, Handle.end and Engine.applyResult carry it.
func TestTrap6ExpiryCutsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cut atomic.Bool
		s := &script{answer: func(ctx context.Context, _ got) (int, http.Header, error) {
			select {
			case <-ctx.Done():
				cut.Store(true)
				return 0, nil, context.Canceled
			case <-time.After(time.Minute):
				return 200, nil, nil
			}
		}}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		r := record("sub_1")
		r.ExpiresAt = time.Now().Add(10 * time.Second)
		h, _ := top.join(t, e, r, false)
		top.emit(t, "evt_1")
		time.Sleep(10*time.Second + 1)
		synctest.Wait()
		if !cut.Load() || !h.Status().LastDeliveryAt.IsZero() || h.Status().LastError != "" {
			t.Errorf("cut off: %v, %+v", cut.Load(), h.Status())
		}
	})
}

// TestTrap6Rotation rotates the secret between retries: while both are valid, a receiver that knows
// only the old one and one that knows only the new one accept every attempt; afterwards only the
// new one does (SUB-5).
// [Handle.Refresh] carries it, and Engine.send, which takes the ring for each attempt.
func TestTrap6Rotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secrets, err := ring.Of([]store.Secret{{Key: oldKey}, {Key: newKey}})
		if err != nil {
			t.Fatal(err)
		}
		only := func(i int) webhook.Verifier { return webhook.Verifier{Secrets: []webhook.Secret{secrets[i].Secret}} }
		s := &script{answer: refuse(500)}
		e := newEngine(t, Options{Sender: s, Schedule: []time.Duration{0, 2 * time.Second, 2 * time.Second, 4 * time.Second, 2 * time.Second}})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		r := record("sub_1")
		h, _ := top.join(t, e, r, false)
		top.emit(t, "evt_1") // at 0, 2, 4, 8, 10 s
		time.Sleep(time.Second)
		r.Secrets = []store.Secret{{Key: newKey}, {Key: oldKey, NotAfter: time.Now().Add(7 * time.Second)}} // until 8 s
		if _, ok := h.Refresh(r); !ok {
			t.Fatal("refresh refused")
		}
		time.Sleep(time.Minute)
		var verdicts []string
		for _, g := range s.all() {
			_, e1 := only(0).Verify(g.header, g.body)
			_, e2 := only(1).Verify(g.header, g.body)
			verdicts = append(verdicts, fmt.Sprint(e1 == nil, e2 == nil))
		}
		if want := []string{"true false", "true true", "true true", "true true", "false true"}; !slices.Equal(verdicts, want) {
			t.Errorf("%v, want %v", verdicts, want)
		}
	})
}

// TestTrap6LateAnswers has the answer of an unsubscribed subscription come just before, at and just
// after the moment at which the same key is subscribed anew: it settles nothing there.
// Engine.applyResult carries it, which counts nothing for a handle that is gone.
func TestTrap6LateAnswers(t *testing.T) {
	for _, offset := range []time.Duration{-1, 0, 1} {
		t.Run(offset.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				db := memory.New()
				first := true
				var mu sync.Mutex
				s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
					mu.Lock()
					late := first
					first = false
					mu.Unlock()
					if late {
						time.Sleep(10*time.Second + offset) // deaf to its context
						return 200, nil, nil
					}
					return 500, nil, nil
				}}
				e := newEngine(t, Options{Sender: s}, db)
				defer shutdown(t, e)
				top := newTopic(store.LogOptions{})
				top.track, _ = e.whole.OpenLog(ctx, "test", top.Head)
				top.track.Ready()
				r := record("sub_1")
				r.Revision, _ = db.PutSubscription(ctx, r)
				h, _ := top.join(t, e, r, false)
				top.emit(t, "evt_1")
				time.Sleep(5 * time.Second)
				h.Remove()
				h.Remove()
				if err := db.DeleteSubscription(ctx, r.ID, r.Generation); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
				r.Generation, r.Revision = 2, 0
				if _, err := db.PutSubscription(ctx, r); err != nil {
					t.Fatal(err)
				}
				h2, _ := top.join(t, e, r, false) // from the start
				time.Sleep(2 * time.Second)
				if _, ok := h.Refresh(r); ok {
					t.Error("the old handle was refreshed")
				}
				if st := h.Status(); st.Active || !st.LastDeliveryAt.IsZero() {
					t.Errorf("the late answer counted for the old handle: %+v", st)
				}
				stored, _, _ := db.Subscription(ctx, r.ID)
				if c := *h2.Watermark(); c != "c0" || stored.Progress.Base != 0 || !stored.Health.LastDeliveryAt.IsZero() || h2.Status().LastError != wire.HTTP5xx {
					t.Errorf("a late answer counted: %s, %+v, %+v", c, stored, h2.Status())
				}
				if s.count("sub_1") != 2 {
					t.Errorf("%d attempts", s.count("sub_1"))
				}
			})
		})
	}
}

// TestSRV6Shutdown lets attempts under way finish, keeps what was not sent, and is bounded by its
// context.
func TestSRV6Shutdown(t *testing.T) {
	for _, patient := range []bool{true, false} {
		t.Run(fmt.Sprint("patient ", patient), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				db := memory.New()
				s := &script{answer: func(ctx context.Context, g got) (int, http.Header, error) {
					select {
					case <-time.After(4 * time.Second):
						return 200, nil, nil
					case <-ctx.Done():
						return 0, nil, ctx.Err()
					}
				}}
				e := newEngine(t, Options{Sender: s}, db)
				top := newTopic(store.LogOptions{})
				top.track, _ = e.whole.OpenLog(ctx, "test", top.Head)
				top.track.Ready()
				r := record("sub_1")
				if _, err := db.PutSubscription(ctx, r); err != nil {
					t.Fatal(err)
				}
				r.Progress.Open = true
				h, v := top.attend(t, e, Entry{Subscription: r, Answered: time.Millisecond})
				for i := range 10 {
					top.emit(t, fmt.Sprint("evt_", i))
				}
				synctest.Wait() // two are under way
				limit := time.Minute
				if !patient {
					limit = time.Second
				}
				start := time.Now()
				ctx, cancel := context.WithTimeout(ctx, limit)
				defer cancel()
				err := e.Shutdown(ctx)
				took := time.Since(start)
				stored, _, _ := db.Subscription(context.Background(), "sub_1")
				switch {
				case patient && (err != nil || took != 4*time.Second || stored.Progress.Base != 2):
					t.Errorf("%v after %v, base %d", err, took, stored.Progress.Base)
				case !patient && (!errors.Is(err, context.DeadlineExceeded) || took != time.Second || stored.Progress.Base != 0):
					t.Errorf("%v after %v, base %d", err, took, stored.Progress.Base)
				}
				if !v.closed.Load() {
					t.Error("the reader is open")
				}
				if err := e.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
				if _, err := e.Add(context.Background(), Entry{Subscription: r, Reader: v, Shard: e.whole}); !errors.Is(err, ErrClosed) {
					t.Errorf("Add: %v", err)
				}
				if _, ok := h.Refresh(r); ok {
					t.Error("refreshed after the end")
				}
				h.Wake()
				h.Remove()
				time.Sleep(time.Hour)
				if n := len(s.all()); n != 2 {
					t.Errorf("%d attempts", n)
				}
			})
		})
	}
}

// TestOptions refuses what cannot work.
func TestOptions(t *testing.T) {
	for _, o := range []Options{{}, {Sender: &script{}, Jitter: 2}, {Sender: &script{}, Schedule: []time.Duration{-1}}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	e := newEngine(t, Options{Sender: (*netguard.Guard)(nil)})
	defer shutdown(t, e)
	for _, change := range []func(*store.Subscription){
		func(s *store.Subscription) { s.URL = "::" },
		func(s *store.Subscription) { s.Secrets = nil },
		func(s *store.Subscription) { s.Secrets = []store.Secret{{Key: []byte("short")}} },
	} {
		r := record("sub_1")
		change(&r)
		if _, err := e.Add(context.Background(), Entry{Subscription: r}); err == nil {
			t.Errorf("%+v is accepted", r)
		}
	}
}
