package server

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// A shifted store has another time than its processes, but for the expiry of leases.
type shifted struct {
	*postgres.Store
	by time.Duration
}

func (s shifted) Join(ctx context.Context, name string, ttl time.Duration, types map[string]string, report json.RawMessage) (engine.Lease, error) {
	l, err := s.Store.Join(ctx, name, ttl, types, report)
	l.Now = l.Now.Add(s.by)
	return l, err
}

func (s shifted) Renew(ctx context.Context, fence uint64, ttl time.Duration, types map[string]string, report json.RawMessage) (engine.Lease, error) {
	l, err := s.Store.Renew(ctx, fence, ttl, types, report)
	l.Now = l.Now.Add(s.by)
	return l, err
}

func (s shifted) Now(ctx context.Context) (time.Time, error) {
	now, err := s.Store.Now(ctx)
	return now.Add(s.by), err
}

// K8, REP-8: an occurrence without a time of its author's has the store's, however it is emitted, and ages are counted
// by the store's time.
func TestREP8OccurrencesHaveTheStoresTime(t *testing.T) {
	const by = -50 * time.Hour
	schema := pgtest.Schema(t)
	st := shifted{openShared(t, schema, postgres.Options{}), by}
	near := func(what string, at time.Time) {
		t.Helper()
		if d := time.Until(at) - by; d > 30*time.Second || d < -30*time.Second {
			t.Errorf("%s is %v, %v from the store's time", what, at, d)
		}
	}
	logged := func(what, log string) {
		t.Helper()
		text := pgtest.Query(t, pgtest.URL(t), fmt.Sprintf(`SELECT e.timestamp FROM %[1]s.entries e JOIN %[1]s.logs l ON l.id = e.log
			WHERE l.name = '%[2]s' ORDER BY e.position DESC LIMIT 1`, schema, log))
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		near(what, at)
	}
	type poll struct {
		Cursor    string
		Events    []json.RawMessage
		Truncated bool
	}
	polled := func(t *testing.T, answer json.RawMessage) (p poll) {
		t.Helper()
		if err := json.Unmarshal(answer, &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, how := range []string{"serving", "emitting"} {
		o := Options{Store: st, ReplayCeiling: time.Hour}
		var s *Server
		if how == "serving" {
			s = newServer(t, o)
		} else {
			var err error
			o.Replicas = replicas.New(replicas.Options{})
			if s, err = NewEmitOnly(o); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
		}
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		var cursor string
		if how == "serving" {
			a, rerr := call(s, "ann", wire.MethodPoll, `{"name":"e"}`)
			if rerr != nil {
				t.Fatal(rerr)
			}
			cursor = polled(t, a).Cursor
		}
		emit(t, e, incident{ID: how})
		logged(how+": Emit", "e")
		p, err := Prepare(t.Context(), e, incident{ID: how + "-p"})
		if err != nil {
			t.Fatal(err)
		}
		near(how+": Prepare", p.Outgoing().Entry.Timestamp.Time)
		own := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
		if p, err = Prepare(t.Context(), e, incident{ID: how + "-o"}, events.WithTimestamp(own)); err != nil || !p.Outgoing().Entry.Timestamp.Equal(own) {
			t.Errorf("%s: the author's own time became %v, %v", how, p.Outgoing().Entry.Timestamp, err)
		}
		if err := s.Revoke(t.Context(), "nobody"); err != nil {
			t.Fatal(err)
		}
		logged(how+": an order", engine.ControlLog)
		if how == "serving" {
			a, rerr := call(s, "ann", wire.MethodPoll, fmt.Sprintf(`{"name":"e","cursor":%q}`, cursor))
			if rerr != nil || len(polled(t, a).Events) == 0 || polled(t, a).Truncated {
				t.Errorf("what has just been emitted counts as old: %s %v", a, rerr)
			}
		}
	}
}

// A drifting store's time goes away from that of its processes.
type drifting struct {
	*memcluster.Store
	by atomic.Int64
}

func (s *drifting) Now(ctx context.Context) (time.Time, error) {
	now, err := s.Store.Now(ctx)
	return now.Add(time.Duration(s.by.Load())), err
}

// K8, REP-8: a process that only emits, and renews no lease, asks for the store's time again before it is an old one.
func TestREP8EmittingAsksForTheTimeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &drifting{Store: memcluster.New().Open()}
		s, err := NewEmitOnly(Options{Store: st, Replicas: replicas.New(replicas.Options{})})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Shutdown(context.Background())
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		for i, by := range []time.Duration{0, 5 * time.Hour, -time.Hour} {
			st.by.Store(int64(by))
			time.Sleep(2 * time.Minute)
			emit(t, e, incident{ID: fmt.Sprint(i)})
			b, err := s.types["e"].topic.Read(t.Context(), store.Position(i), 1)
			if err != nil || len(b.Entries) != 1 {
				t.Fatal(b, err)
			}
			if d := time.Until(b.Entries[0].Timestamp.Time) - by; d > time.Second || d < -time.Second {
				t.Errorf("%d is %v from the store's time", i, d)
			}
		}
	})
}

