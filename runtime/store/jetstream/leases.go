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
	// shortLease is the shortest lease that survives the crash of a nats-server, during which writes may stall for up
	// to 10 s (JS-35).
	shortLease = 25 * time.Second
	// maxShards bounds the number of shards of a topic.
	maxShards = 4096
	// forgotten is the age from which a view is read again as a whole. Deletions are kept for longer.
	forgotten = keepTombstone / 2
)

// A leased is the stored form of a lease. The sequence of its first message gives the fence; only later messages
// store it.
type leased struct {
	Generation uint64
	Fence      uint64 `json:",omitempty"`
	Name       string
	TTL        time.Duration
	Types      map[string]string

	record record
}

func (l *leased) fence() uint64 { return cmp.Or(l.Fence, fence(l.Generation, l.record.sequence)) }

// over reports whether the lease has expired at a time of the nats-servers' clock.
func (l *leased) over(now time.Time) bool { return !now.Before(l.record.stamp.Add(l.TTL)) }

func leaseOf(r record) (l leased, err error) {
	if err := json.Unmarshal(r.body, &l); err != nil {
		return l, fmt.Errorf("%w: lease %s: %w", ErrCorrupt, r.subject, err)
	}
	l.record = r
	return l, nil
}

// A topic is the stored form of a topic and its number of shards.
type topic struct {
	Topic  string
	Shards int
}

// A holding is the stored form of a hold.
type holding struct {
	Topic  string
	Number int
	Fence  uint64

	subject  string
	sequence uint64
}

func holdOf(r record) (h holding, err error) {
	if r.there() {
		if err := json.Unmarshal(r.body, &h); err != nil {
			return h, fmt.Errorf("%w: hold %s: %w", ErrCorrupt, r.subject, err)
		}
	}
	h.subject, h.sequence = r.subject, r.sequence
	return h, nil
}

func (h *holding) put() ([]write, error) {
	b, err := json.Marshal(h)
	return []write{{subject: h.subject, on: h.sequence, body: b}}, err
}

// holdSubject returns the subject of a shard's hold.
func holdSubject(s engine.Shard) string {
	return holds + logToken(s.Topic) + "." + strconv.Itoa(s.Number)
}

// A view is a process's copy of the leases, topics and holds. It is updated with the changes since the last read.
type view struct {
	now    time.Time // the nats-servers' clock when the view was proven
	leases map[string]leased
	topics map[string]topic
	holds  map[string]holding
}

// A follower maintains a view. The lock "view" guards it.
type follower struct {
	upTo uint64
	at   time.Time
	view view
	life *life
}

// view returns the leases, topics and holds as of a time no earlier than the call (JS-17).
func (s *Store) view(ctx context.Context) (view, error) {
	unlock, err := s.locks.Lock(ctx, "view")
	if err != nil {
		return view{}, err
	}
	defer unlock()
	f := &s.cluster
	if time.Since(f.at) > forgotten {
		f.forget()
	}
	began := time.Now()
	found, upTo, err := s.state.scan(ctx, "c.>", s.state.proof, f.upTo+1, 0)
	if err == nil && (upTo < f.upTo || f.upTo > 0 && slices.ContainsFunc(found, func(r record) bool { return r.subject == lifeSubject })) {
		f.forget() // another life began: the stream may have been recreated
		found, upTo, err = s.state.scan(ctx, "c.>", s.state.proof, 1, 0)
	}
	if err != nil {
		return view{}, err
	}
	for _, r := range found {
		if err := s.saw(f, r); err != nil {
			return view{}, err
		}
	}
	f.upTo, f.at = upTo, began
	if f.life != nil && f.life.Generation > s.generation.Load() && s.generation.Load() > 0 { // another process has begun it
		s.lives(f.life.Generation)
	}
	return view{now: f.view.now, leases: maps.Clone(f.view.leases), topics: maps.Clone(f.view.topics), holds: maps.Clone(f.view.holds)}, nil
}

