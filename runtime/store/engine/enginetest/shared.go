// Package enginetest is a test suite for the interfaces of package engine. [TestShared] tests shared
// stores; [TestActions], [TestAttempts] and [TestSchedules] test the other interfaces. The package makes no
// compatibility promise.
package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
)

// Shared describes the implementation of [engine.Shared] under test.
type Shared struct {
	// Open opens a new store twice, as two processes would.
	Open func(t *testing.T) (a, b engine.Shared)
	// Slow delays later changes to subscription records at the point where the store checks the fence. At that point,
	// the change has read its records and is not yet visible.
	Slow func(t *testing.T, s engine.Shared)
	// Run runs a test. If it is nil, f(t) is called directly. An in-memory store uses synctest.Test.
	Run func(t *testing.T, f func(t *testing.T))
	// Begin begins an author's transaction. It is nil if the store has no outbox.
	Begin func(t *testing.T, s engine.Shared) Transaction
	// Outbox returns the outbox that moves these occurrences to the store. It is nil if the store moves them itself.
	Outbox func(t *testing.T, s engine.Shared) engine.Outbox
}

// A Transaction is an author's transaction that emits occurrences.
type Transaction interface {
	Emit(p store.Prepared) error
	Commit() error
	Rollback() error
}

// TestShared runs the suite on stores that are opened twice.
func TestShared(t *testing.T, o Shared) {
	if o.Run == nil {
		o.Run = func(t *testing.T, f func(t *testing.T)) { f(t) }
	}
	for _, c := range []struct {
		name string
		run  func(t *testing.T, a, b engine.Shared)
	}{
		{"REP-1, REP-2: both openers see all appends in order, once, and each its appends before Append returns", sharedOrder},
		{"REP-2: a log that is opened late delivers later entries", sharedLate},
		{"REP-3: CatchUp finds a position that another process appended", sharedCatchUp},
		{"REP-4: of two concurrent appends of an id, one appends", sharedOnce},
		{"REP-6: fences of leases increase, and an ended lease stays ended", sharedLeases},
		{"REP-8: an expired lease is not renewed", sharedExpired},
		{"REP-6: the number of shards is fixed when a topic is first seen", sharedEstablish},
		{"REP-6: one of many claims of a shard wins", sharedClaim},
		{"REP-7: every write of an owner whose hold is not current is fenced", sharedFences},
		{"REP-8: the time comes from the store", sharedNow},
		{"REP-10: marks are kept per log and shard, open bits with the records", sharedMarks},
		{"REP-13: states change by compare-and-swap", sharedStates},
		{"REP-16: histories of schemas grow by one at a time", sharedHistory},
		{"REP-19, CUR-8: new epochs begin together, and earlier holds end", sharedEpochs},
		{"REP-20: a group is appended in order, and existing ids are not repeated", sharedGroup},
		{"REP-20: concurrent groups and appends are serialized", sharedGroups},
		{"CUR-8: entries of other processes, and the last deleted entry, have proofs", sharedProof},
		{"retention follows the options of the last opening", sharedRetention},
	} {
		t.Run(c.name, func(t *testing.T) {
			o.Run(t, func(t *testing.T) {
				a, b := o.Open(t)
				c.run(t, a, b)
			})
		})
	}
	for _, c := range quotas {
		t.Run(c.name, func(t *testing.T) {
			o.Run(t, func(t *testing.T) {
				a, b := o.Open(t)
				c.run(t, a, b)
			})
		})
	}
	t.Run("REP-7: a claim that comes between check and write waits for the write", func(t *testing.T) {
		o.Run(t, func(t *testing.T) {
			a, b := o.Open(t)
			sharedClaimBetween(t, a, b, func() { o.Slow(t, a) })
		})
	})
	if o.Begin != nil {
		TestOutbox(t, o)
	}
}

// TestOutbox runs only the outbox tests of the suite.
func TestOutbox(t *testing.T, o Shared) {
	if o.Run == nil {
		o.Run = func(t *testing.T, f func(t *testing.T)) { f(t) }
	}
	if o.Outbox == nil {
		o.Outbox = func(_ *testing.T, s engine.Shared) engine.Outbox { return s.(engine.Outbox) }
	}
	for _, c := range []struct {
		name string
		run  func(t *testing.T, a, b engine.Shared, o Shared)
	}{
		{"REP-20: occurrences are visible after the commit, in order, and never after a rollback", sharedOutbox},
		{"REP-20: a transaction that commits late is not skipped", sharedOutboxLate},
		{"REP-20, OCC-5: an existing id is not repeated", sharedOutboxOnce},
		{"REP-20: invalid occurrences are rejected and do not block others", sharedOutboxRejects},
		{"REP-7: only the outbox's owner moves it", sharedOutboxFence},
	} {
		t.Run(c.name, func(t *testing.T) {
			o.Run(t, func(t *testing.T) {
				a, b := o.Open(t)
				c.run(t, a, b, o)
			})
		})
	}
}