// REP-8: every time that is stored or signed is the store's.
func TestREP8TimesAreTheStores(t *testing.T) {
	const by = -50 * time.Hour
	t.Parallel() // it waits for leases
	st := openShared(t, pgtest.Schema(t), postgres.Options{})
	f := newFleet(t, nil, shifted{st, by})
	w := f.world(t, 0)
	s, e := w.Server, f.emitters[0]
	close := func(what string, at time.Time, after time.Duration) {
		t.Helper()
		if d := time.Until(at) - by - after; d > time.Minute || d < -time.Minute {
			t.Errorf("%s is %v, %v from the store's time", what, at, d)
		}
	}
	got := w.subscribe("ann", params(plain, secretA, `,"ttlMs":3600000`))
	close("refreshBefore", time.Now().Add(got.until(t)), time.Hour)
	emit(t, e, incident{ID: "1"})
	waitUntil(t, "the delivery", func() bool { return len(f.r.to(plain)) == 1 })
	var stamp int64
	if _, err := fmt.Sscan(f.r.last().header.Get(wire.HeaderWebhookTimestamp), &stamp); err != nil {
		t.Fatal(err)
	}
	close("webhook-timestamp", time.Unix(stamp, 0), 0)
	if _, err := fmt.Sscan(f.r.challenges()[0].header.Get(wire.HeaderWebhookTimestamp), &stamp); err != nil {
		t.Fatal(err)
	}
	close("the challenge's timestamp", time.Unix(stamp, 0), 0)
	waitUntil(t, "it is stored", func() bool {
		r, _, err := st.Subscription(t.Context(), got.ID)
		return err == nil && !r.Health.LastDeliveryAt.IsZero()
	})
	if err := s.Admin().Pause(t.Context(), got.ID); err != nil {
		t.Fatal(err)
	}
	w.subscribe("ann", params(plain, secretB, ""))
	r, _, err := st.Subscription(t.Context(), got.ID)
	if err != nil {
		t.Fatal(err)
	}
	close("created", r.CreatedAt, 0)
	close("refreshed", r.RefreshedAt, 0)
	close("paused", r.PausedAt, 0)
	close("last delivery", r.Health.LastDeliveryAt, 0)
	close("reported", r.Report.At, 0)
	if host, _ := os.Hostname(); r.Report.Owner != fmt.Sprintf("%s/%d", host, os.Getpid()) {
		t.Errorf("its owner is %q", r.Report.Owner)
	}
	close("the old secret's end", r.Secrets[1].NotAfter, 5*time.Minute)
	v, _, err := st.Verification(t.Context(), "ann", plain)
	if err != nil {
		t.Fatal(err)
	}
	close("verified", v.At, 0)
	waitUntil(t, "the attempt is stored", func() bool {
		made, err := s.Admin().Attempts(t.Context(), got.ID)
		return err == nil && len(made) == 1
	})
	made, _ := s.Admin().Attempts(t.Context(), got.ID)
	close("the attempt", made[0].At, 0)
}
