package ledgertest

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

var subscriptionTests = []test{
	{"SUB-11: a subscription survives whole", testWhole},
	{"An ID that is in use is not admitted a second time", testAdmitTwice},
	{"REP-10: a new generation replaces the old one and is open", testNewGeneration},
	{"A change sees the latest subscription, and tells its owner", testChange},
	{"Of many changes at once none is lost", testChangesAtOnce},
	{"An ended subscription waits for its owner, and can be replaced", testEnd},
	{"A subscription is removed by its generation", testRemove},
	{"Lists have pages, by principal and URL", testList},
	{"Names and texts that do not fit are refused", testNames},
	{"Orders to send again are bounded and numbered", testOrderAgain},
}

// whole returns a subscription in which each field is set.
func whole(t *testing.T, p *process) ledger.Subscription {
	at := p.now(t).Round(0).Truncate(time.Microsecond)
	s := subscription(t, p, 1, "ann <ä> \x00")
	s.Schema, s.Codes, s.Truncated, s.Gap = "f1", 1, true, 3
	s.Arguments = []byte(`{"text":"a<b>&\u2028"}`)
	s.Secrets = append(s.Secrets, store.Secret{Key: []byte("an old secret, which expires"), NotAfter: at.Add(time.Minute)})
	s.CreatedAt, s.RefreshedAt, s.ExpiresAt, s.NotBefore, s.PausedAt, s.ResumedAt = at, at.Add(1000), at.Add(2000), at.Add(3000), at.Add(4000), at.Add(5000)
	s.Rewind = &ledger.Rewind{Number: 5, Epoch: 6, To: 7, Cursor: "c", Until: 8, Actor: "olga"}
	s.Again = []ledger.Again{{Number: 9, EventID: "evt_1", Seen: at, Actor: "olga"}}
	return s
}

func testWhole(t *testing.T, c Config) {
	w := c.world(t)
	p := w.process(t)
	s := whole(t, p)
	progress := store.Progress{Epoch: 1<<64 - 1, Base: 7, Settled: []store.Span{{From: 9, To: 9}, {From: 12, To: 20}}, Upstream: "u\xff"}
	admitted := ok(p.Admit(t.Context(), s, progress, ledger.Quota{}))(t)
	s.Revision, s.Counted = admitted.Revision, admitted.Counted
	progress.Open = true
	want := ledger.State{Subscription: s, Status: ledger.Status{Generation: s.Generation, Progress: progress}}
	if diff := cmp.Diff(want, w.process(t).stored(t, s.ID)); diff != "" || s.Revision == 0 {
		t.Error(diff)
	}
	got, there, err := p.Subscription(t.Context(), s.ID)
	if must(t, err); !there {
		t.Error("it is not there")
	}
	if diff := cmp.Diff(s, got); diff != "" {
		t.Error(diff)
	}
	for _, id := range []string{"sub_x", "", "a/b", strings.Repeat("x", 1000)} {
		if _, there, err := p.State(t.Context(), id); there || err != nil {
			t.Errorf("%q: %v, %v", id, there, err)
		}
	}
}

func testAdmitTwice(t *testing.T, c Config) {
	w := c.world(t)
	a, b := w.process(t), w.process(t)
	s := a.admit(t, 1, "ann")
	other := s
	other.Generation, other.Revision = 99, 0
	_, err := b.Admit(t.Context(), other, store.Progress{}, ledger.Quota{})
	is(t, err, store.ErrConflict)
	other.Revision = s.Revision + 1
	_, err = b.Admit(t.Context(), other, store.Progress{}, ledger.Quota{})
	is(t, err, store.ErrConflict)
	other.ID = "sub_none"
	_, err = b.Admit(t.Context(), other, store.Progress{}, ledger.Quota{})
	is(t, err, store.ErrConflict)
	other = s
	other.Principal, other.Generation = "bob", 99
	_, err = b.Admit(t.Context(), other, store.Progress{}, ledger.Quota{})
	is(t, err, store.ErrConflict)
	s.Revision = 0
	again := ok(b.Admit(t.Context(), s, store.Progress{Base: 99}, ledger.Quota{Own: 1}))(t) // as if the answer had been lost
	if got := a.stored(t, s.ID); got.Status.Progress.Base != 1 || got.Revision != again.Revision || got.Generation != s.Generation {
		t.Errorf("%+v", got)
	}
}

func testNewGeneration(t *testing.T, c Config) {
	p := c.world(t).process(t)
	s := p.admit(t, 1, "ann")
	next := s
	next.Generation++
	next = ok(p.Admit(t.Context(), next, store.Progress{Epoch: 7, Base: 30}, ledger.Quota{Own: 1, All: 1}))(t)
	got := p.stored(t, s.ID)
	if got.Generation != next.Generation || got.Status.Generation != next.Generation || !got.Status.Progress.Open || got.Status.Progress.Base != 30 {
		t.Errorf("%+v", got)
	}
	if own, all, err := p.Count(t.Context(), "ann"); own != 1 || all != 1 || err != nil {
		t.Errorf("%d of %d are counted, %v", own, all, err)
	}
}

