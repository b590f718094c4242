package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/coalesce"
)

// Coalescing configures how events are joined into bursts, and when a burst is handed over. Zero fields take the values
// of the event type's x-coalesce, if it publishes one. See COAL-2.
type Coalescing struct {
	// Key holds JSON Pointers into the received payload, at most 8. Events with equal strings, numbers or booleans at
	// all of them are joined. An event that lacks one of these values, or cannot be decoded, is not joined with others.
	Key []string
	// Quiet is the time without another event for a key after which its burst is handed over. Max bounds the wait of
	// the burst's first event. If neither this field nor the type sets a Max of at least Quiet, it is ten times Quiet,
	// up to a day.
	Quiet, Max time.Duration
	// Keep says which events [BurstOf] returns: "latest" or "all". The default, if the type sets none, is "latest".
	Keep string
}

// WithCoalescing joins the events of a [Binding] into bursts and calls the handler once per burst. The handler gets the
// latest event of a key after a quiet time; [BurstOf] returns how many there were. Without an argument, or with zero
// fields, the values published by the event type apply; if it publishes none, [Consume] ends with an error.
//
// If the handler returns nil, all events of the burst are settled; a crash before that repeats them. After an error the
// whole burst is retried. Bursts of one key are handled one after another, unless [ConsumeOptions].Key, which is called
// with the latest event, says otherwise. At most [Options].RecentIDs/2 events of a subscription wait or are in flight:
// beyond that, or when they hold more than [Options].MaxMessage bytes, the oldest burst is handed over early.
//
// It applies only to [Consume]. [Subscribe] refuses it: an iteration gets each event as it arrives.
func WithCoalescing(c ...Coalescing) SubscribeOption {
	return func(o *subscribeOptions) { o.coalescing = append([]Coalescing{}, c...) }
}

// A Burst holds the events that a handler receives together. See [BurstOf].
type Burst[A, P any] struct {
	// Events ends with the latest event. With Keep "all" it holds all events in the order of arrival, otherwise only
	// the latest.
	Events []*events.Event[A, P]
	// Count is the number of joined events. First and Last are the timestamps of the first and last to arrive.
	Count       int
	First, Last time.Time
}

// BurstOf returns the burst that a handler is called for, given the handler's context and event. An event that was not
// joined with others is a burst of one. See [WithCoalescing].
func BurstOf[A, P any](ctx context.Context, ev *events.Event[A, P]) Burst[A, P] {
	b := Burst[A, P]{Count: 1, First: ev.Timestamp.Time, Last: ev.Timestamp.Time}
	if h, ok := ctx.Value(handedKey{}).(*handed); ok {
		for _, earlier := range h.earlier {
			if e, ok := earlier.(*events.Event[A, P]); ok {
				b.Events = append(b.Events, e)
			}
		}
		b.Count, b.First = h.joined.count(), h.joined.first
	}
	b.Events = append(b.Events, ev)
	return b
}

// A handed is the burst in a handler's context during one attempt.
type handed struct {
	joined  *joined
	earlier []any // pointers to events, with Keep "all"
}

type handedKey struct{}

// A joined holds the earlier events of a job's burst.
type joined struct {
	places  []*place
	earlier []events.Occurrence // with Keep "all"
	first   time.Time           // the timestamp of the first
}

func (g *joined) count() int { return len(g.places) + 1 }

func (g *joined) size() (n int64) {
	for _, o := range g.earlier {
		n += sizeOf(o)
	}
	return n
}

// check returns an error if c is invalid, regardless of the event type.
func (c *Coalescing) check() error {
	for _, place := range c.Key {
		if _, ok := wire.SplitPointer(place); !ok {
			return fmt.Errorf("the pointer %q in Key is not a JSON Pointer to a member of the payload", place)
		}
	}
	switch {
	case len(c.Key) > wire.MaxCoalesceKeys:
		return fmt.Errorf("there are %[1]d pointers in Key; at most %[2]d are allowed", len(c.Key), wire.MaxCoalesceKeys)
	case c.Quiet < 0 || c.Max < 0:
		return errors.New("a time, Quiet or Max, is negative")
	case c.Keep != "" && c.Keep != wire.KeepLatest && c.Keep != wire.KeepAll:
		return fmt.Errorf("unknown Keep %q; it must be %q or %q", c.Keep, wire.KeepLatest, wire.KeepAll)
	}
	return nil
}

// longest is the default of Max, as a multiple of Quiet.
const longest = 10

