package verify

import (
	"context"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
)

// Records of verified callbacks are kept while they hold or while a live subscription uses them, in
// a number that is bounded for each principal and in all (VER-3).

const (
	// sweepBatch is how many records one step of the store removes.
	SweepBatch = 256
	// sweepAtMost and sweepAtLeast bound the time between two looks for records to remove.
	SweepAtMost, sweepAtLeast = 10 * time.Minute, time.Second
)

// Sweep removes the records that nobody needs, now and from time to time until ctx ends.
func (v *Verifier) Sweep(ctx context.Context, log *fault.Log) {
	every := min(max(v.o.CacheFor/4, sweepAtLeast), SweepAtMost)
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for ctx.Err() == nil {
			n, err := v.store.SweepVerifications(ctx, v.o.Now(), SweepBatch)
			if err != nil {
				log.Internal(ctx, "removing verifications that nobody needs", err)
			}
			if n < SweepBatch || err != nil {
				break
			}
		}
		tick.Reset(every)
	}
}

// A verifiedQuota counts the verifications under way, which will be records.
type verifiedQuota struct {
	mu    sync.Mutex
	owned map[string]int // by principal
	total int
}

func (q *verifiedQuota) add(principal string, n int) (own, all int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.owned == nil {
		q.owned = map[string]int{}
	}
	q.total += n
	if q.owned[principal] += n; q.owned[principal] == 0 {
		delete(q.owned, principal)
	}
	return q.owned[principal], q.total
}

// reserve takes a place for a new record, or says that there is none, before anybody is asked.
func (v *Verifier) reserve(ctx context.Context, principal string) (giveBack func(), err error) {
	o := &v.o
	// Counted before the store is asked: what becomes a record meanwhile counts twice, not never.
	own, all := v.quota.add(principal, 1)
	giveBack = func() { v.quota.add(principal, -1) }
	for swept := false; ; swept = true {
		stored, storedAll, err := v.store.CountVerifications(ctx, principal)
		if err != nil {
			giveBack()
			return nil, err
		}
		full := 0
		switch {
		case o.PerPrincipal >= 0 && stored+own > o.PerPrincipal:
			full = o.PerPrincipal
		case o.Total >= 0 && storedAll+all > o.Total:
			full = o.Total
		default:
			return giveBack, nil
		}
		n := 0
		if !swept { // what is over and not swept yet makes room
			if n, err = v.store.SweepVerifications(ctx, v.o.Now(), SweepBatch); err != nil {
				giveBack()
				return nil, err
			}
		}
		if n == 0 {
			giveBack()
			return nil, fault.Exhausted("verifications", full)
		}
	}
}
