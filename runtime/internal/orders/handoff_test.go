package orders

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A taken shard has what its owners stored of the control log.
type taken struct {
	engine.Owned
	mark  store.Position
	marks int
	fails error
}

func (s *taken) Mark(context.Context, string) (store.Position, error) {
	return s.mark, s.fails
}

func (s *taken) SaveMark(_ context.Context, log string, to store.Position) error {
	if log != engine.ControlLog {
		return fmt.Errorf("log %q", log)
	}
	if s.fails == nil {
		s.mark, s.marks = to, s.marks+1
	}
	return s.fails
}

// ends is what the record is to end with; "" for nothing.
func ends(t *testing.T, h subscriber.Orders, r store.Subscription) string {
	t.Helper()
	e, err := h.Ends(t.Context(), &r)
	must(t, err)
	if e == nil {
		return ""
	}
	return string(e.Data)
}

// REP-13: whoever takes up a shard ends what orders end that its owner did not do, and what is ordered while it takes
// up; not what began after an order, nor what another order is about.
func TestREP13HandoffEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		a := join(t, c, false)
		early := time.Now()
		time.Sleep(time.Second)
		must(t, a.Tell(t.Context(), Order{Kind: Revoke, Principal: "ann"}))
		must(t, a.Tell(t.Context(), Order{Kind: Revoke, Principal: "bob", Names: []string{"f"}}))
		must(t, a.Tell(t.Context(), To(operator.Target{ID: "s1"}, Terminate, events.Forbidden("over"))))
		must(t, a.Tell(t.Context(), To(operator.Target{Event: "e"}, Terminate, events.Forbidden("the type"))))
		heir := join(t, c, false) // it follows from here on: the rest it reads again
		h, err := heir.Handoff(t.Context(), &taken{}, false)
		must(t, err)
		time.Sleep(time.Second)
		const revoked, over = `{"reason":"access revoked"}`, `{"reason":"over"}`
		for _, c := range []struct {
			r    store.Subscription
			want string
		}{
			{store.Subscription{ID: "x", Principal: "ann", Event: "e", CreatedAt: early}, revoked},
			{store.Subscription{ID: "x", Principal: "ann", Event: "e", CreatedAt: time.Now()}, ""},
			{store.Subscription{ID: "x", Principal: "bob", Event: "f", CreatedAt: early}, revoked},
			{store.Subscription{ID: "x", Principal: "bob", Event: "e", CreatedAt: early}, ""},
			{store.Subscription{ID: "s1", Principal: "eve", Event: "e", CreatedAt: early}, over},
			{store.Subscription{ID: "s1", Principal: "eve", Event: "e", CreatedAt: time.Now()}, ""},
			{store.Subscription{ID: "s2", Principal: "eve", Event: "e", CreatedAt: early}, ""},
		} {
			if got := ends(t, h, c.r); got != c.want {
				t.Errorf("%s of %s to %s: %q, want %q", c.r.ID, c.r.Principal, c.r.Event, got, c.want)
			}
		}
		late := store.Subscription{ID: "s3", Principal: "eve", Event: "e", CreatedAt: time.Now()}
		time.Sleep(time.Second)
		must(t, a.Tell(t.Context(), Order{Kind: Revoke, Principal: "eve"}))
		time.Sleep(time.Second)
		if got := ends(t, h, late); got != revoked {
			t.Errorf("while it is taken up: %q", got)
		}
		heir.took()
		heir.mu.Lock()
		heir.fails = map[string]error{"live": errors.New("one fails, the others are done")}
		heir.mu.Unlock()
		must(t, h.Finish(t.Context(), func(*subscriber.Live) bool { return true }))
		heir.did(t, "the live ones", "live revoke ann", "live revoke bob", "live terminate s1", "live revoke eve")
	})
}

// REP-13: how far orders are done is stored at once where it is asked for or an order concerns subscriptions, else now
// and then; an empty shard has nothing to make up for.
func TestREP13HandoffMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		a, b := join(t, c, false), join(t, c, false)
		must(t, a.Tell(t.Context(), Order{Kind: Revoke, Principal: "ann"}))
		time.Sleep(time.Second)
		shard := &taken{}
		h, err := b.Handoff(t.Context(), shard, true)
		must(t, err)
		if got := ends(t, h, store.Subscription{ID: "x", Principal: "ann"}); got != "" {
			t.Errorf("a shard without subscriptions: %q", got)
		}
		marked := func(what string, at store.Position, n int) {
			t.Helper()
			must(t, h.Mark(t.Context(), shard, false))
			if shard.mark != at || shard.marks != n {
				t.Errorf("%s: marked %d times, up to %d", what, shard.marks, shard.mark)
			}
		}
		marked("an order that concerns subscriptions", 1, 1)
		must(t, a.Tell(t.Context(), Order{Kind: Visibility}))
		time.Sleep(time.Second)
		marked("one that concerns none", 1, 1)
		time.Sleep(markOrders)
		marked("a while later", 2, 2)
		marked("nothing new", 2, 2)
		must(t, a.Tell(t.Context(), Order{Kind: Visibility}))
		time.Sleep(time.Second)
		shard.fails = errors.New("no")
		if err := h.Mark(t.Context(), shard, true); !errors.Is(err, shard.fails) {
			t.Errorf("got %v", err)
		}
		if _, err := b.Handoff(t.Context(), shard, false); !errors.Is(err, shard.fails) {
			t.Errorf("got %v", err)
		}
		shard.fails = nil
		must(t, h.Mark(t.Context(), shard, true))
		if shard.mark != 3 {
			t.Errorf("marked up to %d", shard.mark)
		}
		time.Sleep(lateRecord)
		must(t, h.Mark(t.Context(), shard, true))
		time.Sleep(lateRecord)
		must(t, h.Mark(t.Context(), shard, true))
		if from := h.(*handoff).from; from != 3 {
			t.Errorf("it looks through what is after %d", from)
		}
	})
}

// What is remembered of orders is bounded; what is older is read again.
func TestREP13ManyOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		b := join(t, c, false)
		h, err := b.Handoff(t.Context(), &taken{}, false)
		must(t, err)
		r := store.Subscription{ID: "x", Principal: "p0", CreatedAt: time.Now()}
		time.Sleep(time.Second)
		a := join(t, c, true)
		for i := range maxRecent + 100 {
			must(t, a.Tell(t.Context(), Order{Kind: Revoke, Principal: fmt.Sprint("p", i)}))
		}
		time.Sleep(time.Minute)
		b.backlog.mu.Lock()
		kept, since := len(b.backlog.recent), b.backlog.since
		b.backlog.mu.Unlock()
		if kept > maxRecent || since == 0 {
			t.Errorf("%d are kept, since %d", kept, since)
		}
		if got := ends(t, h, r); got == "" {
			t.Error("the first order is forgotten")
		}
	})
}
