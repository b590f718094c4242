package jetstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// shortLease is the shortest lease that survives the crash of a nats-server, which can stall writes for up to 10 s
	// (JS-35).
	shortLease = 25 * time.Second
	// maxShards is the maximum number of shards per topic.
	maxShards = 4096
	// viewMaxAge is the age at which a view is reloaded completely. Deletions are stored for longer.
	viewMaxAge = tombstoneTTL / 2
)

// A storedLease is the encoding of a lease in the stream. The fence is derived from the sequence of the lease's first
// message, and only later messages contain it.
type storedLease struct {
	Generation uint64
	Fence      uint64 `json:",omitempty"`
	Name       string
	TTL        time.Duration
	Types      map[string]string
	Report     json.RawMessage `json:",omitempty"`

	record record
}

func (l *storedLease) fence() uint64 { return cmp.Or(l.Fence, fence(l.Generation, l.record.sequence)) }

// isExpired reports whether the lease has expired. The argument now is the time of the nats-servers' clock.
func (l *storedLease) isExpired(now time.Time) bool { return !now.Before(l.record.stamp.Add(l.TTL)) }

func leaseOf(r record) (l storedLease, err error) {
	if err := json.Unmarshal(r.body, &l); err != nil {
		return l, fmt.Errorf("%w: lease %s: %w", ErrCorrupt, r.subject, err)
	}
	l.record = r
	return l, nil
}

// A storedTopic is the encoding of a topic and its number of shards in the stream.
type storedTopic struct {
	Topic  string
	Shards int
}

// A storedHold is the encoding of a hold in the stream. A hold records a shard's owner.
type storedHold struct {
	Topic  string
	Number int
	Fence  uint64

	subject  string
	sequence uint64
}

func holdOf(r record) (h storedHold, err error) {
	if r.exists() {
		if err := json.Unmarshal(r.body, &h); err != nil {
			return h, fmt.Errorf("%w: hold %s: %w", ErrCorrupt, r.subject, err)
		}
	}
	h.subject, h.sequence = r.subject, r.sequence
	return h, nil
}

func (h *storedHold) put() ([]write, error) {
	b, err := json.Marshal(h)
	return []write{{subject: h.subject, on: h.sequence, body: b}}, err
}

// holdSubject returns the subject of a shard's hold record.
func holdSubject(s engine.Shard) string {
	return holds + logToken(s.Topic) + "." + strconv.Itoa(s.Number)
}

// A view is a process's copy of the leases, topics and holds. Each read updates it with the changes since the previous
// one.
type view struct {
	now    time.Time // the nats-servers' clock when the view was proven
	leases map[string]storedLease
	topics map[string]storedTopic
	holds  map[string]storedHold
}

// A follower maintains a view. It is guarded by the lock "view".
type follower struct {
	upTo uint64
	at   time.Time
	view view
	life *generationRecord
}

// currentView returns a view that is at least as recent as the call (JS-17).
func (s *Store) currentView(ctx context.Context) (view, error) {
	unlock, err := s.locks.Lock(ctx, "view")
	if err != nil {
		return view{}, err
	}
	defer unlock()
	f := &s.cluster
	if time.Since(f.at) > viewMaxAge {
		f.discardView()
	}
	began := time.Now()
	found, upTo, err := s.state.scan(ctx, "c.>", s.state.proof, f.upTo+1, 0)
	if err == nil && (upTo < f.upTo || f.upTo > 0 && slices.ContainsFunc(found, func(r record) bool { return r.subject == generationSubject })) {
		f.discardView() // another generation has begun: the stream may have been recreated
		found, upTo, err = s.state.scan(ctx, "c.>", s.state.proof, 1, 0)
	}
	if err != nil {
		return view{}, err
	}
	for _, r := range found {
		if err := s.applyRecord(f, r); err != nil {
			return view{}, err
		}
	}
	f.upTo, f.at = upTo, began
	if f.life != nil && f.life.Generation > s.generation.Load() && s.generation.Load() > 0 { // another process has begun it
		s.setGeneration(f.life.Generation)
	}
	return view{now: f.view.now, leases: maps.Clone(f.view.leases), topics: maps.Clone(f.view.topics), holds: maps.Clone(f.view.holds)}, nil
}

// discardView discards the view, so the next read reloads it completely.
func (f *follower) discardView() {
	f.upTo, f.view, f.life = 0, view{leases: map[string]storedLease{}, topics: map[string]storedTopic{}, holds: map[string]storedHold{}}, nil
}

// applyRecord applies a record to the view.
func (s *Store) applyRecord(f *follower, r record) (err error) {
	switch v := &f.view; {
	case r.subject == s.state.proof:
		s.clock.observe(r.stamp)
		v.now = r.stamp
	case r.subject == generationSubject:
		f.life, err = s.decodeGeneration(&r)
	case strings.HasPrefix(r.subject, leases):
		if delete(v.leases, r.subject); r.exists() {
			v.leases[r.subject], err = leaseOf(r)
		}
	case strings.HasPrefix(r.subject, topics) && r.exists():
		var t storedTopic
		if err := json.Unmarshal(r.body, &t); err != nil {
			return fmt.Errorf("%w: topic %s: %w", ErrCorrupt, r.subject, err)
		}
		v.topics[t.Topic] = t
	case strings.HasPrefix(r.subject, holds):
		v.holds[r.subject], err = holdOf(r)
	}
	return err
}

