package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// REP-12, SUB-8: processes together never exceed a quota, however many are asked at once; who is refused has
// ResourceExhausted, and OnUnsubscribe where OnSubscribe ran.
func TestREP12QuotaOverProcesses(t *testing.T) {
	hooks := &journal{}
	f := newFleet(t, 3, func(f *fleet) {
		f.options.Webhook.Quota = Quota{PerPrincipal: 4, Total: 6}
		f.hooks.OnSubscribe = func(_ context.Context, s Subscription, _ *filterArgs) error {
			if !s.Restored {
				hooks.add("on")
			}
			return nil
		}
		f.hooks.OnUnsubscribe = func(context.Context, Subscription, *filterArgs) { hooks.add("off") }
	})
	f.settled()
	var wg sync.WaitGroup
	var admitted, refused atomic.Int64
	for i := range 24 {
		m := f.members[i%3]
		principal := []string{"ann", "bob"}[i/3%2]
		wg.Go(func() {
			_, rerr := call(m.Server, principal, wire.MethodSubscribe, params(plain, secretA, fmt.Sprintf(`,"arguments":{"minLevel":%d}`, i)))
			switch {
			case rerr == nil:
				admitted.Add(1)
			case strings.Contains(string(rerr.Data), `"subscriptions"`):
				refused.Add(1)
			default:
				t.Errorf("%d %s %s", rerr.Code, rerr.Message, rerr.Data)
			}
		})
	}
	wg.Wait()
	if admitted.Load() != 6 || refused.Load() != 18 {
		t.Fatalf("%d were admitted, %d refused", admitted.Load(), refused.Load())
	}
	if own, all, err := f.members[0].store.CountSubscriptions(t.Context(), "ann"); err != nil || own > 4 || all != 6 {
		t.Fatalf("%d of %d, %v", own, all, err)
	}
	on, off := 0, 0
	for _, l := range hooks.lines() {
		if l == "on" {
			on++
		} else {
			off++
		}
	}
	if on-off != 6 {
		t.Errorf("%d were asked and %d told of an end", on, off)
	}
}

// REP-11: processes that are asked for one subscription at once make one.
func TestREP11SameKeyAtOnce(t *testing.T) {
	f := newFleet(t, 3, nil)
	f.settled()
	for round := range 5 {
		url := fmt.Sprint(plain, round)
		waitUntil(t, "all know of what was emitted", func() bool { // a head is a cache (REP-3)
			for _, m := range f.members {
				if m.types["e"].topic.Head() != store.Position(round) {
					return false
				}
			}
			return true
		})
		var wg sync.WaitGroup
		ids := make([]string, 6)
		for i := range ids {
			wg.Go(func() { ids[i] = f.members[i%3].subscribe(t, "ann", params(url, secretA, "")).ID })
		}
		wg.Wait()
		for _, id := range ids {
			if id != ids[0] {
				t.Fatal(ids)
			}
		}
		f.owner(ids[0])
		emit(t, f.members[round%3].emitter, incident{ID: fmt.Sprint("i", round)})
		waitUntil(t, "the delivery", func() bool { return len(f.r.to(url)) > 0 })
		f.members[0].unsubscribe(t, "ann", url)
	}
	time.Sleep(200 * time.Millisecond)
	for round := range 5 {
		wantStrings(t, "delivered", f.r.to(fmt.Sprint(plain, round)), fmt.Sprint("i", round))
	}
}

