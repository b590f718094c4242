package ledgertest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/faults"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	domain "github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

var secretTests = []test{
	{"S5: with a key no secret is stored in plain text", testSealed},
	{"S5: a store takes its first key, and no other one", testFirstKey},
	{"S5: a new key replaces the old one while processes have both", testNewKey},
	{"S5: taking the first key survives a crash at each call", testFirstKeyCrash},
	{"A subscription whose secrets no key opens is listed and can end", testLostKey},
}

var (
	oneKey     = []byte("0123456789abcdef0123456789abcdef")
	anotherKey = []byte("another-key-of-32-bytes---------")
)

// keyed starts a process with keys.
func (w *world) keyed(t *testing.T, key []byte, old ...[]byte) *process {
	t.Helper()
	p, err := w.start(t, faults.Plan{}, ledger.Options{Key: key, OldKeys: old})
	must(t, err)
	return p
}

// plain returns how many subscriptions have secrets in plain text.
func (w *world) plain(t *testing.T) (n int) {
	t.Helper()
	for _, r := range ok(w.raw.Scan(t.Context(), "sub/", "", 400))(t) {
		if bytes.Contains(r.Value.Bytes(), []byte(`"secrets"`)) {
			n++
		}
	}
	return n
}

func testSealed(t *testing.T, c Config) {
	w := c.world(t)
	p := w.keyed(t, oneKey)
	s := p.admit(t, 1, "ann")
	changed, _, err := p.Change(t.Context(), s.ID, func(s *ledger.Subscription) bool {
		s.Secrets = append([]store.Secret{{Key: []byte("new")}}, s.Secrets...)
		return true
	})
	must(t, err)
	if got := w.keyed(t, oneKey).stored(t, s.ID); len(got.Secrets) != 2 || string(got.Secrets[0].Key) != "new" || len(changed.Secrets) != 2 {
		t.Errorf("%q", got.Secrets)
	}
	if w.plain(t) > 0 {
		t.Error("a secret is stored in plain text")
	}
	if left := ok(p.Reseal(t.Context()))(t); left != 0 {
		t.Errorf("%d cannot be opened", left)
	}
	if got := p.stored(t, s.ID); got.Revision != changed.Revision {
		t.Error("it was sealed a second time")
	}
}

func testFirstKey(t *testing.T, c Config) {
	w := c.world(t)
	a := w.process(t)
	for i := range 3 {
		a.admit(t, i, "ann")
	}
	b := w.keyed(t, oneKey)
	if got := b.stored(t, "sub_0001"); len(got.Secrets) != 1 || w.plain(t) > 0 {
		t.Errorf("%q, %d are in plain text", got.Secrets, w.plain(t))
	}
	for name, o := range map[string]ledger.Options{"no key": {}, "another key": {Key: anotherKey}} {
		if _, err := w.start(t, faults.Plan{}, o); !errors.Is(err, sealed.ErrKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.start(t, faults.Plan{}, ledger.Options{Key: []byte("short")}); !errors.Is(err, sealed.ErrKey) {
		t.Errorf("a short key: %v", err)
	}
	// A process that has opened the store before goes on without the key. Nobody takes what it writes.
	a.admit(t, 7, "ann")
	if s := b.stored(t, "sub_0007"); s.Unreadable != domain.UnreadableDamaged || s.Secrets != nil {
		t.Errorf("secrets that were stored without the key: %+v", s)
	}
	if left := ok(b.Reseal(t.Context()))(t); left != 1 {
		t.Errorf("%d are left", left)
	}
}

func testNewKey(t *testing.T, c Config) {
	w := c.world(t)
	a := w.keyed(t, oneKey)
	a.admit(t, 1, "ann")
	behind := w.keyed(t, oneKey, anotherKey)
	b := w.keyed(t, anotherKey, oneKey)
	b.stored(t, "sub_0001")
	a.admit(t, 2, "ann") // under the old key
	if _, there, err := a.Subscription(t.Context(), "sub_0001"); !there || err != nil {
		t.Errorf("the old process cannot read a secret under its key: %v, %v", there, err)
	}
	ok(a.Reseal(t.Context()))(t) // it does not have the present key
	must(t, b.Retain(t.Context()))
	ok(behind.Reseal(t.Context()))(t) // its key is not the present one
	last := w.keyed(t, anotherKey)
	for _, id := range []string{"sub_0001", "sub_0002"} {
		if got := last.stored(t, id); got.Unreadable != "" || len(got.Secrets) != 1 {
			t.Errorf("%s: %+v", id, got)
		}
	}
	if s := a.stored(t, "sub_0001"); s.Unreadable != domain.UnreadableKey {
		t.Errorf("with the old key alone: %+v", s)
	}
}

func testFirstKeyCrash(t *testing.T, c Config) {
	for _, crash := range []faults.Fault{faults.CrashBefore, faults.CrashAfter} {
		for call, crashed := 0, true; crashed && !t.Failed(); call++ {
			t.Run(fmt.Sprint(crash, " ", call), func(t *testing.T) {
				w := c.world(t)
				p := w.process(t)
				for i := range 3 {
					p.admit(t, i, "ann")
				}
				_, err := w.start(t, faults.Plan{Before: func(c faults.Call) faults.Fault {
					if c.N == call {
						return crash
					}
					return faults.None
				}}, ledger.Options{Key: oneKey})
				crashed = errors.Is(err, faults.ErrCrashed)
				if !crashed {
					must(t, err)
				}
				next := w.keyed(t, oneKey)
				for i := range 3 {
					if got := next.stored(t, fmt.Sprintf("sub_%04d", i)); got.Unreadable != "" || len(got.Secrets) != 1 {
						t.Errorf("%+v", got)
					}
				}
				if w.plain(t) > 0 {
					t.Error("a secret is stored in plain text")
				}
			})
		}
	}
}

func testLostKey(t *testing.T, c Config) {
	w := c.world(t)
	a := w.keyed(t, oneKey)
	s, other := a.admit(t, 1, "ann"), a.admit(t, 2, "ann")
	w.keyed(t, anotherKey, oneKey)
	b := w.keyed(t, anotherKey)
	page, _, err := b.List(t.Context(), ledger.Selection{}, "", 10)
	if must(t, err); len(page) != 2 || page[0].Unreadable != domain.UnreadableKey || page[0].URL != s.URL || page[0].Status.Generation != s.Generation {
		t.Errorf("%+v", page)
	}
	if _, _, err := b.Subscription(t.Context(), s.ID); !errors.Is(err, sealed.ErrKey) {
		t.Errorf("reading it: %v", err)
	}
	if !ok(b.End(t.Context(), s.ID, s.Generation, revoked))(t) {
		t.Error("it cannot end")
	}
	must(t, b.Remove(t.Context(), other.ID, other.Generation))
	if got := a.stored(t, s.ID); got.Ended == nil || len(got.Secrets) != 1 {
		t.Errorf("%+v", got)
	}
	if left := ok(b.Reseal(t.Context()))(t); left != 1 {
		t.Errorf("%d are left", left)
	}
}