// forget discards the view, so that it is read again as a whole.
func (f *follower) forget() {
	f.upTo, f.view, f.life = 0, view{leases: map[string]leased{}, topics: map[string]topic{}, holds: map[string]holding{}}, nil
}

// saw applies a record to the view.
func (s *Store) saw(f *follower, r record) (err error) {
	switch v := &f.view; {
	case r.subject == s.state.proof:
		s.clock.hear(r.stamp)
		v.now = r.stamp
	case r.subject == lifeSubject:
		f.life, err = s.lifeOf(&r)
	case strings.HasPrefix(r.subject, leases):
		if delete(v.leases, r.subject); r.there() {
			v.leases[r.subject], err = leaseOf(r)
		}
	case strings.HasPrefix(r.subject, topics) && r.there():
		var t topic
		if err := json.Unmarshal(r.body, &t); err != nil {
			return fmt.Errorf("%w: topic %s: %w", ErrCorrupt, r.subject, err)
		}
		v.topics[t.Topic] = t
	case strings.HasPrefix(r.subject, holds):
		v.holds[r.subject], err = holdOf(r)
	}
	return err
}

// live returns a view without expired leases and leases of earlier generations. It ends each of them for good first:
// it replaces the lease that it judged with a deletion, by compare-and-swap (JS-19).
func (s *Store) live(ctx context.Context) (view, error) {
	for {
		if err := ctx.Err(); err != nil {
			return view{}, err
		}
		v, err := s.view(ctx)
		if err != nil {
			return v, err
		}
		ended := false
		for subject, l := range v.leases {
			if generation := s.generation.Load(); !l.over(v.now) && (l.Generation >= generation) {
				continue
			}
			ended = true
			if err := s.endLease(ctx, subject, func(now leased) bool { return now.record.sequence == l.record.sequence }); err != nil {
				return v, err
			}
		}
		if !ended {
			return v, nil
		}
	}
}

// endLease deletes a lease if is returns true for it.
func (s *Store) endLease(ctx context.Context, subject string, is func(leased) bool) error {
	known := true
	_, err := s.state.change(ctx, []string{subject}, func(r *reading) ([]write, error) {
		x := r.of(subject)
		if known = x.sequence > 0; !x.there() {
			return nil, nil // the next look sees a deletion
		}
		l, err := leaseOf(x)
		if err != nil || !is(l) {
			return nil, err
		}
		return []write{remove(x)}, nil
	})
	if err != nil || known {
		return err
	}
	unlock, err := s.locks.Lock(ctx, "view") // the message was deleted by hand
	if err == nil {
		s.cluster.forget()
		unlock()
	}
	return err
}

// leaseWith returns the lease with the given fence.
func (v *view) leaseWith(fence uint64) (leased, bool) {
	for _, l := range v.leases {
		if l.fence() == fence {
			return l, true
		}
	}
	return leased{}, false
}

// Join implements [engine.Leases].
func (s *Store) Join(ctx context.Context, name string, ttl time.Duration, types map[string]string) (engine.Lease, error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return engine.Lease{}, err
	}
	defer done()
	if ttl < shortLease {
		s.warn.Do(func() {
			s.log.Warn("jetstream: leases are short: if one nats-server crashes, writes stall for up to 10 s, and every replica may lose its lease; "+
				"set Options.Replica.Lease to 30s", "lease", ttl)
		})
	}
	if err := s.lookAtLife(ctx); err != nil {
		return engine.Lease{}, s.because(err)
	}
	subject, l := leases+nonce(), leased{Name: name, TTL: ttl, Types: types}
	first, err := s.state.change(ctx, []string{subject, lifeSubject}, func(r *reading) ([]write, error) {
		is := r.of(lifeSubject)
		life, err := s.lifeOf(&is)
		switch {
		case err != nil:
			return nil, err
		case life == nil:
			return nil, fmt.Errorf("%w: %s has no life", ErrCorrupt, s.state.stream)
		}
		l.Generation = life.Generation
		b, err := json.Marshal(l)
		// The lease belongs to the life that is current when the lease begins.
		return []write{put(r.of(subject), b), {subject: s.state.proof, of: lifeSubject, on: is.sequence, ttl: keepProof}}, err
	})
	if err != nil {
		return engine.Lease{}, s.because(fmt.Errorf("begin a lease: %w", err))
	}
	s.lives(l.Generation)
	return engine.Lease{Fence: fence(l.Generation, first), Now: s.clock.now()}, nil
}

