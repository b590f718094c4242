package ledgertest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	domain "github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

var recordTests = []test{
	{"REP-13: orders about an event type have numbers", testOrders},
	{"REP-13: an event type is terminated until it is opened", testClosed},
	{"AUTH-2: a revocation is one record for all subscriptions until then", testRevoke},
	{"REP-16: histories of schemas grow by one at a time", testHistory},
	{"SRV-8: an action is claimed once, for ten minutes", testActions},
	{"SRV-8: of concurrent claims one is fresh", testActionsAtOnce},
	{"VER-3: verifications survive whole", testVerification},
}

func testOrders(t *testing.T, c Config) {
	w := c.world(t)
	a, b := w.process(t), w.process(t)
	before := a.now(t)
	mark := ok(a.Engine().Changes(t.Context(), "", 0))(t).Next
	ok(a.RaiseGap(t.Context(), topic))(t)
	ok(b.RaiseGap(t.Context(), topic))(t)
	ok(b.Recheck(t.Context(), topic))(t)
	raised := ok(a.RaiseError(t.Context(), topic, wire.ErrorObject{Code: 5, Message: "m"}))(t)
	for _, name := range ok(b.Engine().Changes(t.Context(), mark, 0))(t).Names {
		if c := ledger.ParseChange(name); c.Kind != ledger.TopicChanged || c.Topic != topic {
			t.Errorf("the name %q was reported", name)
		}
	}
	got := ok(b.Topic(t.Context(), topic))(t)
	if got.Shards != 2 || got.Closed != nil || got.Gap.Number != 2 || got.Recheck.Number != 1 || got.Raised.Number != 1 || got.Raised.Error.Code != 5 {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(raised, got.Raised); diff != "" || got.Gap.At.Before(before) {
		t.Error(diff)
	}
	if other := ok(b.Topic(t.Context(), "other"))(t); other != (ledger.Topic{}) {
		t.Errorf("another one: %+v", other)
	}
}

func testClosed(t *testing.T, c Config) {
	w := c.world(t)
	a, b := w.process(t), w.process(t)
	must(t, a.Reopen(t.Context(), topic))
	for i := range 2 {
		must(t, a.Close(t.Context(), topic, wire.ErrorObject{Code: int64(i), Message: "closed"}))
		if got := ok(b.Topic(t.Context(), topic))(t).Closed; got == nil || got.Code != int64(i) {
			t.Errorf("closed with %v", got)
		}
	}
	must(t, b.Reopen(t.Context(), topic))
	if got := ok(a.Topic(t.Context(), topic))(t).Closed; got != nil {
		t.Errorf("closed with %v", got)
	}
}

func testRevoke(t *testing.T, c Config) {
	w := c.world(t)
	a, b := w.process(t), w.process(t)
	over := func(principal, topic string, created time.Time) string {
		t.Helper()
		revoked := ok(b.Revoked(t.Context(), "carol", principal, principal))(t)
		s := ledger.Subscription{Principal: principal, Shard: ledger.Shard{Topic: topic}, CreatedAt: created}
		reason, over := ledger.Over(&s, revoked[principal], b.now(t))
		if len(revoked) > 1 || over != (reason != nil) {
			t.Errorf("revoked %v", revoked)
		}
		if !over {
			return ""
		}
		return reason.Message
	}
	begun := a.now(t)
	if got := over("ann", topic, begun); got != "" {
		t.Errorf("over with %q", got)
	}
	reason := func(s string) wire.ErrorObject { return wire.ErrorObject{Code: 1, Message: s} }
	must(t, a.Revoke(t.Context(), "ann", reason("one"), topic, "x"))
	until := ok(b.Revoked(t.Context(), "ann"))(t)["ann"].ByTopic[topic].Until
	if over("ann", topic, begun) != "one" || over("ann", "x", until) != "one" || over("ann", "y", begun) != "" || over("bob", topic, begun) != "" ||
		over("ann", topic, until.Add(1)) != "" {
		t.Error("a revocation of two event types does not hold for them")
	}
	must(t, b.Revoke(t.Context(), "ann", reason("all")))
	must(t, b.Revoke(t.Context(), "ann", reason("two"), "z"))
	if over("ann", topic, begun) != "all" || over("ann", "y", begun) != "all" {
		t.Error("a revocation of all event types does not hold for them")
	}
}

func testHistory(t *testing.T, c Config) {
	w := c.world(t)
	a, b := w.process(t), w.process(t)
	v := func(i int) ledger.SchemaVersion {
		return ledger.SchemaVersion{Fingerprint: fmt.Sprint("f", i), InputSchema: []byte(`{"a":"<"}`), PayloadSchema: []byte(`{"n":1}`), Floor: store.Position(i)}
	}
	if h := ok(a.History(t.Context(), topic))(t); h != nil {
		t.Errorf("history %v", h)
	}
	must(t, a.AddSchema(t.Context(), topic, v(0), 0))
	is(t, b.AddSchema(t.Context(), topic, v(1), 0), store.ErrConflict)
	is(t, b.AddSchema(t.Context(), topic, v(1), 2), store.ErrConflict)
	must(t, b.AddSchema(t.Context(), topic, v(1), 1))
	must(t, a.AddSchema(t.Context(), topic+".x", v(7), 0))
	var won atomic.Int32
	var wg sync.WaitGroup
	for i, p := range []*process{a, b, a, b} {
		wg.Go(func() {
			if err := p.AddSchema(t.Context(), topic, v(10+i), 2); err == nil {
				won.Add(1)
			} else if !errors.Is(err, store.ErrConflict) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	h := ok(b.History(t.Context(), topic))(t)
	if won.Load() != 1 || len(h) != 3 {
		t.Errorf("%d won, history %v", won.Load(), h)
	}
	for i := 3; i < 12; i++ { // more than one digit
		must(t, a.AddSchema(t.Context(), topic, v(i), i))
	}
	h = ok(b.History(t.Context(), topic))(t)
	if diff := cmp.Diff([]ledger.SchemaVersion{v(0), v(1), v(11)}, []ledger.SchemaVersion{h[0], h[1], h[11]}); diff != "" {
		t.Error(diff)
	}
}

// claim claims an action and checks whether it is fresh.
func claim(t *testing.T, p *process, key, request string, wantFresh bool) ledger.Action {
	t.Helper()
	stands, fresh, err := p.ClaimAction(t.Context(), ledger.Action{Key: key, Request: []byte(request)})
	if must(t, err); fresh != wantFresh {
		t.Errorf("claiming %q: fresh is %v", key, fresh)
	}
	return stands
}

func testActions(t *testing.T, c Config) {
	w := c.world(t)
	a, b := w.process(t), w.process(t)
	claim(t, a, "a", "request", true)
	if got := claim(t, b, "a", "another", false); got.Key != "a" || string(got.Request) != "request" || got.Outcome != nil {
		t.Errorf("in progress: %+v", got)
	}
	for _, outcome := range []string{`{"status":200}`, "", "\x00\xff"} {
		must(t, a.FinishAction(t.Context(), "a", []byte(outcome)))
		if got := claim(t, b, "a", "request", false); got.Outcome == nil || string(got.Outcome) != outcome {
			t.Errorf("%q became %q", outcome, got.Outcome)
		}
	}
	must(t, a.FinishAction(t.Context(), "a", nil))
	if got := claim(t, b, "a", "request", false); got.Outcome == nil {
		t.Error("it looks as if it were in progress")
	}
	is(t, a.FinishAction(t.Context(), "unknown", nil), ledger.ErrActionGone)
	for _, key := range []string{"A", "a ", "a\x00\xff"} {
		claim(t, b, key, "", true)
	}
	must(t, b.ForgetAction(t.Context(), "A"))
	must(t, b.ForgetAction(t.Context(), "A"))
	is(t, b.FinishAction(t.Context(), "A", nil), ledger.ErrActionGone)
	claim(t, a, "A", "again", true)
	large := bytes.Repeat([]byte("x"), domain.MaxAction+1)
	for _, action := range []ledger.Action{{}, {Key: string(large)}, {Key: "b", Request: large}} {
		if _, _, err := a.ClaimAction(t.Context(), action); err == nil {
			t.Errorf("%d and %d bytes are taken", len(action.Key), len(action.Request))
		}
	}
	if err := a.FinishAction(t.Context(), "A", large); err == nil {
		t.Error("a large outcome is taken")
	}
	claim(t, a, "pending", "request", true)
	a.faults.Skew(domain.ActionAge - time.Minute)
	claim(t, a, "a", "request", false)
	a.faults.Skew(time.Minute)
	is(t, a.FinishAction(t.Context(), "pending", nil), ledger.ErrActionGone)
	claim(t, a, "a", "another", true)
}

func testActionsAtOnce(t *testing.T, c Config) {
	w := c.world(t)
	all := []*process{w.process(t), w.process(t)}
	for round := range 5 {
		var fresh atomic.Int32
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				_, ok, err := all[i%2].ClaimAction(t.Context(), ledger.Action{Key: fmt.Sprint(round), Request: []byte{byte(i)}})
				if err != nil {
					t.Error(err)
				}
				if ok {
					fresh.Add(1)
				}
			})
		}
		wg.Wait()
		if n := fresh.Load(); n != 1 {
			t.Errorf("%d claims of one key were fresh", n)
		}
	}
}

func testVerification(t *testing.T, c Config) {
	w := c.world(t)
	a, b := w.process(t), w.process(t)
	at := a.now(t).Round(0)
	want := store.Verification{Principal: "ann", URL: "https://receiver.example/ä", Method: "challenge", At: at, Until: at.Add(time.Hour)}
	for _, until := range []time.Time{want.Until, {}} {
		want.Until = until
		must(t, a.AdmitVerification(t.Context(), want, ledger.Quota{}))
		got, there, err := b.Verification(t.Context(), "ann", want.URL)
		if must(t, err); !there || !cmp.Equal(got, want) {
			t.Errorf("%v, %+v", there, got)
		}
	}
	for _, pair := range [][2]string{{"bob", want.URL}, {"ann", want.URL + "/"}, {"ann" + want.URL, ""}} {
		if _, there, err := b.Verification(t.Context(), pair[0], pair[1]); there || err != nil {
			t.Errorf("%v: %v, %v", pair, there, err)
		}
	}
	is(t, a.AdmitVerification(t.Context(), store.Verification{Principal: "\xff"}, ledger.Quota{}), ledger.ErrName)
	must(t, b.DeleteVerification(t.Context(), "ann", want.URL))
	if _, there, err := a.Verification(t.Context(), "ann", want.URL); there || err != nil {
		t.Errorf("%v, %v", there, err)
	}
}
