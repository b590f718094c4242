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

// changeHeld calls change for the owner of a shard; a nil h writes without an owner. The batch begins with a write
// that expects the sequence of the hold, so that a claim comes either before or after the batch (JS-22). first is the
// sequence of the first write that step returns. Each shard has at most one batch in flight (JS-23).
func (s *Store) changeHeld(ctx context.Context, h *engine.ShardFence, subjects []string, step func(*reading) ([]write, error)) (first uint64, err error) {
	if h == nil {
		return s.state.change(ctx, subjects, step)
	}
	unlock, err := s.locks.Lock(ctx, "shard "+h.Shard.String())
	if err != nil {
		return 0, err
	}
	defer unlock()
	held, touch := holdSubject(h.Shard), within(h.Shard)+"f"
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

// scan scans the state for the owner of a shard. Each proof expects the sequence of the hold, so that the result is
// as recent as a moment at which the hold was current (JS-28). Without a hold, h is nil or has fence 0.
func (s *Store) scan(ctx context.Context, h *engine.ShardFence, filter, mark string) (found []record, err error) {
	prove := s.state.mark
	if h != nil && h.Fence != 0 {
		prove = func(ctx context.Context, mark string) (uint64, error) {
			return s.changeHeld(ctx, h, nil, func(*reading) ([]write, error) {
				return []write{{subject: mark, blind: true, ttl: keepProof}}, nil
			})
		}
	}
	found, _, err = s.state.scanBy(ctx, prove, filter, mark, 1, 0)
	return found, err
}

// turnOf returns the key of the lock under which progress is written.
func turnOf(h *engine.ShardFence) string {
	if h == nil {
		return "progress"
	}
	return "progress " + h.Shard.String()
}

// saved bounds the number of updates per batch.
const saved = 200

// SaveProgress implements [store.SubscriptionStore].
func (s *Store) SaveProgress(ctx context.Context, updates []store.Update) error {
	return s.saveProgress(ctx, updates, nil, nil)
}

// SaveAttempts implements [engine.Attempts].
func (s *Store) SaveAttempts(ctx context.Context, updates []store.Update, made [][]operator.Attempt) error {
	return s.saveProgress(ctx, updates, made, nil)
}

// saveProgress stores updates and, unless made is nil, the attempts of each update in the same batch as its progress.
func (s *Store) saveProgress(ctx context.Context, updates []store.Update, made [][]operator.Attempt, h *engine.ShardFence) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// Of several updates of one subscription, the last one counts, with the attempts of all.
	var order []saving
	at := map[string]int{}
	for i, u := range updates {
		k, ok := at[u.ID]
		if !ok {
			k = len(order)
			at[u.ID] = k
			order = append(order, saving{})
		}
		order[k].Update = u
		if made != nil && len(made[i]) > 0 {
			order[k].made = append(order[k].made, attempts{u.Generation, made[i]})
		}
	}
	for some := range slices.Chunk(order, saved) {
		if err := s.saveSome(ctx, some, h); err != nil {
			return err
		}
	}
	return nil
}

// A saving is an update with its attempts.
type saving struct {
	store.Update
	made []attempts
}

type attempts struct {
	generation uint64
	made       []operator.Attempt
}

