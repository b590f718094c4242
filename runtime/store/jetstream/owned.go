package jetstream

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/attemptlog"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// changeOwned calls change on behalf of a shard's owner, or without an owner if h is nil. The batch begins with a write
// that expects the sequence of the hold, so a claim is ordered either before or after the batch (JS-22). The result
// first is the sequence of the first write returned by step. Each shard has at most one batch in flight (JS-23).
func (s *Store) changeOwned(ctx context.Context, h *engine.ShardFence, subjects []string, step func(*reading) ([]write, error)) (first uint64, err error) {
	if h == nil {
		return s.state.change(ctx, subjects, step)
	}
	unlock, err := s.locks.Lock(ctx, "shard "+h.Shard.String())
	if err != nil {
		return 0, err
	}
	defer unlock()
	held, touch := holdSubject(h.Shard), shardPrefix(h.Shard)+"f"
	first, err = s.state.change(ctx, append([]string{held}, subjects...), func(r *reading) ([]write, error) {
		is, err := holdOf(r.of(held))
		switch {
		case err != nil:
			return nil, err
		case is.Fence != h.Fence || h.Fence == 0 || generationOf(h.Fence) < s.generation.Load():
			return nil, fmt.Errorf("%v is not held by %d: %w", h.Shard, h.Fence, engine.ErrFenced)
		}
		writes, err := step(r)
		if err != nil || len(writes) == 0 {
			return nil, err
		}
		return append([]write{{subject: touch, of: held, on: is.sequence}}, writes...), nil
	})
	if first > 0 {
		first++
	}
	return first, err
}

// scan reads state records on behalf of a shard's owner. Each proof expects the sequence of the hold, so the result
// reflects a time at which the hold was current (JS-28). A nil h or fence 0 means that the caller is not an owner.
func (s *Store) scan(ctx context.Context, h *engine.ShardFence, filter, mark string) (found []record, err error) {
	prove := s.state.writeMarker
	if h != nil && h.Fence != 0 {
		prove = func(ctx context.Context, mark string) (uint64, error) {
			return s.changeOwned(ctx, h, nil, func(*reading) ([]write, error) {
				return []write{{subject: mark, blind: true, ttl: proofTTL}}, nil
			})
		}
	}
	found, _, err = s.state.scanWithProof(ctx, prove, filter, mark, 1, 0)
	return found, err
}

// progressLock returns the key of the lock for writing progress.
func progressLock(h *engine.ShardFence) string {
	if h == nil {
		return "progress"
	}
	return "progress " + h.Shard.String()
}

// maxUpdates is the maximum number of updates per batch.
const maxUpdates = 200

// SaveProgress implements [store.SubscriptionStore].
func (s *Store) SaveProgress(ctx context.Context, updates []store.Update) error {
	return s.saveProgress(ctx, updates, nil, nil)
}

// SaveAttempts implements [engine.Attempts].
func (s *Store) SaveAttempts(ctx context.Context, updates []store.Update, tried [][]operator.Attempt) error {
	return s.saveProgress(ctx, updates, tried, nil)
}

// saveProgress stores updates. It stores the attempts of an update, if given, in the same batch as its progress.
func (s *Store) saveProgress(ctx context.Context, updates []store.Update, tried [][]operator.Attempt, h *engine.ShardFence) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// If a subscription has several updates, store the last one with the attempts of all.
	var order []pendingUpdate
	at := map[string]int{}
	for i, u := range updates {
		k, ok := at[u.ID]
		if !ok {
			k = len(order)
			at[u.ID] = k
			order = append(order, pendingUpdate{})
		}
		order[k].Update = u
		if tried != nil && len(tried[i]) > 0 {
			order[k].made = append(order[k].made, attempts{u.Generation, tried[i]})
		}
	}
	for some := range slices.Chunk(order, maxUpdates) {
		if err := s.saveSome(ctx, some, h); err != nil {
			return err
		}
	}
	return nil
}

// A pendingUpdate is an update with the attempts to store.
type pendingUpdate struct {
	store.Update
	made []attempts
}

