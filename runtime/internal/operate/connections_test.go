package operate

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

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// SRV-8: connections are listed in order of their ids, and one is looked up and ended by its own.
func TestSRV8Connections(t *testing.T) {
	b := newBed(t, setup{without: true})
	e := b.event("e", false)
	for range 11 { // ids are in order of their numbers
		b.stream(e, "ann")
	}
	bob := b.poller(e, "bob")
	n := int64(7)
	bob.behind = &n
	all := b.Connections()
	if len(all) != 12 || all[0].ID != "poll-"+bob.info.Subscription || all[0].Behind != &n || all[0].Mode != "poll" {
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
	b.want(t, "ended", `poll bob ends: Forbidden {"reason":"ended by an operator"}`, `push ann ends: Forbidden {"reason":"ended by an operator"}`,
		`push ann ends: UpstreamError {"reason":"gone"}`)
	for _, id := range []string{all[0].ID, all[3].ID, "", "x", "stream-", "stream-1", "stream-00000000000000-1", "poll-", "1"} {
		missing(t, id, b.EndConnection(id, nil))
		missing(t, id, errorOf(b.Connection(id)))
	}
}

// SRV-8: event types tell what is live of them and how far they are.
func TestSRV8EventTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		b := newBed(t, setup{r: r})
		e, gone := b.event("e", true), b.event("gone", true)
		b.register(eventtypetest.New(t, "a check", eventtypetest.Options{Checks: true}), false)
		gone.Remove()
		b.stream(gone, "ann")
		b.subscribe("ann")
		b.poller(e, "ann")
		b.stream(e, "ann")
		three, one := int64(3), int64(1)
		b.stream(e, "bob").behind = &three
		b.stream(e, "eve").behind = &one
		for i := range 2 {
			e.Emit(incident{ID: fmt.Sprint(i)})
		}
		settle(time.Second)
		all := b.Admin.EventTypes()
		if len(all) != 2 || all[0].Name != "a check" || all[0].Head != 0 || all[1].Name != "e" {
			t.Fatalf("%+v", all)
		}
		got := all[1]
		if got.PerMinute == 0 {
			t.Error("nothing happens in a minute")
		}
		got.PerMinute = 0
		want := operator.EventType{Name: "e", Description: "An incident.", Delivery: []string{"poll"}, Replay: true, Oldest: 1, Head: 2, Behind: 3,
			Streams: 3, Pollers: 1, Webhooks: 1}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		r.on(refuse)
		for i := range 5 {
			e.Emit(incident{ID: fmt.Sprint("late", i)})
		}
		settle(time.Second)
		i, err := b.Admin.EventType("e")
		if err != nil || i.Behind != 5 || string(i.InputSchema) != eventtypetest.InputSchema {
			t.Errorf("%+v %v", i, err)
		}
		missing(t, "a removed one", errorOf(b.Admin.EventType("gone")))
		missing(t, "an unknown one", errorOf(b.Admin.EventType("nope")))
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
		e, f := b.event("e", false), b.event("f", false)
		b.register(eventtypetest.New(t, "a check", eventtypetest.Options{Checks: true}), false)
		e.Emit(incident{ID: "before"})
		one, err := b.Tail("e")
		must(t, err)
		all, err := b.Tail("")
		must(t, err)
		e.Emit(incident{ID: "1"})
		f.Emit(incident{ID: "1"})
		g := b.event("g", false)
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
		missing(t, "a type without a log", errorOf(b.Tail("a check")))

		// It waits, until its caller goes or the server ends.
		go func() {
			time.Sleep(time.Minute)
			e.Emit(incident{ID: "3"}, time.Unix(5, 0))
		}()
		began := time.Now()
		found, _, err := one.Next(t.Context())
		if err != nil || len(found) != 1 || time.Since(began) > time.Minute+tailEvery {
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
		b.remove(e)
		time.AfterFunc(time.Second, func() { close(b.closing) })
		if _, _, err := one.Next(t.Context()); !errors.Is(err, events.ErrClosed) || !strings.HasPrefix(err.Error(), "following occurrences: ") {
			t.Errorf("of a server that ends: %v", err)
		}
	})
}

// SRV-8: a slow tail skips, and says how much; every type has its turn.
func TestSRV8SlowTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, setup{without: true})
		e := b.event("e", false)
		small := b.register(eventtypetest.New(t, "small", eventtypetest.Options{Emits: true, Kept: topic.Kept{MaxCount: 3}}), false)
		tail, err := b.Tail("e")
		must(t, err)
		for i := range tailBehind + 1 {
			e.Emit(incident{ID: fmt.Sprint(i)})
		}
		got, skipped := tailed(t, tail, tailBehind+1)
		if len(got) != tailBatch || skipped != tailBehind+1-tailBatch || got[tailBatch-1] != fmt.Sprint("e", tailBehind) {
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
		const types = tailPage/tailBatch + 2
		for i := range types {
			e := b.event(fmt.Sprint("t", i), false)
			for j := range 4 * tailBatch {
				e.Emit(incident{ID: fmt.Sprint(".", j)})
			}
		}
		seen := map[string]bool{}
		for range 3 {
			found, skipped, err := all.Next(t.Context())
			if err != nil || skipped != 0 || len(found) != tailPage {
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

// OCC-4: an entry that somebody has damaged in its log breaks no answer: it is shown without its payload.
func TestOCC4TailOfDamagedEntries(t *testing.T) {
	b := newBed(t, setup{without: true})
	e := b.event("e", false)
	tail, err := b.Tail("e")
	must(t, err)
	for i, data := range []string{"not json", "{\"id\":\n1}", `{"id":"2"}{`, "", `{"id":"good"}`} {
		entry := store.Entry{EventID: fmt.Sprint(i), Timestamp: events.NewTime(time.Unix(1, 0)), Data: json.RawMessage(data), Targets: []string{"x"}}
		_, err := e.Topic().Append(t.Context(), entry, nil, false)
		must(t, err)
	}
	shown, _, err := tail.Next(t.Context())
	if err != nil || len(shown) != 5 {
		t.Fatalf("%d, %v", len(shown), err)
	}
	for i, o := range shown {
		if (o.Data != nil) != (i == 4) || !o.Targeted {
			t.Errorf("%+v", o)
		}
	}
	if _, err := json.Marshal(shown); err != nil {
		t.Error(err)
	}
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

// REP-20: what was put aside is the outbox's; where there is none there is nothing.
func TestREP20Rejected(t *testing.T) {
	for _, fails := range []error{nil, errTest} {
		b := newBed(t, setup{without: true, outbox: outbox{err: fails}})
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
