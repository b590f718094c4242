package clustertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// operatorTests contains the tests of an operator that inspects and changes all processes through one of them.
var operatorTests = []test{
	{name: "SRV-8, REP-6: each process shows all processes and unowned work", run: clusterIsSeen},
	{name: "SRV-8, REP-13: the actor of an attempt is recorded wherever it is made, and a replay ends at its last position", run: askedElsewhere},
	{name: "SRV-8, REP-13: two operators at two processes resend abandoned events once", run: sentOnce},
	{name: "SRV-8, REP-13: a loop at one process pauses all deliveries, and one at another unpauses them", run: pausedElsewhere},
	{name: "SRV-8, REP-13: a loop ends all replays wherever they run, including those of a dead process", run: replaysElsewhere, long: true},
}

// forEach calls do through one process for each subscription for which needs returns true, page by page. It returns the
// number of successful calls and ignores subscriptions that have ended.
func (f *fleet) forEach(m *member, filter operator.Filter, needs func(i *operator.WebhookInfo) bool, do func(ctx context.Context, i *operator.WebhookInfo) error) (n int) {
	f.Helper()
	ctx := operator.WithActor(f.Context(), "olga")
	for after := ""; ; {
		page, next, err := m.Admin().Find(ctx, filter, after, 4)
		if err != nil {
			f.Fatal(err)
		}
		for _, i := range page {
			if !needs(&i) {
				continue
			}
			switch err := do(ctx, &i); {
			case err == nil:
				n++
			case !errors.Is(err, events.ErrNotFound):
				f.Errorf("subscription %s: %v", i.ID, err)
			}
		}
		if after = next; next == "" {
			return n
		}
	}
}

func isPaused(i *operator.WebhookInfo) bool  { return i.State == operator.StatePaused }
func notPaused(i *operator.WebhookInfo) bool { return i.State != operator.StatePaused }

// isReplaying reports whether a replay of the subscription is in progress.
func isReplaying(i *operator.WebhookInfo) bool { return i.Replay != nil }

// replaying returns the number of subscriptions with a replay in progress that is visible to a process.
func (f *fleet) replaying(m *member) int {
	f.Helper()
	return f.forEach(m, operator.Filter{}, isReplaying, func(context.Context, *operator.WebhookInfo) error { return nil })
}

func clusterIsSeen(f *fleet) {
	f.start(2)
	a, b := f.members[0], f.members[1]
	_, outbox := f.watch.(engine.Outbox)
	every := 1 // duties: retention, and the outbox of a store that has one
	if outbox {
		every = 2
	}
	see := func(m *member) operator.Cluster {
		f.Helper()
		c, err := m.Admin().Cluster(f.Context())
		if err != nil {
			f.Fatal(err)
		}
		return c
	}
	for _, m := range []*member{a, b} {
		f.wait("all shards have owners", func() bool {
			c := see(m)
			shards, duties := 0, 0
			for _, r := range c.Replicas {
				if r.This != (r.Name == m.name) {
					return false
				}
				shards += r.Shards[f.typ.Info.Name]
				duties += r.Shards["/outbox"] + r.Shards["/retention"]
			}
			return len(c.Replicas) == 2 && c.Leased && len(c.Unowned) == 0 && shards == 16 && duties == every && !c.HeardAt.IsZero() && (c.OutboxAge != nil) == outbox
		})
	}
	f.disconnect(b)
	f.wait("the dead process is gone, and all work has owners", func() bool {
		c := see(a)
		return len(c.Replicas) == 1 && len(c.Unowned) == 0 && c.Replicas[0].Shards[f.typ.Info.Name] == 16 && (c.OutboxAge != nil) == outbox
	})
}

