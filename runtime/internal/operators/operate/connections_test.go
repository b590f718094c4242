package operate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/operators/operate"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// SRV-8: connections are listed in order of their ids, and one is looked up and ended by its own.
func TestSRV8Connections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, setup{without: true})
		e := b.event("e")
		for range 11 { // ids are in order of their numbers
			b.stream(e, "ann")
		}
		b.poller(e, "bob")
		e.Emit(incident{ID: "1"})
		synctest.Wait()
		all, _ := b.Connections(t.Context())
		if len(all) != 12 || all[0].ID != "poll-"+wire.SubscriptionID(wire.ModePoll, "bob", "", "e", []byte("{}")) || all[0].Behind == nil || *all[0].Behind != 1 || all[0].Mode != "poll" {
			t.Fatalf("%+v", all)
		}
		for i, c := range all[1:] {
			if c.ID != fmt.Sprintf("stream-%016d", i+1) || c.Principal != "ann" || c.Event != "e" || c.Mode != "push" || c.Since.IsZero() {
				t.Errorf("%d is %+v", i, c)
			}
		}
		for _, c := range all {
			want := c
			want.Behind = nil
			if got, err := b.Connection(c.ID); err != nil || got != want {
				t.Errorf("%s is %+v, %v", c.ID, got, err)
			}
		}
		must(t, b.EndConnection(all[0].ID, nil))
		must(t, b.EndConnection(all[3].ID, nil))
		must(t, b.EndConnection(all[4].ID, events.Upstream("gone")))
		synctest.Wait()
		b.want(t, "ended", `push ann ends: Forbidden {"reason":"ended by an operator"}`,
			`push ann ends: UpstreamError {"reason":"gone"}`)
		for _, id := range []string{all[0].ID, all[3].ID, "", "x", "stream-", "stream-1", "stream-00000000000000-1", "poll-", "1"} {
			missing(t, id, b.EndConnection(id, nil))
			missing(t, id, errorOf(b.Connection(id)))
		}
	})
}

// SRV-8: event types tell what is live of them and how far they are.
func TestSRV8EventTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r, e := serve(t)
		b.event("gone")
		b.check("check")
		must(t, b.es.Remove("gone"))
		b.subscribe("ann")
		b.poller(e, "ann")
		ann := b.stream(e, "ann")
		synctest.Wait()
		<-ann.goOn // it is blocked
		for i := range 2 {
			e.Emit(incident{ID: fmt.Sprint(i)})
		}
		settle(time.Second)
		all := b.Admin.EventTypes(t.Context())
		if len(all) != 2 || all[0].Name != "check" || all[0].Head != 0 || all[1].Name != "e" {
			t.Fatalf("%+v", all)
		}
		got := all[1]
		if got.PerMinute == 0 {
			t.Error("nothing happens in a minute")
		}
		got.PerMinute = 0
		want := operator.EventType{Name: "e", Description: "An incident.", Delivery: []string{"poll", "push", "webhook"}, Replay: true, Oldest: 1, Head: 2}
		counts := operator.Counts{Behind: 2, Streams: 1, Pollers: 1, Webhooks: 1}
		if got.Counts == nil || *got.Counts != counts {
			t.Errorf("%+v, want %+v", got.Counts, counts)
		}
		if got.Counts = nil; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		ann.goOn <- struct{}{}
		r.on(refuse)
		for i := range 5 {
			e.Emit(incident{ID: fmt.Sprint("late", i)})
		}
		settle(time.Second)
		i, err := b.Admin.EventType(t.Context(), "e")
		if err != nil || i.Behind != 5 || string(i.InputSchema) != inputSchema {
			t.Errorf("%+v %v", i, err)
		}
		missing(t, "a removed one", errorOf(b.Admin.EventType(t.Context(), "gone")))
		missing(t, "an unknown one", errorOf(b.Admin.EventType(t.Context(), "nope")))
	})
}

