package delivery

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// SRV-8: the record says in any process how the last attempt failed, when the next one is due, when the occurrence is
// lost and how many were abandoned, and still says so after a restart.
func TestSRV8Report(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var status atomic.Int32
		status.Store(503)
		s := &script{answer: func(context.Context, got) (int, http.Header, error) { return int(status.Load()), nil, nil }}
		db := memory.New()
		o := Options{Sender: s, Attempts: db, Owner: "a", Schedule: []time.Duration{0, time.Minute, 2 * time.Minute}}
		e := newEngine(t, o, db)
		top := newTopic(store.LogOptions{})
		sub := record("sub_1")
		if _, err := db.PutSubscription(t.Context(), sub); err != nil {
			t.Fatal(err)
		}
		top.join(t, e, sub, false)
		is := func(what string, want store.Report, abandoned int) {
			t.Helper()
			got := *stored(t, db)[0].Report
			if age := time.Since(got.At); age < 0 || age > time.Minute {
				t.Errorf("%s: the report is of %v", what, got.At)
			}
			if n := got.Abandoned.LastHour(time.Now()); n != abandoned {
				t.Errorf("%s: %d abandoned, want %d", what, n, abandoned)
			}
			if got.At, got.Abandoned = want.At, want.Abandoned; got != want {
				t.Errorf("%s: %+v, want %+v", what, got, want)
			}
		}
		top.emit(t, "1")
		began := time.Now().UTC()
		time.Sleep(time.Second)
		is("in retry", store.Report{Owner: "a", LastStatus: 503, LastErrorAt: began, NextAt: began.Add(time.Minute), LostAt: began.Add(3 * time.Minute)}, 0)
		status.Store(401)
		time.Sleep(time.Minute)
		is("refused", store.Report{Owner: "a", LastStatus: 401, LastErrorAt: began.Add(time.Minute), NextAt: began.Add(3 * time.Minute), LostAt: began.Add(3 * time.Minute)}, 0)
		time.Sleep(2 * time.Minute)
		last := store.Report{Owner: "a", LastStatus: 401, LastErrorAt: began.Add(3 * time.Minute)}
		is("abandoned", last, 1)

		shutdown(t, e)
		o.Owner, last.Owner = "b", "b"
		e = newEngine(t, o, db)
		defer shutdown(t, e)
		h, _ := top.join(t, e, stored(t, db)[0], true)
		status.Store(204)
		top.emit(t, "2")
		time.Sleep(time.Second)
		is("accepted by another process", last, 1)
		status.Store(503)
		top.emit(t, "3")
		last.LastStatus, last.LastErrorAt = 503, time.Now().UTC()
		synctest.Wait()
		h.Pause(time.Now())
		time.Sleep(time.Second)
		is("paused", last, 1)
	})
}

// SRV-8: the record says why nothing is sent although something waits.
func TestSRV8ReportHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(ctx context.Context, g got) (int, http.Header, error) {
			switch g.sub {
			case "hangs":
				return hang(ctx)
			case "busy":
				return 429, http.Header{"Retry-After": {"60"}}, nil
			}
			return 204, nil, nil
		}}
		db := memory.New()
		e := newEngine(t, Options{Sender: s, Attempts: db, PerHost: 1, SubscriptionLimit: Limit{Rate: rate.Every(time.Minute)}}, db)
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		for id, url := range map[string]string{"hangs": "http://a.test/1", "queued": "http://a.test/2", "busy": "http://b.test", "limited": "http://c.test"} {
			sub := record(id)
			sub.URL = url
			if _, err := db.PutSubscription(t.Context(), sub); err != nil {
				t.Fatal(err)
			}
			top.join(t, e, sub, false)
		}
		top.emit(t, "1", "hangs")
		time.Sleep(time.Second)
		top.emit(t, "2", "queued", "busy", "limited")
		top.emit(t, "3", "limited")
		time.Sleep(time.Second)
		for _, r := range stored(t, db) {
			got := r.Report
			want := map[string]store.Report{"hangs": {Sending: 1}, "queued": {Held: store.HeldQueued},
				"busy": {Held: store.HeldLimited}, "limited": {Held: store.HeldLimited}}[r.ID]
			if got.Held != want.Held || got.Sending != want.Sending || got.NextAt.IsZero() != (want.Held != store.HeldLimited) {
				t.Errorf("%s: %+v", r.ID, got)
			}
		}
	})
}

// REP-10: a report costs no write of its own: an endpoint that goes on to fail in the same way is not written.
func TestREP10ReportsAreNotWrittenAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) { return 500 + g.attempt, nil, nil }}
		db := memory.New()
		spy := &writeSpy{Owned: db, after: func() {}}
		e := newEngine(t, Options{Sender: s}, spy)
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		top.join(t, e, record("sub_1"), false)
		top.emit(t, "1")
		time.Sleep(time.Second)
		before := spy.count.Load()
		time.Sleep(5 * time.Minute)
		if n := spy.count.Load() - before; n != 0 || s.count("sub_1") != 4 {
			t.Errorf("%d writes for %d attempts", n, s.count("sub_1"))
		}
	})
}