func askedElsewhere(f *fleet) {
	f.start(2)
	id := f.members[0].subscribe("ann", params(hook(0), secretA, "")).ID
	admin := f.other(id).Admin()
	for i := range 4 {
		f.members[0].emit(incident{ID: fmt.Sprint(i + 1)})
	}
	delivered := func(n int) func() bool { return func() bool { return len(f.r.requestsTo(hook(0))) == n } }
	f.soon("all", delivered(4))
	f.soon("the attempts are stored", func() bool {
		made, err := admin.Attempts(f.Context(), id)
		return err == nil && len(made) == 4
	})
	ctx := operator.WithActor(f.Context(), "olga")
	if made, err := admin.SendAgain(ctx, id, "1", time.Time{}); err != nil || made.AskedBy != "olga" {
		f.Errorf("%+v %v", made, err)
	}
	at, err := admin.Locate(ctx, f.typ.Info.Name, operator.Point{Position: 2})
	if err != nil {
		f.Fatal(err)
	}
	if err := admin.Replay(operator.WithActor(f.Context(), "ivan"), id, at.Cursor, 3); err != nil {
		f.Fatal(err)
	}
	f.soon("the replay", delivered(7))
	f.idle()
	got := f.r.requestsTo(hook(0))
	slices.Sort(got)
	f.equal("delivered", got, "1", "1", "2", "2", "3", "3", "4")
	var asked []string
	f.soon("the actors", func() bool {
		made, err := admin.Attempts(f.Context(), id)
		asked = nil
		for _, a := range made {
			asked = append(asked, a.EventID+a.AskedBy)
		}
		slices.Sort(asked)
		return err == nil && len(made) == 7
	})
	f.equal("the actors", asked, "1", "1olga", "2", "2ivan", "3", "3ivan", "4")

	// A replay in progress is visible through another process and can be ended there. Otherwise, EndReplay returns
	// events.ErrNotFound.
	none := func(when string) {
		f.Helper()
		if err := admin.EndReplay(ctx, id); !errors.Is(err, events.ErrNotFound) {
			f.Errorf("%s: %v", when, err)
		}
		f.wait(when+" no replay can be ended", func() bool { // the owner's report of its replays is a few seconds old
			return f.replaying(f.other(id)) == 0
		})
	}
	none("before")
	owner := f.owner(id).Admin()
	if err := admin.Pause(ctx, id); err != nil {
		f.Fatal(err)
	}
	replaying := func(want bool) func() bool {
		return func() bool {
			i, err := owner.Get(f.Context(), id)
			return err == nil && (i.Replay != nil) == want
		}
	}
	f.soon("the pause", func() bool {
		i, err := owner.Get(f.Context(), id)
		return err == nil && i.State == operator.StatePaused
	})
	if err := admin.Replay(ctx, id, at.Cursor, 0); err != nil {
		f.Fatal(err)
	}
	f.soon("another replay", replaying(true))
	f.wait("the replay is visible here", func() bool {
		one, err := admin.Get(f.Context(), id)
		all, listErr := admin.List(f.Context(), "", 10)
		found, _, findErr := admin.Find(f.Context(), operator.Filter{}, "", 10)
		if err != nil || listErr != nil || findErr != nil || len(all) != 1 || len(found) != 1 {
			f.Fatal(all, found, err, listErr, findErr)
		}
		want := operator.Replay{AskedBy: "olga", Left: 3}
		return one.Replay != nil && *one.Replay == want && all[0].Replay != nil && found[0].Replay != nil && *found[0].Replay == want
	})
	if n := f.replaying(f.other(id)); n != 1 {
		f.Errorf("%d to end", n)
	}
	if err := admin.EndReplay(ctx, id); err != nil {
		f.Fatal(err)
	}
	if !replaying(false)() {
		f.Error("EndReplay returned, but the replay has not ended")
	}
	f.wait("the end of the replay is visible here", func() bool {
		i, err := admin.Get(f.Context(), id)
		if err != nil {
			f.Fatal(err)
		}
		return i.Replay == nil
	})
	none("after the end")
	if err := admin.Unpause(ctx, id); err != nil {
		f.Fatal(err)
	}
	f.idle()
	if got := f.r.requestsTo(hook(0)); len(got) != 7 {
		f.Errorf("after the end of a replay: %q", got)
	}
}

func sentOnce(f *fleet) {
	f.webhooks.Retry.Schedule = []time.Duration{0, 50 * time.Millisecond}
	f.start(2)
	var ids []string
	for i := range 6 {
		ids = append(ids, f.members[i%2].subscribe("ann", params(hook(i), secretA, "")).ID)
	}
	began := time.Now().Add(-time.Minute)
	f.r.setHandler(refuse)
	for i := range 3 {
		f.members[0].emit(incident{ID: fmt.Sprint(i + 1)})
	}
	given := func(m *member, after string, limit int) ([]operator.Abandoned, string) {
		f.Helper()
		found, next, err := m.Admin().Abandoned(f.Context(), operator.Filter{Principal: "ann"}, began, time.Time{}, after, limit)
		if err != nil {
			f.Fatal(err)
		}
		return found, next
	}
	for _, m := range f.members {
		f.wait("all events are abandoned", func() bool { found, _ := given(m, "", 100); return len(found) == 18 })
	}
	f.r.setHandler(nil)
	before := map[string]int{}
	for i := range ids {
		before[hook(i)] = len(f.r.requestsTo(hook(i)))
	}
	var lists [2][]operator.Abandoned // both operators list all of them before either begins
	for n, m := range f.members {
		for after := ""; ; {
			found, next := given(m, after, 5)
			lists[n] = append(lists[n], found...)
			if after = next; next == "" {
				break
			}
		}
	}
	var wg sync.WaitGroup
	var done atomic.Int64
	for n, m := range f.members {
		wg.Go(func() {
			ctx := operator.WithActor(f.Context(), fmt.Sprint("operator ", n))
			for _, g := range lists[n] {
				switch made, err := m.Admin().SendAgain(ctx, g.Subscription, g.Attempt.EventID, g.Attempt.At); {
				case err == nil && made.Category == "" && strings.HasPrefix(made.AskedBy, "operator "):
					done.Add(1)
				case !errors.Is(err, operator.ErrUnderWay):
					f.Errorf("%+v: %+v %v", g, made, err)
				}
			}
		})
	}
	wg.Wait()
	f.idle()
	for i := range ids {
		got := f.r.requestsTo(hook(i))[before[hook(i)]:]
		slices.Sort(got)
		f.equal("resent to "+hook(i), got, "1", "2", "3")
	}
	if done.Load() < 18 {
		f.Errorf("both operators did only %d", done.Load())
	}
	if left, _ := given(f.members[1], "", 100); len(left) != 0 {
		f.Errorf("left: %+v", left)
	}
}

