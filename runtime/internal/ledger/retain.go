package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	domain "github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// revocationAge is for how long a revocation is kept at least. A request that began before the revocation is over by then.
const revocationAge = time.Hour

// Retain makes one pass over the records that nothing else deletes. The owner of the shard of retention calls it every
// minute. A pass deletes actions beyond their number, revocations that concern no subscription, and attempts if there may
// be too many. The first pass of a process, and one every hour, also deletes verifications that have expired, attempts
// beyond all bounds, and records without a subscription, and encrypts secrets with the current key; see [Ledger.Reseal].
// A part that fails does not keep the others from their work, nor does a record that cannot be read.
func (l *Ledger) Retain(ctx context.Context) error {
	now, err := l.e.Clock(ctx)
	if err != nil {
		return err
	}
	hourly := l.hourly.due(now)
	errs := []error{l.trimActions(ctx), l.trimRevocations(ctx, now)}
	if hourly || l.attempts.exceeds(l.bounds.Total) {
		errs = append(errs, l.TrimAttempts(ctx, l.bounds, now))
	}
	if hourly {
		_, verifications := l.SweepVerifications(ctx, now, math.MaxInt)
		_, sealed := l.Reseal(ctx)
		errs = append(errs, verifications, sealed, l.deleteOrphans(ctx))
	}
	if err = errors.Join(errs...); err == nil && hourly {
		l.hourly.done(now)
	}
	return err
}

// An hourly is work that is due once an hour, and immediately as long as it fails.
type hourly struct {
	mu   sync.Mutex
	next time.Time
}

func (h *hourly) due(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !now.Before(h.next)
}

func (h *hourly) done(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = now.Add(time.Hour)
}

// trimActions deletes the oldest actions beyond the number that is remembered.
func (l *Ledger) trimActions(ctx context.Context) error {
	type aged struct {
		key      string
		revision uint64
		at       time.Time
	}
	var all []aged
	err := l.each(ctx, familyAction+"/", func(r store.Record) error {
		a, err := decode[actionRecord](r)
		if err == nil {
			all = append(all, aged{r.Key, r.Revision, a.At})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("deleting old actions: %w", err)
	}
	slices.SortFunc(all, func(a, b aged) int { return a.at.Compare(b.at) })
	for _, a := range all[:max(0, len(all)-domain.MaxActions)] {
		if err := l.delete(ctx, a.key, a.revision); err != nil {
			return fmt.Errorf("deleting old actions: %w", err)
		}
	}
	return nil
}

// delete deletes a record unless it has changed. It notifies nobody.
func (l *Ledger) delete(ctx context.Context, key string, revision uint64) error {
	_, err := l.commit(ctx, &store.Commit{Writes: []store.Write{{Key: key, On: revision}}})
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}

// trimRevocations deletes the revocations that concern no subscription any more.
func (l *Ledger) trimRevocations(ctx context.Context, now time.Time) error {
	err := l.each(ctx, familyRevoked+"/", func(r store.Record) error {
		revoked, err := decode[Revocations](r)
		if err != nil || now.Sub(revoked.until()) < revocationAge {
			return err
		}
		uses := join(familyUse, strings.TrimPrefix(r.Key, familyRevoked+"/")) + "/"
		err = l.pages(ctx, uses, func(page []store.Record) error {
			keys := make([]string, len(page))
			for i, u := range page {
				keys[i] = join(familySub, lastSegment(u.Key))
			}
			found, err := l.get(ctx, store.Latest, keys)
			if err != nil {
				return err
			}
			for _, x := range found {
				s, err := decode[subscriptionRecord](x)
				if err != nil {
					return errEnough // it may be an old one
				}
				if s == nil {
					continue
				}
				if _, ok := revoked.revokes(&s.Subscription); ok {
					return errEnough
				}
			}
			return nil
		})
		if errors.Is(err, errEnough) {
			return nil
		}
		if err != nil {
			return err
		}
		return l.delete(ctx, r.Key, r.Revision)
	})
	if err != nil {
		return fmt.Errorf("deleting old revocations: %w", err)
	}
	return nil
}

// deleteOrphans deletes and logs status and index records without a subscription. There should be none.
func (l *Ledger) deleteOrphans(ctx context.Context) error {
	for _, family := range [...]string{familyProgress, familyUse} {
		err := l.pages(ctx, family+"/", func(page []store.Record) error {
			keys := make([]string, len(page))
			for i, r := range page {
				keys[i] = join(familySub, lastSegment(r.Key))
			}
			found, err := l.get(ctx, store.Latest, keys)
			if err != nil {
				return err
			}
			for i, r := range page {
				if found[i].Value != nil {
					continue
				}
				if err := l.deleteOrphan(ctx, r, found[i]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("deleting records without a subscription: %w", err)
		}
	}
	return nil
}

// deleteOrphan deletes a record unless it has changed since it was read, as it has if its subscription was removed.
func (l *Ledger) deleteOrphan(ctx context.Context, r, sub store.Record) error {
	c := &store.Commit{Writes: []store.Write{{Key: r.Key, On: r.Revision}}}
	if sub.Revision != 0 {
		c.Guards = []store.Guard{{Key: sub.Key, Revision: sub.Revision}}
	}
	_, err := l.commit(ctx, c)
	if err == nil {
		l.log.Error("mcp events: a record without a subscription was deleted", "key", r.Key)
	}
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}