// liveView returns a view without expired leases or leases of earlier generations. It first deletes these leases by
// compare-and-swap, so they cannot be renewed (JS-19).
func (s *Store) liveView(ctx context.Context) (view, error) {
	for {
		if err := ctx.Err(); err != nil {
			return view{}, err
		}
		v, err := s.currentView(ctx)
		if err != nil {
			return v, err
		}
		ended := false
		for subject, l := range v.leases {
			if generation := s.generation.Load(); !l.isExpired(v.now) && (l.Generation >= generation) {
				continue
			}
			ended = true
			if err := s.endLease(ctx, subject, func(now storedLease) bool { return now.record.sequence == l.record.sequence }); err != nil {
				return v, err
			}
		}
		if !ended {
			return v, nil
		}
	}
}

// endLease deletes a lease if match returns true for it.
func (s *Store) endLease(ctx context.Context, subject string, match func(storedLease) bool) error {
	known := true
	_, err := s.state.change(ctx, []string{subject}, func(r *reading) ([]write, error) {
		x := r.of(subject)
		if known = x.sequence > 0; !x.exists() {
			return nil, nil // the next view includes the deletion
		}
		l, err := leaseOf(x)
		if err != nil || !match(l) {
			return nil, err
		}
		return []write{remove(x)}, nil
	})
	if err != nil || known {
		return err
	}
	unlock, err := s.locks.Lock(ctx, "view") // the message was deleted by an operator
	if err == nil {
		s.cluster.discardView()
		unlock()
	}
	return err
}

// findLease returns the lease with the given fence.
func (v *view) findLease(fence uint64) (storedLease, bool) {
	for _, l := range v.leases {
		if l.fence() == fence {
			return l, true
		}
	}
	return storedLease{}, false
}

// Join implements [engine.Leases].
func (s *Store) Join(ctx context.Context, name string, ttl time.Duration, types map[string]string, report json.RawMessage) (engine.Lease, error) {
	ctx, done, err := s.beginCall(ctx)
	if err != nil {
		return engine.Lease{}, err
	}
	defer done()
	if ttl < shortLease {
		s.warn.Do(func() {
			s.log.Warn("jetstream: leases are short: if one nats-server crashes, writes stall for up to 10 s, and every replica may lose its lease; "+
				"set replicas.Options.Lease to 30s", "lease", ttl)
		})
	}
	if err := s.checkGeneration(ctx); err != nil {
		return engine.Lease{}, s.wrapClosed(err)
	}
	subject, l := leases+nonce(), storedLease{Name: name, TTL: ttl, Types: types, Report: report}
	first, err := s.state.change(ctx, []string{subject, generationSubject}, func(r *reading) ([]write, error) {
		is := r.of(generationSubject)
		life, err := s.decodeGeneration(&is)
		switch {
		case err != nil:
			return nil, err
		case life == nil:
			return nil, fmt.Errorf("%w: %s has no life", ErrCorrupt, s.state.stream)
		}
		l.Generation = life.Generation
		b, err := json.Marshal(l)
		// The lease belongs to the generation that is current when the lease begins.
		return []write{put(r.of(subject), b), {subject: s.state.proof, of: generationSubject, on: is.sequence, ttl: proofTTL}}, err
	})
	if err != nil {
		return engine.Lease{}, s.wrapClosed(fmt.Errorf("begin a lease: %w", err))
	}
	s.setGeneration(l.Generation)
	return engine.Lease{Fence: fence(l.Generation, first), Now: s.clock.now()}, nil
}

// Renew implements [engine.Leases].
func (s *Store) Renew(ctx context.Context, fence uint64, ttl time.Duration, types map[string]string, report json.RawMessage) (engine.Lease, error) {
	ctx, done, err := s.beginCall(ctx)
	if err != nil {
		return engine.Lease{}, err
	}
	defer done()
	over := fmt.Errorf("lease %d is over: %w", fence, engine.ErrFenced)
	v, err := s.liveView(ctx)
	if err != nil {
		return engine.Lease{}, s.wrapClosed(err)
	}
	l, ok := v.findLease(fence)
	if !ok {
		return engine.Lease{}, over
	}
	_, err = s.state.change(ctx, []string{l.record.subject}, func(r *reading) ([]write, error) {
		x := r.of(l.record.subject)
		if !x.exists() {
			return nil, over
		}
		next, err := leaseOf(x)
		if err != nil {
			return nil, err
		}
		next.Fence, next.TTL, next.Types, next.Report = fence, ttl, types, report
		b, err := json.Marshal(next)
		return []write{put(x, b)}, err
	})
	if err != nil {
		return engine.Lease{}, s.wrapClosed(err)
	}
	return engine.Lease{Fence: fence, Now: s.clock.now()}, nil
}