func pausedElsewhere(f *fleet) {
	f.start(2)
	a, b := f.members[0], f.members[1]
	const n = 10
	for i := range n {
		f.members[i%2].subscribe("ann", params(hook(i), secretA, ""))
	}
	b.subscribe("bob", params(hook(n), secretA, ""))
	of := operator.Filter{Principal: "ann"}
	pause := func(m *member) int {
		return f.forEach(m, of, notPaused, func(ctx context.Context, i *operator.WebhookInfo) error { return m.Admin().Pause(ctx, i.ID) })
	}
	if got := pause(a); got != n {
		f.Errorf("%d were paused", got)
	}
	f.waitForOrders() // until their owners know of it
	if got := pause(b); got != 0 {
		f.Errorf("%d were paused once more", got)
	}
	a.emit(incident{ID: "1"})
	f.soon("the subscription of another principal", func() bool { return len(f.r.requestsTo(hook(n))) == 1 })
	f.idle()
	for i := range n {
		if got := f.r.requestsTo(hook(i)); len(got) != 0 {
			f.Errorf("%q came to %s while it is paused", got, hook(i))
		}
	}
	if got := f.forEach(b, of, isPaused, func(ctx context.Context, i *operator.WebhookInfo) error { return b.Admin().Unpause(ctx, i.ID) }); got != n {
		f.Errorf("%d were unpaused", got)
	}
	f.wait("all continue", func() bool {
		for i := range n {
			if len(f.r.requestsTo(hook(i))) != 1 {
				return false
			}
		}
		return true
	})
}

func replaysElsewhere(f *fleet) {
	f.start(2)
	a, b := f.members[0], f.members[1]
	const n = 60
	for i := range n {
		f.members[i%2].subscribe(fmt.Sprint("p", i), params(hook(i), secretA, ""))
	}
	a.emit(incident{ID: "1"})
	f.wait("all", func() bool {
		for i := range n {
			if len(f.r.requestsTo(hook(i))) == 0 {
				return false
			}
		}
		return true
	})
	began := time.Now().Add(-time.Hour)
	whole := operator.Filter{}
	f.forEach(a, whole, notPaused, func(ctx context.Context, i *operator.WebhookInfo) error { return a.Admin().Pause(ctx, i.ID) }) // so that replays do not finish
	replay := func(m *member) int {
		f.Helper()
		at, err := m.Admin().Locate(f.Context(), f.typ.Info.Name, operator.Point{Since: began})
		if err != nil {
			f.Fatal(err)
		}
		return f.forEach(m, whole, isPaused, func(ctx context.Context, i *operator.WebhookInfo) error {
			return m.Admin().Replay(ctx, i.ID, at.Cursor, at.Last)
		})
	}
	end := func(m *member) int {
		f.Helper()
		return f.forEach(m, whole, isReplaying, func(ctx context.Context, i *operator.WebhookInfo) error { return m.Admin().EndReplay(ctx, i.ID) })
	}
	if done := replay(a); done != n {
		f.Errorf("%d are replayed", done)
	}
	f.wait("all replays are in progress", func() bool { return f.replaying(a) == n && f.replaying(b) == n })
	if done := end(b); done != n {
		f.Errorf("%d were ended", done)
	}
	f.wait("all replays have ended", func() bool { return f.replaying(a) == 0 && f.replaying(b) == 0 })

	replay(a)
	f.wait("all replays have restarted", func() bool { return f.replaying(b) == n })
	f.disconnect(a)
	time.Sleep(2 * time.Minute)
	if got := f.replaying(b); got != n { // b has taken over the replays of a
		f.Errorf("%d of %d replays continue after a process has died", got, n)
	}
	if done := end(b); done != n {
		f.Errorf("another process ended %d replays", done)
	}
}
