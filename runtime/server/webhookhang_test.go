package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
)

// oneWorker leaves the engine one worker, so that who occupies it holds up everybody.
func oneWorker(o *Options) {
	o.webhook().Retry.Workers = 1
	o.webhook().AllowReceivers = []string{"http://receiver.test"}
}

// stuckMailbox is a mailbox whose check does not answer, after a switch, those who are behind.
type stuckMailbox struct {
	mailbox
	behind atomic.Int64  // cursors below it hang
	hung   atomic.Int64  // checks that did
	left   atomic.Int64  // of those, whose context has ended
	free   chan struct{} // closed: they go on
}

func (m *stuckMailbox) check(ctx context.Context, a filterArgs, cursor string) (events.Page[incident], error) {
	if n, err := strconv.ParseInt(cursor, 10, 64); err == nil && n < m.behind.Load() {
		m.hung.Add(1)
		select {
		case <-m.free:
		case <-ctx.Done():
			m.left.Add(1)
			return events.Page[incident]{}, ctx.Err()
		}
	}
	return m.mailbox.check(ctx, a, cursor)
}

// HOOK-4: a check that hangs while a webhook subscription catches up, or changes to a new definition,
// holds up that subscription alone: with a single worker others get theirs, and it goes on where it was
// when the check answers. subscriber.feedReader.pull carries it.
func TestHOOK4HangingCheck(t *testing.T) {
	for _, source := range []string{"check", "both"} {
		for _, cause := range []string{"catching up", "a new definition", "the end of the server", "unsubscribing"} {
			t.Run(source+", "+cause, func(t *testing.T) {
				bubble(t, oneWorker, func(t *testing.T, w *world) { hangs(t, w, source, cause) })
			})
		}
	}
}

