package subscriber_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// SUB-9, REP-11: who unsubscribes at another process, or is ended there, gets nothing that is emitted after the answer,
// although the owner takes its time to look at the record: it sends nothing until it has.
func TestREP11NothingIsSentBeforeTheLook(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		owner, other := f.process().own(), f.process()
		gone, stays := owner.subscribe("ann", origin+"gone"), owner.subscribe("ann", origin+"stays")
		owner.slow(15*time.Second, "Subscription")
		for _, id := range []string{stays.ID, gone.ID} {
			if err := f.tell(t.Context(), id, owner.ownership.hold.Shard); err != nil { // as a change of another kind does
				t.Fatal(err)
			}
		}
		if ok, err := other.Remove(t.Context(), gone.ID); !ok || err != nil {
			t.Fatal(ok, err)
		}
		other.emit("1")
		time.Sleep(time.Minute)
		f.r.wants("unsubscribed elsewhere", "gone")
		f.r.wants("only looked at", "stays", "1")
		owner.hooks("at the owner", "on ann", "on ann", "off ann")
	})
}

// REP-8, REP-11: no attempt begins while the owner does not know the requests of operators, or its ownership has lapsed.
func TestREP11Deaf(t *testing.T) {
	for name, of := range map[string]func(p *process) *atomic.Bool{
		"deaf":   func(p *process) *atomic.Bool { return &p.deaf },
		"lapsed": func(p *process) *atomic.Bool { return &p.ownership.lapsed },
	} {
		bubble(t, func(_ *testing.T, f *deployment) {
			owner := f.process().own()
			owner.subscribe("ann", origin+"a")
			of(owner).Store(true)
			owner.emit("1")
			time.Sleep(time.Minute)
			f.r.wants(name, "a")
			of(owner).Store(false)
			time.Sleep(time.Second)
			f.r.wants("no longer "+name, "a", "1")
		})
	}
}

// REP-11: what another process has made of a record holds at its owner: a new secret, a pause and its end, an earlier
// or later end, and another subscription under the same key.
func TestREP11ChangedElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(f *deployment, other *process, id string)
		want    []string // of two events, one 3 s later and one 3 h later
		signers []string
		hooks   []string // at the owner
	}{
		"nothing": {func(*deployment, *process, string) {}, []string{"1"}, []string{secretA}, []string{"on ann", "off ann"}},
		"a new secret": {func(_ *deployment, other *process, _ string) {
			other.subscribe("ann", origin+"a", withSecret(secretB), lasting(12*time.Hour))
		}, []string{"1", "2"}, []string{secretA, secretB}, []string{"on ann"}},
		"a longer life": {func(_ *deployment, other *process, _ string) {
			other.subscribe("ann", origin+"a", lasting(12*time.Hour))
		}, []string{"1", "2"}, []string{secretA}, []string{"on ann"}},
		"a pause": {func(f *deployment, other *process, id string) {
			if err := other.SetPaused(f.t.Context(), id, true); err != nil {
				f.t.Fatal(err)
			}
		}, nil, nil, []string{"on ann", "off ann"}},
		"a pause that has ended": {func(f *deployment, other *process, id string) {
			for _, paused := range []bool{true, true, false, false} {
				if err := other.SetPaused(f.t.Context(), id, paused); err != nil {
					f.t.Fatal(err)
				}
			}
		}, []string{"1"}, []string{secretA}, []string{"on ann", "off ann"}},
		"an end": {func(f *deployment, other *process, id string) {
			if ok, err := other.Remove(f.t.Context(), id); !ok || err != nil {
				f.t.Fatal(ok, err)
			}
		}, nil, nil, []string{"on ann", "off ann"}},
		"an end and another subscription": {func(f *deployment, other *process, id string) {
			if ok, err := other.Remove(f.t.Context(), id); !ok || err != nil {
				f.t.Fatal(ok, err)
			}
			time.Sleep(while)
			other.subscribe("ann", origin+"a", withSecret(secretB), lasting(12*time.Hour))
		}, []string{"1", "2"}, []string{secretB}, []string{"on ann", "off ann", "restored ann"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				owner, other := f.process().own(), f.process()
				id := owner.subscribe("ann", origin+"a", lasting(time.Hour)).ID
				time.Sleep(time.Minute)
				c.change(f, other, id)
				time.Sleep(while)
				other.emit("1")
				time.Sleep(while)
				got := f.r.to("a")
				for _, secret := range []string{secretA, secretB} {
					want := false
					for _, s := range c.signers {
						want = want || s == secret
					}
					if len(got) > 0 && got[0].signedBy(secret) != want {
						t.Errorf("signed by %s: %v", secret, !want)
					}
				}
				time.Sleep(3 * time.Hour)
				other.emit("2")
				time.Sleep(while)
				f.r.wants("in all", "a", c.want...)
				owner.hooks("at the owner", c.hooks...)
				other.hooks("at the other", map[bool][]string{true: {"on ann"}}[name == "an end and another subscription"]...)
			})
		})
	}
}

// REP-11: a look at a record that fails is repeated, and what was sent meanwhile waits no longer than a bound.
func TestREP11TheLookFails(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		owner, other := f.process().own(), f.process()
		gone, stays := owner.subscribe("ann", origin+"gone"), owner.subscribe("ann", origin+"stays")
		owner.faults("Subscription")
		if err := f.tell(t.Context(), stays.ID, owner.ownership.hold.Shard); err != nil {
			t.Fatal(err)
		}
		if ok, err := other.Remove(t.Context(), gone.ID); !ok || err != nil {
			t.Fatal(ok, err)
		}
		other.emit("1")
		time.Sleep(10 * time.Second)
		f.r.wants("while it fails", "gone")
		f.r.wants("while it fails", "stays")
		owner.faults()
		time.Sleep(while)
		f.r.wants("afterwards", "gone")
		f.r.wants("afterwards", "stays", "1")
	})
}