func testChange(t *testing.T, c Config) {
	w := c.world(t)
	a, b := w.process(t), w.process(t)
	s := a.admit(t, 1, "ann")
	mark := ok(b.Engine().Changes(t.Context(), "", 0))(t).Next
	at := a.now(t)
	changed, there, err := a.Change(t.Context(), s.ID, func(s *ledger.Subscription) bool {
		s.PausedAt, s.Secrets = at, append(s.Secrets, store.Secret{Key: []byte("another")})
		return true
	})
	if must(t, err); !there || changed.Revision == s.Revision || len(s.Secrets) != 1 {
		t.Errorf("%v, %+v", there, changed)
	}
	if diff := cmp.Diff(changed, b.stored(t, s.ID).Subscription); diff != "" || !changed.PausedAt.Equal(at) {
		t.Error(diff)
	}
	names := ok(b.Engine().Changes(t.Context(), mark, 0))(t).Names
	if want := (ledger.Change{Kind: ledger.SubscriptionChanged, Topic: topic, Number: shard.Number, ID: s.ID}); len(names) != 1 || ledger.ParseChange(names[0]) != want {
		t.Errorf("told are %q", names)
	}
	same, there, err := a.Change(t.Context(), s.ID, func(*ledger.Subscription) bool { return false })
	if must(t, err); !there || same.Revision != changed.Revision {
		t.Errorf("an unchanged one has revision %d, had %d", same.Revision, changed.Revision)
	}
	for name, f := range map[string]func(s *ledger.Subscription){
		"ID": func(s *ledger.Subscription) { s.ID = "x" }, "generation": func(s *ledger.Subscription) { s.Generation++ },
		"principal": func(s *ledger.Subscription) { s.Principal = "bob" }, "shard": func(s *ledger.Subscription) { s.Shard.Number = 0 },
		"end": func(s *ledger.Subscription) { s.Ended = &wire.ErrorObject{} }, "count": func(s *ledger.Subscription) { s.Counted[0]++ },
	} {
		if _, _, err := a.Change(t.Context(), s.ID, func(s *ledger.Subscription) bool { f(s); return true }); err == nil {
			t.Errorf("its %s was changed", name)
		}
	}
	if _, there, err := a.Change(t.Context(), "sub_none", func(*ledger.Subscription) bool { t.Error("called"); return true }); there || err != nil {
		t.Errorf("an unknown one: %v, %v", there, err)
	}
}

