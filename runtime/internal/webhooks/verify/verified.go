package verify

import (
	"context"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
)

// Records of verified callbacks are kept while they are valid or a live subscription uses them. Their number is limited
// per principal and in total (VER-3).

const (
	// SweepBatch is the maximum number of records that a single call to the store removes.
	SweepBatch = 256
	// SweepAtMost and minSweepPause limit the time between two sweeps.
	SweepAtMost, minSweepPause = 10 * time.Minute, time.Second
)

// Sweep removes records that are no longer needed, immediately and then periodically until ctx ends.
func (v *Verifier) Sweep(ctx context.Context, log *fault.Log) {
	every := min(max(v.o.CacheFor/4, minSweepPause), SweepAtMost)
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
				log.Internal(ctx, "removing expired verifications", err)
			}
			if n < SweepBatch || err != nil {
				break
			}
		}
		tick.Reset(every)
	}
}

// A verifiedQuota counts the verifications in progress. Each can result in a record.
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

// reserveRecord reserves a slot for a new record. It is called before the callback is contacted. It returns an error if
// the quota is exhausted.
func (v *Verifier) reserveRecord(ctx context.Context, principal string) (giveBack func(), err error) {
	o := &v.o
	// Count before querying the store, so a record that is stored concurrently is counted twice and not missed.
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
		if !swept { // expired records that were not swept make room
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
