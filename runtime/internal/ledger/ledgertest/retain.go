package ledgertest

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/faults"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	domain "github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

var retentionTests = []test{
	{"VER-3: verifications that have expired and that nobody needs are deleted", testSweep},
	{"Revocations remain as long as they concern a subscription", testRevocationsRemain},
	{"Attempts are bounded in age and in all", testAttemptBounds},
	{"Attempts of subscriptions that do not exist are deleted", testAttemptOrphans},
	{"The oldest actions are deleted beyond their number", testActionNumber},
	{"Records without a subscription are deleted and logged", testOrphans},
	{"A part of a pass that fails does not stop the others", testPassGoesOn},
}

// keys returns the keys with a prefix.
func (w *world) keys(t *testing.T, prefix string) (keys []string) {
	t.Helper()
	for after := ""; ; {
		page := ok(w.raw.Scan(t.Context(), prefix, after, 400))(t)
		if len(page) == 0 {
			return keys
		}
		for _, r := range page {
			keys = append(keys, r.Key)
		}
		after = keys[len(keys)-1]
	}
}

func testSweep(t *testing.T, c Config) {
	w := c.world(t)
	p := w.process(t)
	at := p.now(t)
	verify := func(principal, url string, until time.Time) {
		t.Helper()
		must(t, p.AdmitVerification(t.Context(), store.Verification{Principal: principal, URL: url, Until: until}, ledger.Quota{}))
	}
	s := p.admit(t, 1, "ann")
	for i := range 5 {
		verify("ann", fmt.Sprint("u", i), at.Add(10))
	}
	verify("ann", s.URL, at.Add(10))
	verify("bob", s.URL, at.Add(10)) // the use is another principal's
	verify("ann", "for ever", time.Time{})
	verify("ann", "later", at.Add(21))
	sweep := func(now time.Time, limit, want, left int) {
		t.Helper()
		if n := ok(p.SweepVerifications(t.Context(), now, limit))(t); n != want {
			t.Errorf("%d were deleted, want %d", n, want)
		}
		if _, all, err := p.CountVerifications(t.Context(), "ann"); all != left || err != nil {
			t.Errorf("%d are left, want %d, %v", all, left, err)
		}
	}
	sweep(at.Add(9), 100, 0, 9)
	sweep(at.Add(10), 0, 0, 9)
	sweep(at.Add(10), 2, 2, 7)
	sweep(at.Add(20), 100, 4, 3)
	for url, want := range map[string]bool{s.URL: true, "for ever": true, "later": true, "u1": false} {
		if _, there, err := p.Verification(t.Context(), "ann", url); there != want || err != nil {
			t.Errorf("%s: %v, %v", url, there, err)
		}
	}
	must(t, p.Remove(t.Context(), s.ID, s.Generation))
	sweep(at.Add(20), 100, 1, 2)
	p.faults.Skew(time.Hour)
	must(t, p.Retain(t.Context()))
	sweep(at.Add(20), 100, 0, 1)
}

func testRevocationsRemain(t *testing.T, c Config) {
	w := c.world(t)
	p := w.process(t)
	s, young := p.admit(t, 1, "ann"), p.admit(t, 2, "bob")
	must(t, p.Revoke(t.Context(), "ann", revoked))
	must(t, p.Revoke(t.Context(), "bob", revoked, "other"))
	must(t, p.Revoke(t.Context(), "carol", revoked))
	must(t, p.Retain(t.Context()))
	if got := w.keys(t, "revoked/"); len(got) != 3 {
		t.Errorf("soon after that there are %d", len(got))
	}
	p.faults.Skew(2 * time.Hour)
	must(t, p.Retain(t.Context()))
	if got := ok(p.Revoked(t.Context(), "ann", "bob", "carol"))(t); len(got) != 1 || got["ann"] == nil {
		t.Errorf("revoked are %v", got)
	}
	must(t, p.Remove(t.Context(), s.ID, s.Generation))
	must(t, p.Retain(t.Context()))
	if got := w.keys(t, "revoked/"); len(got) != 0 {
		t.Errorf("without a subscription there are %v", got)
	}
	p.stored(t, young.ID)
}