func testChangesAtOnce(t *testing.T, c Config) {
	w := c.world(t)
	s := w.process(t).admit(t, 1, "ann")
	var wg sync.WaitGroup
	const processes, changes = 4, 20
	for range processes {
		p := w.process(t)
		wg.Go(func() {
			for range changes {
				if _, _, err := p.Change(t.Context(), s.ID, func(s *ledger.Subscription) bool { s.Gap++; return true }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := w.process(t).stored(t, s.ID); got.Gap != processes*changes {
		t.Errorf("of %d changes %d were stored", processes*changes, got.Gap)
	}
}

var revoked = wire.ErrorObject{Code: 1, Message: "revoked"}

func testEnd(t *testing.T, c Config) {
	w := c.world(t)
	a, b := w.process(t), w.process(t)
	s := a.admit(t, 1, "ann")
	if ended := ok(a.End(t.Context(), s.ID, s.Generation+1, revoked))(t); ended {
		t.Error("another generation ended")
	}
	if !ok(b.End(t.Context(), s.ID, s.Generation, revoked))(t) || ok(a.End(t.Context(), s.ID, s.Generation, wire.ErrorObject{}))(t) {
		t.Error("it does not end once")
	}
	got := a.stored(t, s.ID)
	if got.Ended == nil || got.Ended.Message != "revoked" || len(got.Secrets) == 0 { // the envelope is signed
		t.Errorf("%+v", got)
	}
	if reason, over := ledger.Over(&got.Subscription, nil, a.now(t)); !over || reason.Code != 1 {
		t.Errorf("over %v with %v", over, reason)
	}
	if own, all, err := a.Count(t.Context(), "ann"); own+all != 0 || err != nil {
		t.Errorf("an ended one counts: %d of %d, %v", own, all, err)
	}
	if _, there, err := a.Change(t.Context(), s.ID, func(*ledger.Subscription) bool { return true }); there || err != nil {
		t.Errorf("an ended one was changed: %v, %v", there, err)
	}
	next := s
	next.Generation, next.Revision = s.Generation+1, 0
	ok(b.Admit(t.Context(), next, store.Progress{}, ledger.Quota{Own: 1, All: 1}))(t)
	if got := a.stored(t, s.ID); got.Ended != nil || got.Generation != next.Generation {
		t.Errorf("%+v", got)
	}
}

func testRemove(t *testing.T, c Config) {
	w := c.world(t)
	a, b := w.process(t), w.process(t)
	s := a.admit(t, 1, "ann")
	must(t, b.Remove(t.Context(), s.ID, s.Generation+1))
	a.stored(t, s.ID)
	must(t, b.Remove(t.Context(), s.ID, s.Generation))
	must(t, a.Remove(t.Context(), s.ID, s.Generation))
	if _, there, err := a.State(t.Context(), s.ID); there || err != nil {
		t.Errorf("%v, %v", there, err)
	}
	a.admit(t, 1, "ann")
}

func testList(t *testing.T, c Config) {
	w := c.world(t)
	p := w.process(t)
	for i := range 25 {
		p.admit(t, i, []string{"ann", "bob"}[i%2])
	}
	gone := p.stored(t, "sub_0007")
	ok(p.End(t.Context(), gone.ID, gone.Generation, revoked))(t)
	for _, q := range []struct {
		which ledger.Selection
		want  func(i int) bool
	}{
		{ledger.Selection{}, func(int) bool { return true }},
		{ledger.Selection{Principal: "ann"}, func(i int) bool { return i%2 == 0 }},
		{ledger.Selection{Principal: "bob", URL: "https://receiver.example/1"}, func(i int) bool { return i%2 == 1 && i%3 == 1 }},
		{ledger.Selection{Principal: "carol"}, func(int) bool { return false }},
	} {
		var ids, want []string
		for next, pages := "", 0; pages == 0 || next != ""; pages++ {
			page, after, err := p.List(t.Context(), q.which, next, 4)
			must(t, err)
			if next = after; len(page) > 4 || len(page) == 0 && next != "" {
				t.Fatalf("a page of %d", len(page))
			}
			for _, s := range page {
				if ids = append(ids, s.ID); s.Secrets != nil || s.Status.Generation != s.Generation || (s.Ended != nil) != (s.ID == gone.ID) {
					t.Errorf("%+v", s)
				}
			}
		}
		for i := range 25 {
			if q.want(i) {
				want = append(want, subscription(t, p, i, "").ID)
			}
		}
		if q.which.Principal != "" {
			slices.Sort(ids) // the order is that of hashes
		}
		if !slices.Equal(ids, want) {
			t.Errorf("%+v: %v, want %v", q.which, ids, want)
		}
	}
	page, _, err := p.List(t.Context(), ledger.Selection{}, "sub_0020", 100)
	if must(t, err); len(page) != 4 || page[0].ID != "sub_0021" {
		t.Errorf("after an ID: %d", len(page))
	}
}

func testNames(t *testing.T, c Config) {
	p := c.world(t).process(t)
	for name, f := range map[string]func(s *ledger.Subscription){
		"no ID": func(s *ledger.Subscription) { s.ID = "" }, "a long ID": func(s *ledger.Subscription) { s.ID = strings.Repeat("x", 151) },
		"no topic": func(s *ledger.Subscription) { s.Shard.Topic = "" }, "a long topic": func(s *ledger.Subscription) { s.Shard.Topic = strings.Repeat("ä", 100) },
		"a principal of other bytes": func(s *ledger.Subscription) { s.Principal = "\xff" }, "a URL of other bytes": func(s *ledger.Subscription) { s.URL = "\xff" },
	} {
		s := subscription(t, p, 1, "ann")
		f(&s)
		if _, err := p.Admit(t.Context(), s, store.Progress{}, ledger.Quota{}); !errors.Is(err, ledger.ErrName) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func testOrderAgain(t *testing.T, _ Config) {
	var s ledger.Subscription
	for i := range uint64(ledger.MaxAgain) {
		if n, ok := s.OrderAgain(ledger.Again{EventID: "e"}, 0); n != i+1 || !ok {
			t.Fatalf("number %d, %v", n, ok)
		}
	}
	if _, ok := s.OrderAgain(ledger.Again{}, 0); ok {
		t.Error("one more was taken")
	}
	if n, ok := s.OrderAgain(ledger.Again{}, 3); n != ledger.MaxAgain+1 || !ok || len(s.Again) != ledger.MaxAgain-2 || s.Again[0].Number != 4 {
		t.Errorf("number %d, %v, %d are left", n, ok, len(s.Again))
	}
	if n, ok := s.OrderAgain(ledger.Again{}, 50); n != 51 || !ok || len(s.Again) != 1 {
		t.Errorf("number %d, %v, %d are left", n, ok, len(s.Again))
	}
}
