package ledgertest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/faults"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

var quotaTests = []test{
	{"REP-12: processes together admit exactly the quota", testQuota},
	{"REP-12: a quota that was lowered is not exceeded any further", testLowered},
	{"REP-12: verifications are counted, too", testVerificationQuota},
	{"A stripe that cannot be read admits nothing and holds up nothing", testDamagedStripe},
}

func testQuota(t *testing.T, c Config) {
	w := c.world(t)
	const processes, writers, principals, own, all = 3, 4, 10, 5, 37
	q := ledger.Quota{Own: own, All: all}
	var mu sync.Mutex
	admitted := map[string]ledger.Subscription{}
	var wg sync.WaitGroup
	for n := range processes {
		before := faults.Random(uint64(n), 0.1)
		p := w.faulty(t, faults.Plan{Before: func(c faults.Call) faults.Fault {
			if f := before(c); c.Commit != nil && c.N > 10 && (f == faults.Unanswered || f == faults.Late || f == faults.Again) {
				return f
			}
			return faults.None
		}})
		t.Cleanup(func() {
			if n := p.faults.Deliver(t.Context()); n > 0 {
				t.Errorf("%d commits were applied that came late", n)
			}
		})
		for m := range writers {
			wg.Go(func() {
				for i := range principals {
					s := subscription(t, p, n*1000+m*100+i, fmt.Sprint("principal ", i))
					s, err := p.Admit(t.Context(), s, store.Progress{}, q)
					if err == nil {
						mu.Lock()
						admitted[s.ID] = s
						mu.Unlock()
					} else if !errors.Is(err, ledger.ErrQuota) {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	p := w.process(t)
	of := map[string]int{}
	for _, s := range admitted {
		of[s.Principal]++
	}
	for i := range principals {
		principal := fmt.Sprint("principal ", i)
		got, sum, err := p.Count(t.Context(), principal)
		if must(t, err); got != of[principal] || got > own || sum != all || len(admitted) != all {
			t.Fatalf("%s: %d of %d are counted, %d of %d were admitted", principal, got, sum, of[principal], len(admitted))
		}
	}
	// Each removal makes room for one.
	i := 9000
	for id, s := range admitted {
		must(t, p.Remove(t.Context(), id, s.Generation))
		for n := range 2 {
			_, err := p.Admit(t.Context(), subscription(t, p, i+n, fmt.Sprint("new ", i)), store.Progress{}, q)
			var full *ledger.QuotaError
			if n == 0 && err != nil || n == 1 && (!errors.As(err, &full) || full.Own || full.Limit != all) {
				t.Fatalf("admission %d after a removal: %v", n, err)
			}
		}
		if i++; i == 9010 {
			break
		}
	}
}

func testLowered(t *testing.T, c Config) {
	w := c.world(t)
	a := w.process(t)
	for i := range 60 {
		s := subscription(t, a, i, fmt.Sprint("p", i%2))
		ok(a.Admit(t.Context(), s, store.Progress{}, ledger.Quota{Own: 30, All: 64}))(t)
	}
	lower := ledger.Quota{Own: 10, All: 40}
	b := w.process(t)
	admits := func(i int, principal string) bool {
		t.Helper()
		_, err := b.Admit(t.Context(), subscription(t, b, i, principal), store.Progress{}, lower)
		if err != nil && !errors.Is(err, ledger.ErrQuota) {
			t.Fatal(err)
		}
		return err == nil
	}
	all := 60
	for i := range 60 {
		if admits(100+i, fmt.Sprint("new", i)) {
			t.Fatalf("one was admitted although there are %d", all)
		}
		s := a.stored(t, fmt.Sprintf("sub_%04d", i))
		must(t, a.Remove(t.Context(), s.ID, s.Generation))
		if all--; all < lower.All {
			break
		}
	}
	// The total decides, although some stripes have more than their share.
	if !admits(200, "new") || admits(201, "new") {
		t.Error("there is room for one")
	}
	for i := range 3 {
		s := a.stored(t, fmt.Sprintf("sub_%04d", 40+i))
		must(t, a.Remove(t.Context(), s.ID, s.Generation))
	}
	if admits(202, "p0") || admits(202, "p1") || !admits(202, "new") {
		t.Error("their own quotas are used up")
	}
}

func testVerificationQuota(t *testing.T, c Config) {
	w := c.world(t)
	a, b := w.process(t), w.process(t)
	q := ledger.Quota{Own: 2, All: 3}
	v := func(principal string, i int) store.Verification {
		return store.Verification{Principal: principal, URL: fmt.Sprint("u", i), Method: "challenge", At: a.now(t)}
	}
	must(t, a.AdmitVerification(t.Context(), v("ann", 1), q))
	must(t, b.AdmitVerification(t.Context(), v("ann", 2), q))
	must(t, b.AdmitVerification(t.Context(), v("ann", 2), q)) // again
	is(t, b.AdmitVerification(t.Context(), v("ann", 3), q), ledger.ErrQuota)
	must(t, a.AdmitVerification(t.Context(), v("bob", 1), q))
	is(t, b.AdmitVerification(t.Context(), v("bob", 2), q), ledger.ErrQuota)
	must(t, b.DeleteVerification(t.Context(), "ann", "u1"))
	must(t, a.DeleteVerification(t.Context(), "ann", "u1"))
	must(t, b.AdmitVerification(t.Context(), v("bob", 2), q))
	if own, all, err := a.CountVerifications(t.Context(), "bob"); own != 2 || all != 3 || err != nil {
		t.Errorf("%d of %d, %v", own, all, err)
	}
	if own, all, err := a.Count(t.Context(), "bob"); own+all != 0 || err != nil {
		t.Errorf("%d of %d subscriptions, %v", own, all, err)
	}
}

func testDamagedStripe(t *testing.T, c Config) {
	w := c.world(t)
	t.Cleanup(func() { w.purge(t) })
	p := w.process(t)
	const all = 16 // one for each stripe
	admit := func(i int) error {
		_, err := p.Admit(t.Context(), subscription(t, p, i, "ann"), store.Progress{}, ledger.Quota{All: all})
		return err
	}
	must(t, admit(0))
	s := p.stored(t, "sub_0000")
	w.damage(t, fmt.Sprint("quota/sub/all/", s.Counted[1]))
	for i := 1; i < all; i++ {
		must(t, admit(i))
	}
	is(t, admit(all), ledger.ErrQuota)
	must(t, p.Remove(t.Context(), s.ID, s.Generation))
	is(t, admit(all), ledger.ErrQuota)
	if _, sum, err := p.Count(t.Context(), "ann"); sum != all-1 || err != nil {
		t.Errorf("%d are counted, %v", sum, err)
	}
}