func testAttemptBounds(t *testing.T, c Config) {
	w := c.world(t)
	p := w.process(t)
	a, b := p.admit(t, 1, "ann"), p.admit(t, 2, "ann")
	o := p.own(t)
	for i := range 6 {
		made(t, o, []ledger.Subscription{a, b}[i%2], 1000*i)
	}
	made(t, o, b, 9000, 9001)
	check := func(bounds ledger.AttemptBounds, after int, wantA, wantB []int) {
		t.Helper()
		must(t, p.TrimAttempts(t.Context(), bounds, a.CreatedAt.Add(time.Duration(after)*time.Second)))
		if got := seconds(t, p, a, 100); !slices.Equal(got, wantA) {
			t.Errorf("of the first one there are %v, want %v", got, wantA)
		}
		// Both subscriptions were created at about the same time.
		got := seconds(t, p, b, 100)
		if !slices.Equal(got, wantB) {
			t.Errorf("of the second one there are %v, want %v", got, wantB)
		}
	}
	wide := ledger.AttemptBounds{PerSubscription: 100, MaxAge: time.Hour, Total: 100}
	check(wide, 3599, []int{4000, 2000, 0}, []int{9001, 9000, 5000, 3000, 1000})
	check(wide, 4599, []int{4000, 2000}, []int{9001, 9000, 5000, 3000, 1000})
	wide.PerSubscription = 3
	check(wide, 3599, []int{4000, 2000}, []int{9001, 9000, 5000})
	wide.Total = 4
	check(wide, 3599, []int{4000}, []int{9001, 9000, 5000})
	wide.Total = 1
	check(wide, 3599, nil, nil) // the latest two are one record
}

func testAttemptOrphans(t *testing.T, c Config) {
	w := c.world(t)
	p := w.process(t)
	a, b := p.admit(t, 1, "ann"), p.admit(t, 2, "ann")
	o := p.own(t)
	made(t, o, a, 1)
	made(t, o, b, 1)
	must(t, p.Remove(t.Context(), a.ID, a.Generation))
	must(t, w.process(t).Retain(t.Context())) // the first pass of a process counts
	if got := w.keys(t, "att/"); len(got) != 1 || !strings.HasPrefix(got[0], "att/"+b.ID+"/") {
		t.Errorf("there are %v", got)
	}
}

func testActionNumber(t *testing.T, c Config) {
	w := c.world(t)
	p := w.process(t)
	claim(t, p, "first", "", true)
	p.faults.Skew(time.Second)
	record := ok(w.raw.Scan(t.Context(), "act/", "", 1))(t)[0]
	for i := 0; i < domain.MaxActions; {
		c := &store.Commit{Call: 1}
		for ; i < domain.MaxActions && len(c.Writes) < store.MaxCommit; i++ {
			value := strings.Replace(string(record.Value.Bytes()), `"at":"2`, `"at":"3`, 1)
			c.Writes = append(c.Writes, store.Write{Key: fmt.Sprintf("act/%032d", i), Value: store.Bytes(value)})
		}
		ok(w.raw.Commit(t.Context(), c))(t)
	}
	must(t, p.Retain(t.Context()))
	if got := len(w.keys(t, "act/")); got != domain.MaxActions {
		t.Errorf("there are %d", got)
	}
	claim(t, p, "first", "", true)
}

func testOrphans(t *testing.T, c Config) {
	w := c.world(t)
	var log strings.Builder
	p, err := w.start(t, faults.Plan{}, ledger.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	must(t, err)
	s := p.admit(t, 1, "ann")
	must(t, p.Retain(t.Context()))
	if log.Len() > 0 {
		t.Errorf("logged: %s", log.String())
	}
	use := w.keys(t, "use/")[0]
	c2 := &store.Commit{Call: 1}
	p.faults.Skew(time.Hour)
	for _, key := range []string{"pro/" + topic + "/1/sub_none", strings.Replace(use, s.ID, "sub_none", 1)} {
		c2.Writes = append(c2.Writes, store.Write{Key: key, Value: store.Bytes(`{"form":1,"value":{}}`)})
	}
	ok(w.raw.Commit(t.Context(), c2))(t)
	must(t, p.Retain(t.Context()))
	for _, w := range c2.Writes {
		if !strings.Contains(log.String(), w.Key) {
			t.Errorf("%s is not logged: %s", w.Key, log.String())
		}
	}
}

func testPassGoesOn(t *testing.T, c Config) {
	w := c.world(t)
	fail := ""
	p := w.faulty(t, faults.Plan{Before: func(c faults.Call) faults.Fault {
		if c.Commit != nil && fail != "" && strings.HasPrefix(c.Commit.Writes[0].Key, fail) {
			return faults.Unsent
		}
		return faults.None
	}})
	at := p.now(t)
	must(t, p.AdmitVerification(t.Context(), store.Verification{Principal: "ann", URL: "u", Until: at}, ledger.Quota{}))
	must(t, p.Revoke(t.Context(), "ann", revoked))
	w.damage(t, ok(w.raw.Scan(t.Context(), "revoked/", "", 1))(t)[0].Key)
	must(t, p.Revoke(t.Context(), "bob", revoked))
	must(t, p.Revoke(t.Context(), "carol", revoked))
	p.faults.Skew(2 * time.Hour)
	fail = "ver/"
	is(t, p.Retain(t.Context()), faults.ErrUnsent)
	if got := w.keys(t, "revoked/"); len(got) != 1 {
		t.Errorf("revocations that remain: %v", got)
	}
	fail = ""
	must(t, p.Retain(t.Context()))
	if got := w.keys(t, "ver/"); len(got) != 0 {
		t.Errorf("verifications that remain: %v", got)
	}
}