func hangs(t *testing.T, w *world, source, cause string) {
	m := &stuckMailbox{mailbox: mailbox{page: 2}, free: make(chan struct{})}
	registered := func() {
		var err error
		if source == "both" {
			_, err = RegisterBoth(w.Server, incidentType("e"), m.check, Hooks[filterArgs, incident]{}, WithNextPoll(time.Second), WithSharedCheck())
		} else {
			err = RegisterCheck(w.Server, incidentType("e"), m.check, Hooks[filterArgs, incident]{}, WithNextPoll(time.Second), WithSharedCheck())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	registered()
	other := register(t, w.Server, "other", Hooks[filterArgs, incident]{})
	to := func(path string) string { return "http://receiver.test/" + path }
	began := w.subscribe("alice", params(to("alice"), secretA, "")).Cursor
	w.subscribe("bob", strings.Replace(params(to("bob"), secretA, ""), `"e"`, `"other"`, 1))
	var want []string
	for i := range 8 {
		m.put("", mail(fmt.Sprint("m", i)))
		want = append(want, fmt.Sprint("m", i))
	}
	w.settle(10 * time.Second)
	got := func(path string) (ids []string) {
		for _, d := range w.r.all() {
			if d.url == to(path) {
				ids = append(ids, d.short())
			}
		}
		slices.SortFunc(ids, byNumber)
		return ids
	}
	wantStrings(t, "to alice", got("alice"), want...)

	// Carol begins far behind the feed: what her first page does not hold she has to ask for.
	reader := "carol"
	switch cause {
	case "a new definition":
		reader = "alice"
		m.behind.Store(1 << 40)
		registered()
	default:
		m.put("", mail("m8"))
		want = append(want, "m8")
		w.restart(nil) // so that the feed's log does not hold what she asks for
		registered()
		other = register(t, w.Server, "other", Hooks[filterArgs, incident]{})
		w.subscribe("bob", strings.Replace(params(to("bob"), secretA, ""), `"e"`, `"other"`, 1))
		w.subscribe("alice", params(to("alice"), secretA, "")) // the feed is live at its head
		w.subscribe("carol", params(to("carol"), secretA, fmt.Sprintf(`,"cursor":%q`, *began)))
		m.behind.Store(9)
	}
	w.settle(5 * time.Second)
	if m.hung.Load() == 0 {
		t.Fatal("nothing hangs")
	}
	for i := range 5 {
		emit(t, other, incident{ID: fmt.Sprint("x", i)})
	}
	w.settle(5 * time.Second)
	wantStrings(t, "to bob", got("bob"), "x0", "x1", "x2", "x3", "x4")

	switch cause {
	case "the end of the server":
		if err := w.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		return
	case "unsubscribing":
		w.unsubscribe(reader, to(reader))
		w.settle(time.Second)
		if hung, left := m.hung.Load(), m.left.Load(); left != hung {
			t.Errorf("of %d hung checks %d were told that nobody waits for them any more", hung, left)
		}
		if n := w.types["e"].feeds.Len(); n != 1 { // alice's
			t.Errorf("%d feeds", n)
		}
		return
	}
	close(m.free)
	m.put("", mail("m9"))
	want = append(want, "m9")
	w.settle(30 * time.Second)
	wantStrings(t, "to "+reader, slices.Compact(got(reader)), want...)
}

// What a check found is kept until it is settled, up to a number of bytes: then the check is asked no
// more until something is. subscriber.feedReader.full carries it (CAP-5).
func TestFoundIsBounded(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		const each = 200 << 10
		m := &mailbox{page: 10}
		registerMailbox(t, w.Server, m, WithNextPoll(time.Second))
		w.subscribe("alice", params(plain, secretA, ""))
		w.r.on(func(rw http.ResponseWriter, d *delivered) bool {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
		const n = 50
		var want []string
		for i := range n {
			item := mail(fmt.Sprint("m", i))
			item.Data.Service = strings.Repeat("s", each)
			m.put("alice", item)
			want = append(want, item.ID)
		}
		w.settle(time.Minute)
		kept := func() (bytes, sum int) {
			h := w.live().Holding()
			return h.Counted, h.Found
		}
		if bytes, sum := kept(); bytes != sum || bytes < subscriber.MaxFoundBytes || bytes > subscriber.MaxFoundBytes+topic.PullBytes+each+1024 {
			t.Errorf("%d bytes are kept, %d are counted", sum, bytes)
		}
		w.r.on(nil)
		w.settle(20 * time.Minute)
		got := []string{}
		for _, d := range w.r.all() {
			got = append(got, d.short())
		}
		slices.SortFunc(got, byNumber)
		wantStrings(t, "delivered in the end", slices.Compact(got), want...)
		if bytes, sum := kept(); bytes != 0 || sum != 0 {
			t.Errorf("%d bytes stay counted, %d kept", bytes, sum)
		}
	})
}

// HOOK-4: a Transform that hangs holds the worker that runs it, one for a subscription, and no more:
// who has other arguments and was delivered to before has the workers that are left, and what was held
// up goes on when it answers. docs/hooks.md says so.
func TestHOOK4HangingTransform(t *testing.T) {
	const workers = 4
	few := func(o *Options) {
		oneWorker(o)
		o.webhook().Retry.Workers = workers
	}
	bubble(t, few, func(t *testing.T, w *world) {
		var hung atomic.Int64
		free := make(chan struct{})
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{Transform: func(ctx context.Context, _ *incident, a *filterArgs) error {
			if !a.Redact {
				return nil
			}
			hung.Add(1)
			select {
			case <-free:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}})
		to := func(path string) string { return "http://receiver.test/" + path }
		for i := range workers / 2 {
			w.subscribe(fmt.Sprint("alice", i), params(to(fmt.Sprint("slow", i)), secretA, fmt.Sprintf(`,"arguments":{"redact":true,"minLevel":%d}`, i+1)))
		}
		w.subscribe("bob", params(to("bob"), secretA, ""))
		w.settle(5 * time.Second)
		emit(t, e, incident{ID: "x1"}) // to bob, whose endpoint is known from then on
		w.settle(5 * time.Second)
		want := []string{"x1"}
		for i := range 20 {
			id := fmt.Sprint("i", i)
			want = append(want, id)
			emit(t, e, incident{ID: id, Level: 9})
			w.settle(time.Second)
		}
		if n := hung.Load(); n != workers/2 {
			t.Errorf("%d hang", n)
		}
		delivered := func(path string) (ids []string) {
			for _, d := range w.r.all() {
				if d.url == to(path) {
					ids = append(ids, d.short())
				}
			}
			return ids
		}
		wantStrings(t, "to bob", delivered("bob"), want...)
		wantStrings(t, "to one that hangs", delivered("slow0"))
		close(free)
		w.settle(time.Minute)
		got := delivered("slow0")
		slices.SortFunc(got, byNumber)
		wantStrings(t, "after it has answered", got, want[1:]...)
	})
}