// tailed takes what a tail has until it has so many, with what it skipped.
func tailed(t *testing.T, tail operator.Tail, n int) (all []string, skipped int64) {
	t.Helper()
	for len(all)+int(skipped) < n {
		found, more, err := tail.Next(t.Context())
		must(t, err)
		skipped += more
		for _, o := range found {
			all = append(all, o.Event+o.EventID)
		}
	}
	return all, skipped
}

// SRV-8: a tail begins now, and tells of each type in order, also of those that are registered later.
func TestSRV8Tail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, setup{without: true})
		e, f := b.event("e"), b.event("f")
		b.check("check")
		e.Emit(incident{ID: "before"})
		one, err := b.Tail("e")
		must(t, err)
		all, err := b.Tail("")
		must(t, err)
		e.Emit(incident{ID: "1"})
		f.Emit(incident{ID: "1"})
		g := b.event("g")
		g.Emit(incident{ID: "1"})
		e.Emit(incident{ID: "2"})
		if got, skipped := tailed(t, one, 2); !slices.Equal(got, []string{"e1", "e2"}) || skipped != 0 {
			t.Errorf("of one: %q, %d skipped", got, skipped)
		}
		got, skipped := tailed(t, all, 4)
		if slices.Sort(got); !slices.Equal(got, []string{"e1", "e2", "f1", "g1"}) || skipped != 0 {
			t.Errorf("of all: %q, %d skipped", got, skipped)
		}
		missing(t, "an unknown type", errorOf(b.Tail("nope")))
		missing(t, "a type without a log", errorOf(b.Tail("check")))

		// It waits, until its caller goes or the server ends.
		go func() {
			time.Sleep(time.Minute)
			e.Emit(incident{ID: "3"}, events.WithTimestamp(time.Unix(5, 0)))
		}()
		began := time.Now()
		found, _, err := one.Next(t.Context())
		if err != nil || len(found) != 1 || time.Since(began) > time.Minute+operate.TailEvery {
			t.Fatalf("%+v %v after %v", found, err, time.Since(began))
		}
		want := operator.Occurrence{Event: "e", EventID: "3", Timestamp: events.NewTime(time.Unix(5, 0)), Position: 4, Bytes: 10, Data: json.RawMessage(`{"id":"3"}`)}
		if got := found[0]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := one.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		must(t, b.es.Remove("e"))
		time.AfterFunc(time.Second, func() { must(t, b.es.Shutdown(context.Background())) })
		if _, _, err := one.Next(t.Context()); !errors.Is(err, events.ErrClosed) || !strings.HasPrefix(err.Error(), "following occurrences: ") {
			t.Errorf("of a server that ends: %v", err)
		}
	})
}

// SRV-8: a slow tail skips, and says how much; every type has its turn.
func TestSRV8SlowTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, setup{without: true})
		e := b.event("e")
		small := b.event("small", server.WithRetention(server.Retention{MaxCount: 3}))
		tail, err := b.Tail("e")
		must(t, err)
		for i := range operate.TailBehind + 1 {
			e.Emit(incident{ID: fmt.Sprint(i)})
		}
		got, skipped := tailed(t, tail, operate.TailBehind+1)
		if len(got) != operate.TailBatch || skipped != operate.TailBehind+1-operate.TailBatch || got[operate.TailBatch-1] != fmt.Sprint("e", operate.TailBehind) {
			t.Errorf("%d and %d skipped, the last is %s", len(got), skipped, got[len(got)-1])
		}
		evicted, err := b.Tail("small")
		must(t, err)
		for i := range 10 {
			small.Emit(incident{ID: fmt.Sprint(i)})
		}
		if got, skipped := tailed(t, evicted, 10); !slices.Equal(got, []string{"small7", "small8", "small9"}) || skipped != 7 {
			t.Errorf("%q and %d skipped", got, skipped)
		}

		b = newBed(t, setup{without: true})
		all, err := b.Tail("")
		must(t, err)
		const types = operate.TailPage/operate.TailBatch + 2
		for i := range types {
			e := b.event(fmt.Sprint("t", i))
			for j := range 4 * operate.TailBatch {
				e.Emit(incident{ID: fmt.Sprint(".", j)})
			}
		}
		seen := map[string]bool{}
		for range 3 {
			found, skipped, err := all.Next(t.Context())
			if err != nil || skipped != 0 || len(found) != operate.TailPage {
				t.Fatalf("%d and %d skipped, %v", len(found), skipped, err)
			}
			for _, o := range found {
				seen[o.Event] = true
			}
		}
		if len(seen) != types {
			t.Errorf("only %d types had their turn", len(seen))
		}
	})
}