// Renew implements [engine.Leases].
func (s *Store) Renew(ctx context.Context, fence uint64, ttl time.Duration, types map[string]string) (engine.Lease, error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return engine.Lease{}, err
	}
	defer done()
	over := fmt.Errorf("lease %d is over: %w", fence, engine.ErrFenced)
	v, err := s.live(ctx)
	if err != nil {
		return engine.Lease{}, s.because(err)
	}
	l, ok := v.leaseWith(fence)
	if !ok {
		return engine.Lease{}, over
	}
	_, err = s.state.change(ctx, []string{l.record.subject}, func(r *reading) ([]write, error) {
		x := r.of(l.record.subject)
		if !x.there() {
			return nil, over
		}
		next, err := leaseOf(x)
		if err != nil {
			return nil, err
		}
		next.Fence, next.TTL, next.Types = fence, ttl, types
		b, err := json.Marshal(next)
		return []write{put(x, b)}, err
	})
	if err != nil {
		return engine.Lease{}, s.because(err)
	}
	return engine.Lease{Fence: fence, Now: s.clock.now()}, nil
}

// Leave implements [engine.Leases].
func (s *Store) Leave(ctx context.Context, fence uint64) error {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	v, err := s.view(ctx)
	if err != nil {
		return s.because(err)
	}
	l, ok := v.leaseWith(fence)
	if !ok {
		return nil
	}
	return s.because(s.endLease(ctx, l.record.subject, func(leased) bool { return true }))
}

// Cluster implements [engine.Leases].
func (s *Store) Cluster(ctx context.Context) (c engine.Cluster, err error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return c, err
	}
	defer done()
	v, err := s.live(ctx)
	if err != nil {
		return c, s.because(err)
	}
	for _, l := range v.leases {
		c.Replicas = append(c.Replicas, engine.Replica{Name: l.Name, Fence: l.fence(), Types: l.Types})
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
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	subject, t := topics+logToken(name), topic{}
	_, err = s.state.change(ctx, []string{subject}, func(r *reading) ([]write, error) {
		x := r.of(subject)
		if x.there() {
			return nil, json.Unmarshal(x.body, &t)
		}
		t = topic{name, n}
		b, err := json.Marshal(t)
		return []write{put(x, b)}, err
	})
	if err != nil {
		return 0, s.because(fmt.Errorf("establish topic %s: %w", name, err))
	}
	return t.Shards, nil
}

// errTaken reports that the hold of a shard has changed.
var errTaken = errors.New("jetstream: the shard's hold has changed")

// Claim implements [engine.Leases]. An expired lease never becomes current again, so that only the hold is checked in
// the batch.
func (s *Store) Claim(ctx context.Context, fence uint64, free []engine.ShardFence) (won []engine.Shard, err error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	v, err := s.live(ctx)
	if err != nil {
		return nil, s.because(err)
	}
	if _, ok := v.leaseWith(fence); !ok {
		return nil, fmt.Errorf("lease %d is over: %w", fence, engine.ErrFenced)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	turns := make(chan struct{}, atOnce)
	for _, h := range free {
		if t := v.topics[h.Shard.Topic]; h.Shard.Number < 0 || h.Shard.Number >= t.Shards {
			continue
		}
		if _, held := v.leaseWith(h.Fence); held && h.Fence != 0 {
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
	return won, s.because(err)
}

// swapHold transfers a shard to another fence if its hold is h.
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
	ctx, done, err := s.begin(ctx)
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
	return s.because(err)
}