// Records is the subset of [engine.Shared] that is subject to quotas.
type Records interface {
	store.SubscriptionStore
	Admit(ctx context.Context, s store.Subscription, q engine.Quota) (revision uint64, err error)
	AdmitVerification(ctx context.Context, v store.Verification, q engine.Quota) error
}

var quotas = []struct {
	name string
	run  func(t *testing.T, a, b Records)
}{
	{"REP-12: two openers never exceed a quota together", sharedQuota},
	{"REP-12: two openers never exceed a quota of verifications", sharedVerificationQuota},
}

// TestQuotas runs only the quota tests of the suite. The function open opens a new store twice.
func TestQuotas(t *testing.T, open func(t *testing.T) (a, b Records)) {
	for _, c := range quotas {
		t.Run(c.name, func(t *testing.T) {
			a, b := open(t)
			c.run(t, a, b)
		})
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// WaitUntil waits until f returns true. The test fails if that takes more than a minute.
func WaitUntil(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func sharedQuota(t *testing.T, a, b Records) {
	const own, all, tries = 3, 5, 6
	var mu sync.Mutex
	var wg sync.WaitGroup
	admitted := map[string][]store.Subscription{}
	refused := map[bool]int{}
	for i, s := range []Records{a, b} {
		for _, principal := range []string{"alice", "bob"} {
			for n := range tries {
				wg.Go(func() {
					sub := subscriptionInShard(fmt.Sprintf("sub_%s_%d_%d", principal, i, n), 0)
					sub.Principal = principal
					revision, err := s.Admit(context.Background(), sub, engine.Quota{Own: own, All: all})
					mu.Lock()
					defer mu.Unlock()
					var q *engine.QuotaError
					switch {
					case err == nil && revision > 0:
						sub.Revision = revision
						admitted[principal] = append(admitted[principal], sub)
					case errors.As(err, &q) && errors.Is(err, engine.ErrQuota):
						refused[q.Own]++
					default:
						t.Errorf("Admit = %d, %v", revision, err)
					}
				})
			}
		}
	}
	wg.Wait()
	if n := len(admitted["alice"]) + len(admitted["bob"]); n != all || len(admitted["alice"]) > own || len(admitted["bob"]) > own {
		t.Fatalf("%d and %d were admitted, %v refused", len(admitted["alice"]), len(admitted["bob"]), refused)
	}
	ctx := t.Context()
	for principal, subs := range admitted {
		if mine, sum, err := b.CountSubscriptions(ctx, principal); mine != len(subs) || sum != all || err != nil {
			t.Fatalf("%s has %d of %d, %v", principal, mine, sum, err)
		}
	}
	full := "alice"
	if len(admitted[full]) < own {
		full = "bob"
	}
	first := admitted[full][0]
	// Neither a refresh nor a new generation of the same key counts against the quota.
	first.Revision = check.Must(b.Admit(ctx, first, engine.Quota{Own: own, All: all}))(t)
	first.Generation++
	first.Revision = check.Must(a.Admit(ctx, first, engine.Quota{Own: own, All: all}))(t)
	ok(t, b.DeleteSubscription(ctx, first.ID, first.Generation))
	ok(t, b.DeleteSubscription(ctx, first.ID, first.Generation))
	for i := range 2 {
		sub := subscriptionInShard(fmt.Sprint("sub_again_", i), 0)
		sub.Principal = full
		if _, err := a.Admit(ctx, sub, engine.Quota{Own: own, All: all}); (err == nil) != (i == 0) {
			t.Fatalf("after one was deleted, admitting number %d: %v", i+1, err)
		}
	}
}

func sharedVerificationQuota(t *testing.T, a, b Records) {
	ctx := t.Context()
	q := engine.Quota{Own: 3, All: 4}
	var admitted atomic.Int32
	var wg sync.WaitGroup
	for i, s := range []Records{a, b} {
		for n := range 4 {
			wg.Go(func() {
				err := s.AdmitVerification(ctx, store.Verification{Principal: "alice", URL: fmt.Sprint(i, n), Until: check.At(1)}, q)
				if err == nil {
					admitted.Add(1)
				} else if !errors.Is(err, engine.ErrQuota) {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if admitted.Load() != 3 {
		t.Fatalf("%d were admitted", admitted.Load())
	}
	ok(t, b.AdmitVerification(ctx, store.Verification{Principal: "bob", URL: "u"}, q))
	ok(t, b.AdmitVerification(ctx, store.Verification{Principal: "bob", URL: "u", Method: "again"}, q))
	is(t, a.AdmitVerification(ctx, store.Verification{Principal: "bob", URL: "v"}, q), engine.ErrQuota)
	if n, err := a.SweepVerifications(ctx, check.At(2), 2); n != 2 || err != nil {
		t.Fatalf("swept %d, %v", n, err)
	}
	ok(t, a.DeleteVerification(ctx, "bob", "u"))
	ok(t, a.DeleteVerification(ctx, "bob", "u"))
	if own, all, err := b.CountVerifications(ctx, "alice"); own != 1 || all != 1 || err != nil {
		t.Fatalf("%d of %d, %v", own, all, err)
	}
}

func sharedStates(t *testing.T, a, b engine.Shared) {
	ctx := t.Context()
	s := engine.State{Key: "terminated/x", Value: []byte(`{"n":1}`)}
	s.Revision = check.Must(a.PutState(ctx, s))(t)
	_, err := b.PutState(ctx, engine.State{Key: s.Key})
	is(t, err, store.ErrConflict)
	_, err = b.PutState(ctx, engine.State{Key: "none", Revision: 1})
	is(t, err, store.ErrConflict)
	s.Value = []byte(`{"n":2}`)
	s.Revision = check.Must(b.PutState(ctx, s))(t)
	for _, key := range []string{"terminated/a", "paused/x", "terminated_"} {
		check.Must(a.PutState(ctx, engine.State{Key: key, Value: []byte(`0`)}))(t)
	}
	all := check.Must(a.States(ctx, "terminated/", "", 10))(t)
	if len(all) != 2 || all[0].Key != "terminated/a" || string(all[1].Value) != `{"n":2}` || all[1].Revision != s.Revision {
		t.Fatalf("states %+v", all)
	}
	if page := check.Must(a.States(ctx, "", all[0].Key, 1))(t); len(page) != 1 || page[0].Key != s.Key {
		t.Fatalf("page %+v", page)
	}
	is(t, a.DeleteState(ctx, s.Key, s.Revision-1), store.ErrConflict)
	ok(t, a.DeleteState(ctx, s.Key, s.Revision))
	if all := check.Must(b.States(ctx, "terminated/", "", 10))(t); len(all) != 1 {
		t.Fatalf("states after a deletion %+v", all)
	}
}

func sharedHistory(t *testing.T, a, b engine.Shared) {
	ctx := t.Context()
	v := func(i int) engine.SchemaVersion {
		return engine.SchemaVersion{Fingerprint: fmt.Sprint("f", i), InputSchema: []byte(`{}`), PayloadSchema: []byte(`{"n":1}`), Floor: store.Position(i)}
	}
	if h := check.Must(a.History(ctx, "event"))(t); len(h) != 0 {
		t.Fatalf("history %v", h)
	}
	ok(t, a.AddSchema(ctx, "event", v(0), 0))
	is(t, b.AddSchema(ctx, "event", v(1), 0), store.ErrConflict)
	is(t, b.AddSchema(ctx, "event", v(1), 2), store.ErrConflict)
	ok(t, b.AddSchema(ctx, "event", v(1), 1))
	ok(t, a.AddSchema(ctx, "other", v(7), 0))
	var won atomic.Int32
	var wg sync.WaitGroup
	for i, s := range []engine.Shared{a, b, a, b} {
		wg.Go(func() {
			switch err := s.AddSchema(ctx, "event", v(10+i), 2); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, store.ErrConflict):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	h := check.Must(b.History(ctx, "event"))(t)
	if won.Load() != 1 || len(h) != 3 {
		t.Fatalf("%d won, history %+v", won.Load(), h)
	}
	check.Equal(t, h[:2], []engine.SchemaVersion{v(0), v(1)})
}