// A damagedStore is a store in memory. Something has damaged the payloads in its logs, which it keeps by event id.
type damagedStore struct {
	*memory.Store
	payloads map[string]string
}

func (s damagedStore) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	l, err := s.Store.OpenLog(ctx, name, o)
	return damagedLog{l, s.payloads}, err
}

type damagedLog struct {
	store.EventLog
	payloads map[string]string
}

func (l damagedLog) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	b, err := l.EventLog.Read(ctx, after, limit)
	b.Entries = slices.Clone(b.Entries)
	for i := range b.Entries {
		b.Entries[i].Data = json.RawMessage(l.payloads[b.Entries[i].EventID])
	}
	return b, err
}

// OCC-4: an entry that was damaged in its log breaks no answer: it is shown without its payload.
func TestOCC4TailOfDamagedEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		payloads := map[string]string{"0": "not json", "1": "{\"id\":\n1}", "2": `{"id":"2"}{`, "3": "", "4": `{"id":"good"}`}
		b := newBed(t, setup{without: true, store: damagedStore{memory.New(), payloads}})
		e := b.event("e")
		tail, err := b.Tail("e")
		must(t, err)
		for i := range payloads {
			e.Emit(incident{ID: i}, events.To("x"))
		}
		shown, _, err := tail.Next(t.Context())
		if err != nil || len(shown) != 5 {
			t.Fatalf("%d, %v", len(shown), err)
		}
		for _, o := range shown {
			if (o.Data != nil) != (o.EventID == "4") || !o.Targeted {
				t.Errorf("%+v", o)
			}
		}
		if _, err := json.Marshal(shown); err != nil {
			t.Error(err)
		}
	})
}

// An outbox has put one occurrence aside, under 7.
type outbox struct {
	engine.Outbox
	err error
}

func (o outbox) Rejected(_ context.Context, after int64, limit int) ([]operator.Rejected, error) {
	return []operator.Rejected{{ID: after + int64(limit)}}, o.err
}

func (o outbox) PutBack(_ context.Context, id int64) (bool, error) { return id == 7, o.err }
func (o outbox) Drop(_ context.Context, id int64) (bool, error)    { return id == 7, o.err }

// REP-20: what was rejected is the outbox's; where there is none there is nothing.
func TestREP20Rejected(t *testing.T) {
	for _, fails := range []error{nil, errTest} {
		b := operate.New(operate.Options{Outbox: outbox{err: fails}})
		if found, err := b.Rejected(t.Context(), 3, 4); !errors.Is(err, fails) || found[0].ID != 7 {
			t.Errorf("%+v %v", found, err)
		}
		for _, do := range []func(context.Context, int64) error{b.PutBack, b.Drop} {
			if err := do(t.Context(), 7); !errors.Is(err, fails) {
				t.Error(err)
			}
			if err := do(t.Context(), 8); fails == nil && !errors.Is(err, events.ErrNotFound) {
				t.Error(err)
			}
		}
	}
	b := newBed(t, setup{without: true})
	if found, err := b.Rejected(t.Context(), 0, 10); len(found) != 0 || err != nil {
		t.Error(found, err)
	}
	missing(t, "without an outbox", b.PutBack(t.Context(), 7))
	missing(t, "without an outbox", b.Drop(t.Context(), 7))
}
