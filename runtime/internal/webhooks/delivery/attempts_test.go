package delivery

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// attempting is an engine that keeps attempts, with one subscription in its store.
func attempting(t *testing.T, s *script, o Options) (*Engine, *memory.Store, *topic, *Handle) {
	t.Helper()
	db := memory.New()
	o.Sender = s
	o.Attempts = db
	e := newEngine(t, o, db)
	tp := newTopic(store.LogOptions{})
	sub := record("a")
	if _, err := db.PutSubscription(t.Context(), sub); err != nil {
		t.Fatal(err)
	}
	h, _ := tp.join(t, e, sub, false)
	return e, db, tp, h
}

func kept(t *testing.T, db *memory.Store) []operator.Attempt {
	t.Helper()
	all, err := db.Attempts(t.Context(), "a", 1000)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Each attempt is kept with what came of it, and an occurrence that is given up is logged with its id.
func TestAttemptsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &script{answer: func(ctx context.Context, g got) (int, http.Header, error) {
			time.Sleep(70 * time.Millisecond)
			switch {
			case g.id == "lost":
				return 500, nil, nil
			case g.attempt == 1:
				return 0, nil, errors.New("connection refused")
			}
			return 204, http.Header{"X-Secret": {"said by the endpoint"}}, nil
		}}
		e, db, tp, h := attempting(t, s, Options{Schedule: []time.Duration{0, 5 * time.Second}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		began := time.Now()
		tp.emit(t, "evt_1")
		time.Sleep(time.Second)
		if got := kept(t, db); len(got) != 1 || !got[0].NextAt.Equal(began.Add(5*time.Second)) {
			t.Errorf("after the first attempt: %+v", got)
		}
		time.Sleep(10 * time.Second)
		got := kept(t, db)
		want := []operator.Attempt{
			{EventID: "evt_1", Event: "test", Position: 1, Number: 2, At: began.Add(5 * time.Second), Took: 70 * time.Millisecond, Status: 204},
			{EventID: "evt_1", Event: "test", Position: 1, Number: 1, At: began, Took: 70 * time.Millisecond, Category: "connection_refused", NextAt: began.Add(5 * time.Second)},
		}
		if len(got) != 2 {
			t.Fatalf("%+v", got)
		}
		for i := range want {
			if !got[i].At.Equal(want[i].At) || !got[i].NextAt.Equal(want[i].NextAt) {
				t.Errorf("times of %+v", got[i])
			}
			got[i].At, got[i].NextAt = want[i].At, want[i].NextAt
			if got[i] != want[i] {
				t.Errorf("got %+v, want %+v", got[i], want[i])
			}
		}
		tp.emit(t, "lost")
		time.Sleep(20 * time.Second)
		if got := kept(t, db)[0]; got.Number != 2 || got.Category != "http_5xx" || !got.NextAt.IsZero() {
			t.Errorf("the last attempt is %+v", got)
		}
		if text := log.String(); !strings.Contains(text, "webhook delivery abandoned") || !strings.Contains(text, "eventId=lost") {
			t.Errorf("the log does not name what was abandoned: %s", text)
		}
		e.mu.Lock()
		if h.made != nil {
			t.Error("an idle subscription holds attempts")
		}
		e.mu.Unlock()
		shutdown(t, e)
	})
}

// failing is a store that cannot save while it is told so.
type failing struct {
	engine.Owned
	off atomic.Bool
}

func (f *failing) SaveAttempts(ctx context.Context, u []store.Update, made [][]operator.Attempt) error {
	if f.off.Load() {
		return errors.New("disk is full")
	}
	return f.Owned.SaveAttempts(ctx, u, made)
}

// What could not be stored is stored later, once, up to the bound.
func TestAttemptsOutlastAFailingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		f := &failing{Owned: db}
		e := newEngine(t, Options{Sender: &script{}, Attempts: db, AttemptBounds: engine.AttemptBounds{PerSubscription: 3}}, f)
		sub := record("a")
		if _, err := db.PutSubscription(t.Context(), sub); err != nil {
			t.Fatal(err)
		}
		tp := newTopic(store.LogOptions{})
		tp.join(t, e, sub, false)
		f.off.Store(true)
		for _, id := range []string{"1", "2", "3", "4", "5"} {
			tp.emit(t, id)
			time.Sleep(time.Second)
		}
		if n := len(kept(t, db)); n != 0 {
			t.Errorf("%d were stored", n)
		}
		f.off.Store(false)
		time.Sleep(time.Minute)
		got := kept(t, db)
		if len(got) != 3 || got[0].EventID != "5" || got[2].EventID != "3" {
			t.Errorf("%+v", got)
		}
		shutdown(t, e)
	})
}

// Attempts beyond the bounds are deleted in the background, by age even when nothing happens.
func TestAttemptsAreTrimmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, db, tp, h := attempting(t, &script{}, Options{AttemptBounds: engine.AttemptBounds{PerSubscription: 2, MaxAge: 3 * time.Hour}})
		for _, id := range []string{"1", "2", "3", "4", "5"} {
			tp.emit(t, id)
			time.Sleep(time.Second)
		}
		time.Sleep(2 * trimDelay)
		if got := kept(t, db); len(got) != 2 || got[0].EventID != "5" {
			t.Errorf("%+v", got)
		}
		sub, _, err := db.Subscription(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		sub.ExpiresAt = time.Now().Add(24 * time.Hour)
		h.Refresh(sub)
		time.Sleep(5 * time.Hour)
		if got := kept(t, db); len(got) != 0 {
			t.Errorf("after their age: %+v", got)
		}
		shutdown(t, e)
		time.Sleep(5 * time.Hour) // nothing fires after the end
	})
}

// A subscription that has ended, and one whose engine keeps nothing, hold no attempts.
func TestNoAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, db, tp, h := attempting(t, &script{answer: func(ctx context.Context, g got) (int, http.Header, error) {
			<-ctx.Done()
			return 0, nil, ctx.Err()
		}}, Options{})
		tp.emit(t, "1")
		synctest.Wait()
		h.Remove()
		time.Sleep(time.Minute)
		if got := kept(t, db); len(got) != 0 {
			t.Errorf("an attempt that was cut off is kept: %+v", got)
		}
		shutdown(t, e)

		plain := newEngine(t, Options{Sender: &script{}}, memory.New())
		tp = newTopic(store.LogOptions{})
		h, _ = tp.join(t, plain, record("b"), false)
		tp.emit(t, "1")
		synctest.Wait()
		plain.mu.Lock()
		if h.made != nil {
			t.Error("an engine without a store for attempts gathers them")
		}
		plain.mu.Unlock()
		shutdown(t, plain)
	})
}
