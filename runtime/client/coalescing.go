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

// Coalescing configures how events are joined into bursts and when a burst is passed to the handler. Zero fields
// default to the values of the event type's x-coalesce, if it publishes one. See COAL-2.
type Coalescing struct {
	// Key lists up to 8 JSON Pointers into the received payload. Events are joined if all of these locations hold equal
	// strings, numbers or booleans. An event that lacks one of these values, or cannot be decoded, is not joined with
	// others.
	Key []string
	// Quiet is the quiet period after the last event with a key. When it ends, the burst is passed to the handler. Max
	// is the maximum time that the first event of a burst waits. If neither this field nor the type sets a Max of at
	// least Quiet, the default is ten times Quiet, up to a day.
	Quiet, Max time.Duration
	// Keep selects the events that [BurstOf] returns: "latest" or "all". If the type sets no default, it is "latest".
	Keep string
}

// WithCoalescing joins the events of a [Binding] into bursts and calls the handler once per burst. After a quiet
// period, the handler receives the latest event for a key; [BurstOf] returns the number of events. Without an argument,
// and for zero fields, the values published by the event type apply. If it publishes none, [Consume] returns an error.
//
// If the handler returns nil, all events of the burst are settled. If the program crashes before that, they are
// redelivered. After an error, the whole burst is retried. Bursts with the same key are handled in sequence, unless
// [ConsumeOptions].Key returns other keys for their latest events. At most [Options].RecentIDs/2 events of a
// subscription can be waiting or in flight. If there are more, or if their size exceeds [Options].MaxMessage, the
// oldest burst is passed to the handler early.
//
// The option applies only to [Consume]. [Subscribe] rejects it, because an iteration receives each event as it arrives.
func WithCoalescing(c ...Coalescing) SubscribeOption {
	return func(o *subscribeOptions) { o.coalescing = append([]Coalescing{}, c...) }
}

// A Burst holds events that a handler receives together. See [BurstOf].
type Burst[A, P any] struct {
	// Events holds the latest event or, with Keep "all", all events in the order of arrival.
	Events []*events.Event[A, P]
	// Count is the number of joined events. First and Last are the timestamps of the events that arrived first and
	// last.
	Count       int
	First, Last time.Time
}

// BurstOf returns the burst for which a handler was called, given the handler's context and event. If the event was not
// joined with others, the burst contains only that event. See [WithCoalescing].
func BurstOf[A, P any](ctx context.Context, ev *events.Event[A, P]) Burst[A, P] {
	b := Burst[A, P]{Count: 1, First: ev.Timestamp.Time, Last: ev.Timestamp.Time}
	if h, ok := ctx.Value(burstKey{}).(*burstValue); ok {
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

// A burstValue stores the burst in a handler's context during one attempt.
type burstValue struct {
	joined  *burstPrefix
	earlier []any // pointers to events, with Keep "all"
}

type burstKey struct{}

// A burstPrefix holds the events of a job's burst that precede its latest event.
type burstPrefix struct {
	places  []*ledgerEntry
	earlier []events.Occurrence // with Keep "all"
	first   time.Time           // the timestamp of the first
}

func (g *burstPrefix) count() int { return len(g.places) + 1 }

func (g *burstPrefix) size() (n int64) {
	for _, o := range g.earlier {
		n += sizeOf(o)
	}
	return n
}

// validate returns an error if c is invalid for every event type.
func (c *Coalescing) validate() error {
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

// defaultMaxFactor is the default of Max, as a multiple of Quiet.
const defaultMaxFactor = 10

// setDefaults sets zero fields from the _meta of the event type's descriptor.
func (c *Coalescing) setDefaults(meta map[string]any) error {
	said, err := wire.CoalesceOf(meta)
	if said == nil {
		said = &wire.Coalesce{}
	}
	if len(c.Key) == 0 {
		c.Key = said.Key
	}
	c.Quiet = cmp.Or(c.Quiet, time.Duration(said.QuietSeconds)*time.Second)
	if c.Max == 0 {
		if c.Max = time.Duration(said.MaxSeconds) * time.Second; c.Max < c.Quiet {
			c.Max = max(min(defaultMaxFactor*c.Quiet, wire.MaxCoalesceSeconds*time.Second), c.Quiet)
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

// A burstJoiner holds the open bursts of a flow.
type burstJoiner struct {
	f     *flow
	key   []string
	woken chan struct{} // a token when the first burst opens

	// mu is also held while a burst is submitted, to keep bursts with the same key in order.
	mu     sync.Mutex
	bursts *coalesce.Joiner[*job]
}

func newBurstJoiner(f *flow, c Coalescing, limit int) *burstJoiner {
	g := &burstJoiner{f: f, key: c.Key, woken: make(chan struct{}, 1)}
	merge := g.merge
	if c.Keep == wire.KeepAll {
		merge = nil
	}
	g.bursts = coalesce.New(coalesce.Rule{Quiet: c.Quiet, Max: c.Max, Limit: limit}, merge)
	return g
}

// add adds a job to the burst for its key. It returns false if the job cannot be joined.
func (g *burstJoiner) add(s *subscription, j *job) bool {
	key, ok := coalesce.Key(g.key, j.o.Raw)
	if !ok {
		return false
	}
	if _, err := s.decodeEvent(g.f.b.event, j.o, nil); err != nil {
		return false // it would fail the whole burst
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bursts.Open() == 0 {
		wake(g.woken)
	}
	if early := g.bursts.Add(key, j, time.Now()); early != nil {
		g.submit(early)
	}
	return true
}

// merge adds the job held to the burst prefix of next and returns next. The caller must hold mu.
func (g *burstJoiner) merge(held, next *job) *job {
	next.joined = held.joined
	if next.joined == nil {
		next.joined = &burstPrefix{first: held.o.Timestamp.Time}
	}
	next.joined.places = append(next.joined.places, held.place)
	held.joined = nil
	g.f.release(held.size())
	return next
}

// submit passes a burst to the workers. The caller must hold mu.
func (g *burstJoiner) submit(b *coalesce.Burst[*job]) {
	last := len(b.Events) - 1
	j := b.Events[last]
	for i, e := range b.Events[:last] {
		if i == 0 {
			j.joined = &burstPrefix{first: e.o.Timestamp.Time}
		}
		j.joined.places = append(j.joined.places, e.place)
		j.joined.earlier = append(j.joined.earlier, e.o)
	}
	j.key = strconv.Itoa(g.f.index) + "\x00" + b.Key
	g.f.submit(j)
}

// run submits bursts when they are due, until the consumer stops.
func (g *burstJoiner) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		g.mu.Lock()
		now := time.Now()
		for b := g.bursts.Due(now); b != nil; b = g.bursts.Due(now) {
			g.submit(b)
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

// flushOldest submits the oldest burst early if it contains the oldest unsettled event of s. It is called when s has no
// space for further events.
func (g *burstJoiner) flushOldest(s *subscription) {
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
		g.submit(g.bursts.TakeOldest())
	}
}