// Leave implements [engine.Leases].
func (s *Store) Leave(ctx context.Context, fence uint64) error {
	ctx, done, err := s.beginCall(ctx)
	if err != nil {
		return err
	}
	defer done()
	v, err := s.currentView(ctx)
	if err != nil {
		return s.wrapClosed(err)
	}
	l, ok := v.findLease(fence)
	if !ok {
		return nil
	}
	return s.wrapClosed(s.endLease(ctx, l.record.subject, func(storedLease) bool { return true }))
}

// Cluster implements [engine.Leases].
func (s *Store) Cluster(ctx context.Context) (c engine.Cluster, err error) {
	ctx, done, err := s.beginCall(ctx)
	if err != nil {
		return c, err
	}
	defer done()
	v, err := s.liveView(ctx)
	if err != nil {
		return c, s.wrapClosed(err)
	}
	for _, l := range v.leases {
		c.Replicas = append(c.Replicas, engine.Replica{Name: l.Name, Fence: l.fence(), Types: l.Types, Report: l.Report})
	}
	slices.SortFunc(c.Replicas, func(a, b engine.Replica) int { return cmp.Compare(a.Fence, b.Fence) })
	for _, t := range v.topics {
		for n := range t.Shards {
			shard := engine.Shard{Topic: t.Topic, Number: n}
			c.Shards = append(c.Shards, engine.ShardFence{Shard: shard, Fence: v.holds[holdSubject(shard)].Fence})
		}
	}
	slices.SortFunc(c.Shards, func(a, b engine.ShardFence) int { return a.Shard.Compare(b.Shard) })
	return c, nil
}

// Establish implements [engine.Leases].
func (s *Store) Establish(ctx context.Context, name string, n int) (int, error) {
	if n < 1 || n > maxShards {
		return 0, fmt.Errorf("a topic has 1 to %d shards, not %d", maxShards, n)
	}
	ctx, done, err := s.beginCall(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	subject, t := topics+logToken(name), storedTopic{}
	_, err = s.state.change(ctx, []string{subject}, func(r *reading) ([]write, error) {
		x := r.of(subject)
		if x.exists() {
			return nil, json.Unmarshal(x.body, &t)
		}
		t = storedTopic{name, n}
		b, err := json.Marshal(t)
		return []write{put(x, b)}, err
	})
	if err != nil {
		return 0, s.wrapClosed(fmt.Errorf("establish topic %s: %w", name, err))
	}
	return t.Shards, nil
}

// errTaken is returned if the hold of a shard has changed.
var errTaken = errors.New("jetstream: the shard's hold has changed")

// Claim implements [engine.Leases]. The batch needs to check only the hold, because an expired lease cannot be renewed.
func (s *Store) Claim(ctx context.Context, fence uint64, free []engine.ShardFence) (won []engine.Shard, err error) {
	ctx, done, err := s.beginCall(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	v, err := s.liveView(ctx)
	if err != nil {
		return nil, s.wrapClosed(err)
	}
	if _, ok := v.findLease(fence); !ok {
		return nil, fmt.Errorf("lease %d is over: %w", fence, engine.ErrFenced)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	turns := make(chan struct{}, maxBatches)
	for _, h := range free {
		if t := v.topics[h.Shard.Topic]; h.Shard.Number < 0 || h.Shard.Number >= t.Shards {
			continue
		}
		if _, held := v.findLease(h.Fence); held && h.Fence != 0 {
			continue
		}
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			one := s.swapHold(ctx, h, fence)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case one == nil:
				won = append(won, h.Shard)
			case !errors.Is(one, errTaken):
				err = errors.Join(err, one)
			}
		})
	}
	wg.Wait()
	slices.SortFunc(won, engine.Shard.Compare)
	return won, s.wrapClosed(err)
}

// swapHold transfers a shard to another fence if h is still its owner.
func (s *Store) swapHold(ctx context.Context, h engine.ShardFence, to uint64) error {
	subject := holdSubject(h.Shard)
	_, err := s.state.change(ctx, []string{subject}, func(r *reading) ([]write, error) {
		is, err := holdOf(r.of(subject))
		switch {
		case err != nil:
			return nil, err
		case is.Fence != h.Fence:
			return nil, errTaken
		}
		is.Topic, is.Number, is.Fence = h.Shard.Topic, h.Shard.Number, to
		return is.put()
	})
	return err
}

// Release implements [engine.Leases].
func (s *Store) Release(ctx context.Context, h engine.ShardFence) error {
	ctx, done, err := s.beginCall(ctx)
	if err != nil {
		return err
	}
	defer done()
	err = engine.ErrFenced
	if h.Fence != 0 {
		err = s.swapHold(ctx, h, 0)
	}
	if errors.Is(err, errTaken) || h.Fence == 0 {
		return fmt.Errorf("%v is not held by %d: %w", h.Shard, h.Fence, engine.ErrFenced)
	}
	return s.wrapClosed(err)
}