// REP-13: what an operator asks a process for that does not deliver happens where the subscription lives.
func TestREP13ActionsReachTheOwner(t *testing.T) {
	f := newFleet(t, 2, nil)
	f.settled()
	s := f.members[0].subscribe(t, "ann", params(plain, secretA, ""))
	owner, other := f.owner(s.ID), f.other(s.ID)
	admin := other.Admin()
	ctx := t.Context()
	emit(t, other.emitter, incident{ID: "1"})
	waitUntil(t, "the first", func() bool { return len(f.r.to(plain)) == 1 })
	first := *f.r.last().body.Cursor

	if err := admin.Pause(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "paused", func() bool { return owner.webhooks.Get(s.ID).Handle.Status().Paused })
	emit(t, other.emitter, incident{ID: "2"})
	time.Sleep(300 * time.Millisecond)
	if again := other.subscribe(t, "ann", params(plain, secretA, "")); again.DeliveryStatus == nil || again.DeliveryStatus.Active {
		t.Errorf("the status of a paused one: %+v", again.DeliveryStatus)
	}
	wantStrings(t, "while paused", f.r.to(plain), "1")
	if i, err := admin.Get(ctx, s.ID); err != nil || i.State != StatePaused {
		t.Errorf("%+v %v", i, err)
	}
	if err := admin.Unpause(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "after the pause", func() bool { return len(f.r.to(plain)) == 2 })

	waitUntil(t, "the attempt is stored", func() bool {
		made, err := admin.Attempts(ctx, s.ID)
		return err == nil && len(made) == 2
	})
	made, err := admin.SendAgain(ctx, s.ID, "1")
	if err != nil || made.EventID != "1" || made.Number != 2 || made.Status != 200 {
		t.Fatalf("%+v, %v", made, err)
	}
	wantStrings(t, "sent again", f.r.to(plain), "1", "2", "1")
	if _, err := admin.SendAgain(ctx, s.ID, "none"); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("an unknown occurrence: %v", err)
	}

	if err := admin.Replay(ctx, s.ID, first); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "replayed", func() bool { return strings.Join(f.r.to(plain), " ") == "1 2 1 2" })
	if err := admin.Replay(ctx, s.ID, "nonsense"); !errors.Is(err, events.ErrInvalidParams) {
		t.Errorf("a malformed cursor: %v", err)
	}
	if _, err := admin.RaiseGap(ctx, Target{ID: s.ID}); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the gap", func() bool { return f.r.last().short() == "gap" })
	waitUntil(t, "the next response tells of it", func() bool {
		r, ok, err := other.store.Subscription(ctx, s.ID)
		return err == nil && ok && r.Truncated
	})
	if again := other.subscribe(t, "ann", params(plain, secretA, "")); !again.Truncated {
		t.Error("the response does not tell of the gap")
	}
	if again := owner.subscribe(t, "ann", params(plain, secretA, "")); again.Truncated {
		t.Error("the gap is told of twice")
	}
	if err := admin.Resume(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	if err := admin.End(ctx, s.ID, nil); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "terminated", func() bool { return strings.HasPrefix(f.r.last().short(), "terminated") })
	for _, err := range []error{admin.Pause(ctx, s.ID), admin.Resume(ctx, s.ID), admin.End(ctx, s.ID, nil), admin.Replay(ctx, s.ID, first)} {
		if !errors.Is(err, events.ErrNotFound) {
			t.Errorf("of one that has ended: %v", err)
		}
	}
}