func (s *Store) saveSome(ctx context.Context, some []saving, h *engine.ShardFence) error {
	at := anyShard
	if h != nil {
		at = within(h.Shard)
	}
	var read []string
	for _, u := range some {
		read = append(read, recordAt(at, u.ID), progressAt(at, u.ID, u.Generation))
	}
	var grew map[string]int
	err := s.one(ctx, turnOf(h), func(ctx context.Context) error {
		_, err := s.changeHeld(ctx, h, read, func(r *reading) (writes []write, err error) {
			grew = map[string]int{}
			for _, u := range some {
				found := r.under(recordAt(at, u.ID))
				if len(found) == 0 && !r.proven { // a server that lags may not have it
					return nil, errLook
				}
				for _, rec := range found {
					x, err := subscribedIn(rec)
					if err != nil {
						return nil, err
					}
					if x.Generation != u.Generation && !r.proven {
						return nil, errLook
					}
					of := strings.TrimSuffix(rec.subject, "r."+token(u.ID))
					for _, a := range u.made {
						if a.generation == x.Generation {
							grew[u.ID] += len(a.made)
							writes = append(writes, write{subject: attemptAt(u.ID, x.Generation, len(a.made)), body: attemptlog.Encode(a.made), blind: true})
						}
					}
					if x.Generation != u.Generation {
						continue
					}
					b, err := progressOf(u.Progress, u.Health)
					if err != nil {
						return nil, err
					}
					writes = append(writes, put(r.of(progressAt(of, u.ID, u.Generation)), b))
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

// saveMark moves the mark of a log in a shard; it never moves the mark back.
func (s *Store) saveMark(ctx context.Context, of engine.Shard, log string, to store.Position, h *engine.ShardFence) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	mark := markAt(within(of), log)
	err := s.one(ctx, turnOf(h), func(ctx context.Context) error {
		_, err := s.changeHeld(ctx, h, []string{mark}, func(r *reading) ([]write, error) {
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
	if r.there() {
		if err := json.Unmarshal(r.body, &p); err != nil {
			return 0, fmt.Errorf("%w: %s: %w", ErrCorrupt, r.subject, err)
		}
	}
	return p, nil
}

// Mark implements [store.SubscriptionStore].
func (s *Store) Mark(ctx context.Context, log string) (store.Position, error) {
	return s.mark(ctx, engine.Shard{}, log)
}

func (s *Store) mark(ctx context.Context, of engine.Shard, log string) (store.Position, error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	mark := markAt(within(of), log)
	r, err := s.state.read(ctx, true, mark)
	if err != nil {
		return 0, s.because(fmt.Errorf("reading the mark of log %s: %w", log, err))
	}
	return position(r.of(mark))
}

// sweep deletes progress without a subscription, for the owner of the shard. Records that it fails to delete stay for
// the next time.
func (s *Store) sweep(ctx context.Context, h *engine.ShardFence, stale []record) {
	if h == nil || h.Fence == 0 {
		return
	}
	for some := range slices.Chunk(stale, saved) {
		var read []string
		for _, x := range some {
			read = append(read, x.subject)
		}
		_, err := s.changeHeld(ctx, h, read, func(r *reading) (writes []write, err error) {
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
func (s *Store) Owned(h engine.ShardFence) engine.Owned { return &owned{s: s, h: h} }

// owned holds the subscriptions of one shard, as seen by the owner that the hold names.
type owned struct {
	s *Store
	h engine.ShardFence

	mu    sync.Mutex
	pages []store.Subscription // read by a scan, for the next pages
}

func (o *owned) PutSubscription(ctx context.Context, sub store.Subscription) (uint64, error) {
	return o.s.admit(ctx, sub, engine.Quota{}, &o.h)
}

func (o *owned) DeleteSubscription(ctx context.Context, id string, generation uint64) error {
	return o.s.delete(ctx, id, generation, &o.h)
}

// Subscriptions implements [engine.Owned]. It reads all subscriptions of the shard for the first page and cuts the
// pages from the result (JS-28).
func (o *owned) Subscriptions(ctx context.Context, after string, limit int) ([]store.Subscription, error) {
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

func (o *owned) scan(ctx context.Context) (subs []store.Subscription, err error) {
	ctx, done, err := o.s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	at := within(o.h.Shard)
	found, err := o.s.scan(ctx, &o.h, at+"r.>", o.s.proofIn(at+"r."))
	if err != nil {
		return nil, o.s.because(fmt.Errorf("reading the subscriptions of %v: %w", o.h.Shard, err))
	}
	latest := map[string]record{}
	for _, r := range found {
		latest[r.subject] = r
	}
	used := map[string]bool{}
	var progress []record
	for _, r := range latest {
		switch part := strings.Split(r.subject, "."); {
		case !r.there():
		case len(part) > 5:
			progress = append(progress, r)
		default:
			subs = o.s.readable(subs, r, func(subject string) record {
				used[subject] = true
				return latest[subject]
			})
		}
	}
	slices.SortFunc(subs, func(a, b store.Subscription) int { return cmp.Compare(a.ID, b.ID) })
	var stale []record
	for _, r := range progress {
		if rec := latest[r.subject[:strings.LastIndex(r.subject, ".")]]; !used[r.subject] && !rec.there() {
			stale = append(stale, r)
		}
	}
	o.s.sweep(ctx, &o.h, stale)
	return subs, nil
}

func (o *owned) SaveProgress(ctx context.Context, updates []store.Update) error {
	return o.s.saveProgress(ctx, updates, nil, &o.h)
}

func (o *owned) SaveAttempts(ctx context.Context, updates []store.Update, made [][]operator.Attempt) error {
	return o.s.saveProgress(ctx, updates, made, &o.h)
}

func (o *owned) SaveMark(ctx context.Context, log string, to store.Position) error {
	return o.s.saveMark(ctx, o.h.Shard, log, to, &o.h)
}

func (o *owned) Mark(ctx context.Context, log string) (store.Position, error) {
	return o.s.mark(ctx, o.h.Shard, log)
}