type attempts struct {
	generation uint64
	made       []operator.Attempt
}

func (s *Store) saveSome(ctx context.Context, some []pendingUpdate, h *engine.ShardFence) error {
	at := shardPattern
	if h != nil {
		at = shardPrefix(h.Shard)
	}
	var read []string
	for _, u := range some {
		read = append(read, recordSubject(at, u.ID), progressSubject(at, u.ID, u.Generation))
	}
	var grew map[string]int
	err := s.withLock(ctx, progressLock(h), func(ctx context.Context) error {
		_, err := s.changeOwned(ctx, h, read, func(r *reading) (writes []write, err error) {
			grew = map[string]int{}
			for _, u := range some {
				found := r.findMatching(recordSubject(at, u.ID))
				if len(found) == 0 && !r.proven { // a server that lags may not have it
					return nil, errUnproven
				}
				for _, rec := range found {
					x, err := decodeSubscription(rec)
					if err != nil {
						return nil, err
					}
					if x.Generation != u.Generation && !r.proven {
						return nil, errUnproven
					}
					of := strings.TrimSuffix(rec.subject, "r."+encodeToken(u.ID))
					for _, a := range u.made {
						if a.generation == x.Generation {
							grew[u.ID] += len(a.made)
							writes = append(writes, write{subject: attemptSubject(u.ID, x.Generation, len(a.made)), body: attemptlog.Encode(a.made), blind: true})
						}
					}
					if x.Generation != u.Generation {
						continue
					}
					b, err := progressOf(u.Progress, u.Health, u.Report)
					if err != nil {
						return nil, err
					}
					writes = append(writes, put(r.of(progressSubject(of, u.ID, u.Generation)), b))
				}
			}
			return writes, nil
		})
		return err
	})
	for id, n := range grew {
		s.trimmer.Grew(id, n) // after an error they may be stored as well
	}
	if err != nil {
		return fmt.Errorf("saving progress: %w", err)
	}
	return nil
}

// SaveMark implements [store.SubscriptionStore].
func (s *Store) SaveMark(ctx context.Context, log string, to store.Position) error {
	return s.saveMark(ctx, engine.Shard{}, log, to, nil)
}