// REP-13: revoking, checking again and hiding end subscriptions wherever they live; one that began after it
// was revoked goes on.
func TestREP13RevokeElsewhere(t *testing.T) {
	var hidden atomic.Bool
	var refused atomic.Bool
	f := newFleet(t, 2, func(f *fleet) {
		f.options.Visible = func(context.Context, string, string) bool { return !hidden.Load() }
		f.hooks.Authorize = func(context.Context, string, *filterArgs) error {
			if refused.Load() {
				return events.Forbidden("no more")
			}
			return nil
		}
	})
	f.settled()
	begin := func() (string, *sailor) {
		s := f.members[0].subscribe(t, "ann", params(plain, secretA, ""))
		f.owner(s.ID)
		return s.ID, f.other(s.ID)
	}
	ended := func(want string) {
		t.Helper()
		waitUntil(t, want, func() bool { return f.r.last().short() == want })
	}
	_, other := begin()
	if err := other.Revoke(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	ended(`terminated -32012 Forbidden {"reason":"access revoked"}`)
	then := time.Now()
	id, other := begin()
	again, err := json.Marshal(order{Kind: orderRevoke, Principal: "ann", At: then}) // somebody hears of it late, or twice
	if err != nil {
		t.Fatal(err)
	}
	log, _, err := other.control.at(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(t.Context(), store.Entry{EventID: "again", Timestamp: events.NewTime(then), Data: again}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	if f.owner(id).webhooks.Get(id) == nil {
		t.Fatal("what began after it was revoked has ended")
	}
	refused.Store(true)
	if err := other.Recheck(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	ended(`terminated -32012 Forbidden {"reason":"no more"}`)
	refused.Store(false)
	_, other = begin()
	hidden.Store(true)
	if err := other.RefreshVisibility(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "hidden", func() bool { return strings.Contains(f.r.last().short(), "NotFound") })
	hidden.Store(false)
	_, other = begin()
	if _, err := other.Admin().Terminate(t.Context(), Target{Event: "e"}, events.Forbidden("closed")); err != nil {
		t.Fatal(err)
	}
	ended(`terminated -32012 Forbidden {"reason":"closed"}`)
}

// REP-13: what was ordered while the owner was dying is done by who takes over, with its envelope; one that
// was done long before is not done again to what began since.
func TestREP13OrdersSurviveTheOwner(t *testing.T) {
	f := newFleet(t, 2, func(f *fleet) { f.options.Replica.Lease = 2 * time.Second })
	f.settled()
	var ids []string
	for i := range 3 {
		ids = append(ids, f.members[0].subscribe(t, fmt.Sprint("p", i), params(fmt.Sprint(plain, i), secretA, `,"arguments":{"severity":"P1"}`)).ID)
	}
	owner := f.owner(ids[0])
	other := f.other(ids[0])
	f.sink(owner)
	if err := other.Revoke(t.Context(), "p0"); err != nil {
		t.Fatal(err)
	}
	if err := other.Admin().End(t.Context(), ids[1], events.Forbidden("one")); err != nil {
		t.Fatal(err)
	}
	emit(t, other.emitter, incident{ID: "1", Severity: "P1"})
	f.settled()
	waitUntil(t, "both envelopes and the third's delivery", func() bool {
		return len(f.r.to(plain+"0")) > 0 && len(f.r.to(plain+"1")) > 0 && len(f.r.to(plain+"2")) > 0
	})
	time.Sleep(200 * time.Millisecond)
	wantStrings(t, "of whom everything was revoked", f.r.to(plain+"0"), `terminated -32012 Forbidden {"reason":"access revoked"}`)
	wantStrings(t, "of the one that was ended", f.r.to(plain+"1"), `terminated -32012 Forbidden {"reason":"one"}`)
	wantStrings(t, "of the third", f.r.to(plain+"2"), "1")
	again := other.subscribe(t, "p0", params(plain+"0", secretA, `,"arguments":{"severity":"P1"}`))
	f.owner(again.ID)
	f.join()
	f.settled()
	survivor := f.other(again.ID)
	f.sink(f.owner(again.ID))
	pgtest.Exec(t, pgtest.URL(t), fmt.Sprintf(`UPDATE %s.marks SET position = 0 WHERE log = '/control'`, f.schema)) // as if nobody had noted it
	f.settled()
	if survivor.webhooks.Get(again.ID) == nil {
		t.Error("what began after the order has ended by it")
	}
}

// SUB-5, REP-11: a refresh that nobody heard of, since the owner was dying, reactivates all the same.
func TestREP11RefreshOfASuspendedOneSurvivesTheOwner(t *testing.T) {
	f := newFleet(t, 2, func(f *fleet) {
		f.options.Replica.Lease = 2 * time.Second
		f.options.Webhook.Retry.Suspend = Suspension{Min: 1}
		f.options.Webhook.Retry.Schedule = []time.Duration{0, time.Hour}
	})
	f.settled()
	sub := f.members[0].subscribe(t, "ann", params(plain, secretA, ""))
	f.r.on(refuseAll)
	owner, other := f.owner(sub.ID), f.other(sub.ID)
	emit(t, other.emitter, incident{ID: "1"})
	waitUntil(t, "it is suspended", func() bool {
		r, ok, err := other.store.Subscription(t.Context(), sub.ID)
		return err == nil && ok && r.Health.Suspended
	})
	f.sink(owner)
	f.r.on(nil)
	if again := other.subscribe(t, "ann", params(plain, secretA, "")); again.DeliveryStatus == nil || again.DeliveryStatus.Active {
		t.Errorf("%+v", again.DeliveryStatus)
	}
	emit(t, other.emitter, incident{ID: "2"})
	waitUntil(t, "it goes on", func() bool { return covers(f.r.to(plain), []string{"1", "2"}) })
}

// REP-17, SUB-11: OnSubscribe runs where a subscription is asked for and at each takeover, then with Restored;
// a handover calls OnUnsubscribe nowhere, an unsubscribe calls it once.
func TestREP17Hooks(t *testing.T) {
	hooks := &journal{}
	f := newFleet(t, 1, func(f *fleet) {
		f.hooks.OnSubscribe = func(_ context.Context, s Subscription, _ *filterArgs) error {
			hooks.add(fmt.Sprint("on ", s.Restored))
			return nil
		}
		f.hooks.OnUnsubscribe = func(context.Context, Subscription, *filterArgs) { hooks.add("off") }
	})
	f.settled()
	s := f.members[0].subscribe(t, "ann", params(plain, secretA, ""))
	wantStrings(t, "asked at the owner", hooks.lines(), "on false")
	f.join()
	f.settled()
	f.leave(f.members[0])
	f.settled()
	f.owner(s.ID)
	f.join()
	f.settled()
	f.leave(f.members[1])
	f.settled()
	owner := f.owner(s.ID)
	for i, l := range hooks.lines() {
		if want := fmt.Sprint("on ", i > 0); l != want {
			t.Fatalf("hooks %v", hooks.lines())
		}
	}
	n := len(hooks.lines())
	owner.unsubscribe(t, "ann", plain)
	wantStrings(t, "the end", hooks.lines()[n:], "off")
	f.join()
	f.settled()
	for i := range 8 { // some of them are asked for where they will not live
		n := len(hooks.lines())
		url := fmt.Sprint(plain, i)
		s := f.members[3].subscribe(t, "ann", params(url, secretA, ""))
		owner := f.owner(s.ID)
		want := []string{"on false"}
		if owner != f.members[3] {
			want = append(want, "on true")
		}
		waitUntil(t, "OnSubscribe", func() bool { return len(hooks.lines()) >= n+len(want) })
		wantStrings(t, "asked at "+f.members[3].name+", lives at "+owner.name, hooks.lines()[n:], want...)
		n = len(hooks.lines())
		f.members[3].unsubscribe(t, "ann", url)
		waitUntil(t, "OnUnsubscribe", func() bool { return len(hooks.lines()) > n })
		wantStrings(t, "ended", hooks.lines()[n:], "off")
	}
}

// A shifted store has another time than its processes, but for the expiry of leases.
type shifted struct {
	*postgres.Store
	by time.Duration
}

func (s shifted) Join(ctx context.Context, name string, ttl time.Duration, types map[string]string) (store.Lease, error) {
	l, err := s.Store.Join(ctx, name, ttl, types)
	l.Now = l.Now.Add(s.by)
	return l, err
}

func (s shifted) Renew(ctx context.Context, fence uint64, ttl time.Duration, types map[string]string) (store.Lease, error) {
	l, err := s.Store.Renew(ctx, fence, ttl, types)
	l.Now = l.Now.Add(s.by)
	return l, err
}

func (s shifted) Cluster(ctx context.Context) (store.Cluster, error) {
	c, err := s.Store.Cluster(ctx)
	c.Now = c.Now.Add(s.by)
	return c, err
}

// REP-8: every time that is stored or signed is the store's.
func TestREP8TimesAreTheStores(t *testing.T) {
	const by = -50 * time.Hour
	f := newFleet(t, 0, nil)
	o := f.options
	st := openShared(t, f.schema, postgres.Options{})
	o.Store = shifted{st, by}
	s := newServer(t, o)
	e := register(t, s, "e", Hooks[filterArgs, incident]{})
	m := &sailor{member: member{s, st}, emitter: e, name: "shifted"}
	f.members = append(f.members, m)
	close := func(what string, at time.Time, after time.Duration) {
		t.Helper()
		if d := time.Until(at) - by - after; d > time.Minute || d < -time.Minute {
			t.Errorf("%s is %v, %v from the store's time", what, at, d)
		}
	}
	f.settled()
	got := m.subscribe(t, "ann", params(plain, secretA, `,"ttlMs":3600000`))
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
	m.subscribe(t, "ann", params(plain, secretB, ""))
	r, _, err := st.Subscription(t.Context(), got.ID)
	if err != nil {
		t.Fatal(err)
	}
	close("created", r.CreatedAt, 0)
	close("refreshed", r.RefreshedAt, 0)
	close("paused", r.PausedAt, 0)
	close("last delivery", r.Health.LastDeliveryAt, 0)
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