// complete fills in zero fields from the event type's descriptor, whose _meta is given.
func (c *Coalescing) complete(meta map[string]any) error {
	said, err := wire.CoalesceOf(meta)
	if said == nil {
		said = &wire.Coalesce{}
	}
	if len(c.Key) == 0 {
		c.Key = said.Key
	}
	if c.Quiet == 0 {
		c.Quiet = time.Duration(said.QuietSeconds) * time.Second
	}
	if c.Max == 0 {
		if c.Max = time.Duration(said.MaxSeconds) * time.Second; c.Max < c.Quiet {
			c.Max = max(min(longest*c.Quiet, wire.MaxCoalesceSeconds*time.Second), c.Quiet)
		}
	}
	c.Keep = cmp.Or(c.Keep, said.Keep, wire.KeepLatest)
	switch {
	case len(c.Key) > 0 && c.Quiet > 0 && c.Max >= c.Quiet:
		return nil
	case len(c.Key) > 0 && c.Quiet > 0:
		return fmt.Errorf("WithCoalescing: Max %v is less than Quiet %v", c.Max, c.Quiet)
	case err != nil:
		return fmt.Errorf("WithCoalescing: the event type's values cannot be used: %w", err)
	}
	return errors.New("WithCoalescing: the event type publishes no x-coalesce; set Key and Quiet")
}

// A joining holds the open bursts of a flow.
type joining struct {
	f     *flow
	key   []string
	woken chan struct{} // a token when the first burst opens

	// mu is also held while a burst is handed over, so that the bursts of one key stay in order.
	mu     sync.Mutex
	bursts *coalesce.Joiner[*job]
}

func newJoining(f *flow, c Coalescing, limit int) *joining {
	g := &joining{f: f, key: c.Key, woken: make(chan struct{}, 1)}
	merge := g.supersede
	if c.Keep == wire.KeepAll {
		merge = nil
	}
	g.bursts = coalesce.New(coalesce.Rule{Quiet: c.Quiet, Max: c.Max, Limit: limit}, merge)
	return g
}

// add puts a job into the burst of its key. It reports false if the job cannot be joined.
func (g *joining) add(s *subscription, j *job) bool {
	key, ok := coalesce.Key(g.key, j.o.Raw)
	if !ok {
		return false
	}
	if _, err := s.decoded(g.f.b.event, j.o, nil); err != nil {
		return false // it would fail the whole burst
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bursts.Open() == 0 {
		wake(g.woken)
	}
	if early := g.bursts.Add(key, j, time.Now()); early != nil {
		g.hand(early)
	}
	return true
}

// supersede replaces the held job with the next, which represents both; mu is held.
func (g *joining) supersede(held, next *job) *job {
	next.joined = held.joined
	if next.joined == nil {
		next.joined = &joined{first: held.o.Timestamp.Time}
	}
	next.joined.places = append(next.joined.places, held.place)
	held.joined = nil
	g.f.release(held.size())
	return next
}

// hand submits a burst to the workers; mu is held.
func (g *joining) hand(b *coalesce.Burst[*job]) {
	last := len(b.Events) - 1
	j := b.Events[last]
	for i, e := range b.Events[:last] {
		if i == 0 {
			j.joined = &joined{first: e.o.Timestamp.Time}
		}
		j.joined.places = append(j.joined.places, e.place)
		j.joined.earlier = append(j.joined.earlier, e.o)
	}
	j.key = strconv.Itoa(g.f.index) + "\x00" + b.Key
	g.f.submit(j)
}

// run hands over due bursts until the consumer stops.
func (g *joining) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		g.mu.Lock()
		now := time.Now()
		for b := g.bursts.Due(now); b != nil; b = g.bursts.Due(now) {
			g.hand(b)
		}
		at, open := g.bursts.Next()
		g.mu.Unlock()
		if timer.Stop(); open {
			timer.Reset(at.Sub(now))
		}
		select {
		case <-timer.C:
		case <-g.woken:
		case <-g.f.k.running.Done():
			return
		}
	}
}

// relieve hands the oldest burst over early if s has no room and that burst holds its oldest unsettled event.
func (g *joining) relieve(s *subscription) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.bursts.Oldest()
	if b == nil {
		return
	}
	first := b.Events[0].place
	if j := b.Events[0].joined; j != nil {
		first = j.places[0]
	}
	if s.ledger.isOldest(first) {
		g.hand(g.bursts.TakeOldest())
	}
}
