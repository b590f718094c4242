package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/faults"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A walker does random operations on a few subscriptions.
type walker struct {
	*process
	r     *rand.Rand
	owner *owner
	at    store.Position
}

// walkQuota bounds the subscriptions and verifications of a walk.
var walkQuota = ledger.Quota{Own: 4, All: 6}

// step does one operation.
func (w *walker) step(ctx context.Context) error {
	id, principal := fmt.Sprintf("sub_%04d", w.r.IntN(8)), []string{"ann", "bob"}[w.r.IntN(2)]
	switch w.r.IntN(10) {
	case 0, 1:
		i := w.r.IntN(8)
		s := ledger.Subscription{ID: fmt.Sprintf("sub_%04d", i), Principal: []string{"ann", "bob"}[i%2], URL: "u", Shard: shard, Generation: w.r.Uint64()}
		_, err := w.Admit(ctx, s, store.Progress{}, walkQuota)
		return err
	case 2:
		s, there, err := w.State(ctx, id)
		if err != nil || !there {
			return err
		}
		return w.Remove(ctx, id, s.Generation)
	case 3:
		s, there, err := w.State(ctx, id)
		if err != nil || !there {
			return err
		}
		_, err = w.End(ctx, id, s.Generation, wire.ErrorObject{Code: 1})
		return err
	case 4, 5:
		_, _, err := w.Change(ctx, id, func(s *ledger.Subscription) bool { s.Gap++; return true })
		return err
	case 6:
		return w.AdmitVerification(ctx, store.Verification{Principal: principal, URL: id, Until: time.Now().Add(-1)}, walkQuota)
	case 7:
		return w.DeleteVerification(ctx, principal, id)
	case 8:
		if w.r.IntN(5) == 0 {
			return w.Retain(ctx)
		}
		fallthrough
	default:
		return w.own(ctx)
	}
}

// own goes on as the owner of the shard, or takes it over.
func (w *walker) own(ctx context.Context) (err error) {
	if w.owner == nil {
		if w.lease, err = w.Join(ctx, ledger.Member{TTL: ttl}); err != nil {
			return err
		}
		w.owner, err = w.takeOver(ctx)
		return err
	}
	if err = w.owner.follow(ctx); err == nil {
		w.at++
		w.owner.settle(w.at)
		err = w.owner.save(ctx, w.at)
	}
	if err != nil {
		w.owner = nil
	}
	return err
}

// expected reports whether a walk may meet the error.
func expected(err error) bool {
	for _, target := range []error{faults.ErrUnsent, faults.ErrNoAnswer, store.ErrUncertain, store.ErrConflict, ledger.ErrQuota, ledger.ErrFenced, errClaim} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

func testRandomFaults(t *testing.T, c Config) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := c.world(t)
			var faulty atomic.Bool
			var wg sync.WaitGroup
			var all []*process
			for n := range uint64(3) {
				random := faults.Random(3*seed+n, 0.15)
				p := w.faulty(t, faults.Plan{Before: func(c faults.Call) faults.Fault {
					if !faulty.Load() {
						return faults.None
					}
					return random(c)
				}})
				all = append(all, p)
			}
			faulty.Store(true)
			for n, p := range all {
				walk := &walker{process: p, r: rand.New(rand.NewPCG(seed, uint64(n)))}
				wg.Go(func() {
					for range 100 {
						if err := walk.step(t.Context()); err != nil && !expected(err) {
							t.Error(err)
						}
						if walk.r.IntN(10) == 0 {
							p.faults.Deliver(t.Context())
						}
					}
				})
			}
			wg.Wait()
			faulty.Store(false)
			for _, p := range all {
				p.faults.Deliver(t.Context())
			}
			for _, principal := range []string{"ann", "bob"} {
				own, sum, err := all[0].Count(t.Context(), principal)
				if must(t, err); own > walkQuota.Own || sum > walkQuota.All {
					t.Errorf("%s has %d of %d", principal, own, sum)
				}
			}
		})
	}
}

// severalWriters are the families of records that several processes write, and why they do not compete for one record.
var severalWriters = map[string]string{
	"sub":        "one subscription; an owner only ends it",
	"pro":        "its owner; any process at the beginning and at the end",
	"use":        "any process at the beginning and at the end of one subscription",
	"quota":      "divided into stripes",
	"ver":        "one principal and URL",
	"revoked":    "an operator's order about one principal",
	"gap":        "an operator's order about one event type",
	"raise":      "an operator's order about one event type",
	"recheck":    "an operator's order about one event type",
	"closed":     "an operator's order about one event type",
	"act":        "one action",
	"mark":       "one owner after the other",
	"live/lease": "its process; any process deletes it once it has expired",
	"live/shard": "one claim after the other",
}

func testWriters(t *testing.T, c Config) {
	w := c.world(t)
	writers := map[string]map[int]bool{}
	var all []*process
	for n := range 2 {
		all = append(all, w.faulty(t, faults.Plan{After: func(c faults.Call, err error) {
			if c.Commit == nil || err != nil {
				return
			}
			for _, w := range c.Commit.Writes {
				if writers[w.Key] == nil {
					writers[w.Key] = map[int]bool{}
				}
				writers[w.Key][n] = true
			}
		}}))
	}
	for range 2 {
		for _, p := range all {
			s := &script{done: map[string]bool{}}
			p.lease = ok(p.Join(t.Context(), ledger.Member{TTL: ttl}))(t) // the other process has ended the lease before
			for i := range 6 {
				id := ok(p.Admit(t.Context(), ledger.Subscription{ID: fmt.Sprintf("sub_%04d", i), Principal: "ann", URL: "u", Shard: shard,
					Generation: rand.Uint64(), Revision: revisionOf(t, p, i)}, store.Progress{}, ledger.Quota{}))(t)
				s.admitted = append(s.admitted, id)
			}
			o := ok(p.takeOver(t.Context()))(t)
			o.settle(o.checkpoint.Position + 1)
			made(t, o.records, s.admitted[0], 1)
			must(t, o.save(t.Context(), o.checkpoint.Position+1))
			for _, step := range steps {
				if step.name == "schema" {
					step.do = func(ctx context.Context, p *process, _ *script) error {
						return p.AddSchema(ctx, topic, ledger.SchemaVersion{}, len(ok(p.History(ctx, topic))(t)))
					}
				}
				must(t, step.do(t.Context(), p, s))
			}
			for _, order := range []func(context.Context, string) (ledger.Order, error){p.RaiseGap, p.Recheck} {
				ok(order(t.Context(), topic))(t)
			}
			ok(p.RaiseError(t.Context(), topic, wire.ErrorObject{}))(t)
			must(t, p.Close(t.Context(), topic, wire.ErrorObject{}))
			must(t, p.ForgetAction(t.Context(), "a"))
			must(t, o.follow(t.Context()))
		}
	}
	several := map[string]bool{}
	for key, by := range writers {
		if len(by) > 1 {
			family, rest, _ := strings.Cut(key, "/")
			if family == "live" {
				kind, _, _ := strings.Cut(rest, "/")
				family += "/" + kind
			}
			several[family] = true
		}
	}
	want, have := slices.Sorted(maps.Keys(severalWriters)), slices.Sorted(maps.Keys(several))
	if !slices.Equal(want, have) {
		t.Errorf("several processes write\n%v, listed are\n%v", have, want)
	}
}

// revisionOf returns the revision of a subscription, 0 if it does not exist.
func revisionOf(t *testing.T, p *process, i int) uint64 {
	t.Helper()
	s, _, err := p.State(t.Context(), fmt.Sprintf("sub_%04d", i))
	must(t, err)
	return s.Revision
}