// saveMark advances the mark of a log in a shard. It never decreases the mark.
func (s *Store) saveMark(ctx context.Context, of engine.Shard, log string, to store.Position, h *engine.ShardFence) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	mark := markSubject(shardPrefix(of), log)
	err := s.withLock(ctx, progressLock(h), func(ctx context.Context) error {
		_, err := s.changeOwned(ctx, h, []string{mark}, func(r *reading) ([]write, error) {
			is := r.of(mark)
			now, err := position(is)
			if err != nil || now >= to && h == nil { // an owner's write is always made, because it checks the fence
				return nil, err
			}
			b, err := json.Marshal(max(now, to))
			return []write{put(is, b)}, err
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("saving the mark of log %s: %w", log, err)
	}
	return nil
}

func position(r record) (p store.Position, err error) {
	_, err = decodeRecord(r, &p)
	return p, err
}

// Mark implements [store.SubscriptionStore].
func (s *Store) Mark(ctx context.Context, log string) (store.Position, error) {
	return s.mark(ctx, engine.Shard{}, log)
}

func (s *Store) mark(ctx context.Context, of engine.Shard, log string) (store.Position, error) {
	mark := markSubject(shardPrefix(of), log)
	r, err := s.readProven(ctx, mark)
	if err != nil {
		return 0, fmt.Errorf("reading the mark of log %s: %w", log, err)
	}
	return position(r.of(mark))
}

// sweep deletes progress without a subscription on behalf of the shard's owner. If a deletion fails, the next sweep
// retries it.
func (s *Store) sweep(ctx context.Context, h *engine.ShardFence, stale []record) {
	if h == nil || h.Fence == 0 {
		return
	}
	for some := range slices.Chunk(stale, maxUpdates) {
		var read []string
		for _, x := range some {
			read = append(read, x.subject)
		}
		_, err := s.changeOwned(ctx, h, read, func(r *reading) (writes []write, err error) {
			for _, x := range some {
				if now := r.of(x.subject); now.sequence == x.sequence {
					writes = append(writes, remove(now))
				}
			}
			return writes, nil
		})
		if err != nil {
			s.log.Debug("jetstream: progress without a subscription was not deleted", "shard", h.Shard, "error", err)
			return
		}
	}
}

// Owned implements [engine.Shared].
func (s *Store) Owned(h engine.ShardFence) engine.Owned { return &ownedShard{s: s, h: h} }

// ownedShard implements [engine.Owned] for the subscriptions of one shard.
type ownedShard struct {
	s *Store
	h engine.ShardFence

	mu    sync.Mutex
	pages []store.Subscription // read by a scan, for the next pages
}

func (o *ownedShard) PutSubscription(ctx context.Context, sub store.Subscription) (uint64, error) {
	return o.s.admit(ctx, sub, engine.Quota{}, &o.h)
}

func (o *ownedShard) DeleteSubscription(ctx context.Context, id string, generation uint64) error {
	return o.s.delete(ctx, id, generation, &o.h)
}

// Subscriptions implements [engine.Owned]. It reads all subscriptions of the shard for the first page, and returns
// later pages from the same result (JS-28).
func (o *ownedShard) Subscriptions(ctx context.Context, after string, limit int) ([]store.Subscription, error) {
	o.mu.Lock()
	all := o.pages
	o.mu.Unlock()
	if after == "" || len(all) == 0 {
		var err error
		if all, err = o.scan(ctx); err != nil {
			return nil, err
		}
	}
	i, found := slices.BinarySearchFunc(all, after, func(x store.Subscription, id string) int { return cmp.Compare(x.ID, id) })
	if found {
		i++
	}
	page := all[i:min(i+max(limit, 0), len(all))]
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pages = all[i+len(page):]; len(page) < limit {
		o.pages = nil
	}
	return slices.Clone(page), nil
}

func (o *ownedShard) scan(ctx context.Context) (subs []store.Subscription, err error) {
	ctx, done, err := o.s.beginCall(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	at := shardPrefix(o.h.Shard)
	found, err := o.s.scan(ctx, &o.h, at+"r.>", o.s.proofSubject(at+"r."))
	if err != nil {
		return nil, o.s.wrapClosed(fmt.Errorf("reading the subscriptions of %v: %w", o.h.Shard, err))
	}
	latest := map[string]record{}
	for _, r := range found {
		latest[r.subject] = r
	}
	used := map[string]bool{}
	var progress []record
	for _, r := range latest {
		switch part := strings.Split(r.subject, "."); {
		case !r.exists():
		case len(part) > 5:
			progress = append(progress, r)
		default:
			subs = o.s.appendReadable(subs, r, func(subject string) record {
				used[subject] = true
				return latest[subject]
			})
		}
	}
	slices.SortFunc(subs, func(a, b store.Subscription) int { return cmp.Compare(a.ID, b.ID) })
	var stale []record
	for _, r := range progress {
		if rec := latest[r.subject[:strings.LastIndex(r.subject, ".")]]; !used[r.subject] && !rec.exists() {
			stale = append(stale, r)
		}
	}
	o.s.sweep(ctx, &o.h, stale)
	return subs, nil
}

func (o *ownedShard) SaveProgress(ctx context.Context, updates []store.Update) error {
	return o.s.saveProgress(ctx, updates, nil, &o.h)
}

func (o *ownedShard) SaveAttempts(ctx context.Context, updates []store.Update, tried [][]operator.Attempt) error {
	return o.s.saveProgress(ctx, updates, tried, &o.h)
}

func (o *ownedShard) SaveMark(ctx context.Context, log string, to store.Position) error {
	return o.s.saveMark(ctx, o.h.Shard, log, to, &o.h)
}

func (o *ownedShard) Mark(ctx context.Context, log string) (store.Position, error) {
	return o.s.mark(ctx, o.h.Shard, log)
}