// REP-11: what a process has changed and told nobody of, since it died, is found by comparing; a record that somebody
// has changed so that its id is not its own is left out.
func TestREP11Compare(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		owner := f.process().own()
		ids := map[string]string{}
		for _, path := range []string{"deleted", "paused", "prolonged", "same"} {
			ids[path] = owner.subscribe("ann", origin+path).ID
		}
		r, _ := f.stored(ids["deleted"])
		if err := f.db.DeleteSubscription(t.Context(), r.ID, r.Generation); err != nil {
			t.Fatal(err)
		}
		f.change(ids["paused"], func(r *store.Subscription) { r.PausedAt = time.Now() })
		f.change(ids["prolonged"], func(r *store.Subscription) {
			r.RefreshedAt, r.ExpiresAt = time.Now().Add(time.Second), time.Now().Add(12*time.Hour)
		})
		made := r
		made.URL, made.Revision, made.Generation, made.Progress.Base = origin+"made", 0, 7, owner.typ.Head()
		made.ID = wire.SubscriptionID(wire.ModeWebhook, made.Principal, made.URL, made.Event, made.Arguments)
		forged := made
		forged.ID, forged.URL = r.ID, origin+"forged"
		for _, r := range []store.Subscription{made, forged} {
			if _, err := f.db.PutSubscription(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		if err := owner.Compare(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(while)
		owner.emit("1")
		time.Sleep(while)
		for path, want := range map[string][]string{"deleted": nil, "paused": nil, "prolonged": {"1"}, "same": {"1"}, "made": {"1"}, "forged": nil} {
			f.r.wants("compared", path, want...)
		}
		time.Sleep(3 * time.Hour)
		owner.emit("2")
		time.Sleep(while)
		f.r.wants("3 h later", "prolonged", "1", "2")
		f.r.wants("3 h later", "same", "1")
		owner.faults("Owned.Subscriptions")
		if err := owner.Compare(t.Context()); err == nil {
			t.Error("records that cannot be read are no error")
		}
	})
}

// REP-11: an owner that compares rereads a record that another process has changed, once, and none that has only made
// progress.
func TestREP11CompareRereadsChanges(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process().own()
		ids := []string{p.subscribe("ann", origin+"a").ID, p.subscribe("ann", origin+"b").ID}
		p.emit("1")
		time.Sleep(while)
		var reads atomic.Int64
		p.inject([]string{"Subscription"}, func() error { reads.Add(1); return nil })
		for round, want := range []int64{0, 1, 1} {
			if round == 1 {
				f.change(ids[0], func(r *store.Subscription) { r.Truncated = true })
			}
			if err := p.Compare(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if n := reads.Load(); n != want {
				t.Errorf("round %d: %d reads, want %d", round, n, want)
			}
		}
	})
}

// SUB-9, ERR-4: an unsubscribe whose caller or store fails is an error, after which the subscription goes on; one that
// is unknown, or whose time is over, is not there.
func TestSUB9Unsubscribe(t *testing.T) {
	for name, at := range places {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				owner, other := f.process().own(), f.process()
				p := at(owner, other)
				id := owner.subscribe("ann", origin+"a").ID
				f.r.on(func(d *received) int {
					return map[string]int{"retried": http.StatusServiceUnavailable}[d.what]
				})
				owner.emit("retried")
				p.faults("DeleteSubscription")
				if ok, err := p.Remove(t.Context(), id); ok || err == nil {
					t.Errorf("while the store is away: %v, %v", ok, err)
				}
				p.faults()
				over, cancel := context.WithCancel(t.Context())
				cancel()
				if ok, err := p.Remove(over, id); ok || err == nil {
					t.Errorf("for a caller that has gone: %v, %v", ok, err)
				}
				owner.emit("2")
				time.Sleep(while)
				f.r.wants("it goes on", "a", "retried", "2")
				if ok, err := p.Remove(t.Context(), id); !ok || err != nil {
					t.Fatalf("%v, %v", ok, err)
				}
				f.gone("unsubscribed", id)
				owner.emit("3")
				time.Sleep(time.Hour)
				f.r.wants("nothing follows, nor a retry", "a", "retried", "2")
				if ok, err := p.Remove(t.Context(), id); ok || err != nil {
					t.Errorf("once more: %v, %v", ok, err)
				}
				owner.hooks("at the owner", "on ann", "off ann")
				other.hooks("at the other")
			})
		})
	}
}

// SRV-3: a subscription that is removed and made again at another process, before its owner looks at the record, ends
// for the owner's author and begins.
func TestSRV3MadeAgainElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		owner, other := f.process().own(), f.process()
		id := owner.subscribe("ann", origin+"a").ID
		f.locked(func() { f.unheard = true })
		if ok, err := other.Remove(t.Context(), id); !ok || err != nil {
			t.Fatal(ok, err)
		}
		other.subscribe("ann", origin+"a")
		f.locked(func() { f.unheard = false })
		owner.Changed(id, engine.Shard{Topic: "e"})
		time.Sleep(while)
		owner.hooks("at the owner", "off ann", "on ann", "restored ann")
		owner.emit("1")
		time.Sleep(while)
		f.r.wants("once", "a", "1")
	})
}
