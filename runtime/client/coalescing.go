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

// Coalescing says which events are joined to bursts, and when a burst is handed over. What is zero is as the event type
// says, where it publishes an x-coalesce. See COAL-2.
type Coalescing struct {
	// Key holds JSON Pointers into the payload as it is received, at most 8. Events with equal strings, numbers or
	// booleans there are joined. An event that has none at one of the places, or does not decode, is joined with no other.
	Key []string
	// Quiet is how long nothing more has to come for a key before its burst is handed over, Max how long the first event
	// of a burst waits at most: ten times Quiet, up to a day, where neither this nor the type says something that is as
	// long as Quiet.
	Quiet, Max time.Duration
	// Keep is "latest" or "all": what [BurstOf] has of a burst. Where the type does not say either, it is "latest".
	Keep string
}

// WithCoalescing joins the events of a [Binding] to bursts: the handler is called once for the events of one key, with the
// latest, when nothing more has come for the key for a while. [BurstOf] tells it how many there were. Without an argument,
// or with zero fields, the values are those that the event type publishes; where it publishes none, [Consume] ends with
// an error.
//
// A nil from the handler settles all events of the burst, and a crash before that repeats them. After an error the burst is
// tried again as a whole. Bursts of one key are handled one after the other, unless [ConsumeOptions].Key says otherwise, which is
// asked of the latest event. At most [Options].RecentIDs/2 events of a subscription wait or are in hand: then, and when they
// hold more than [Options].MaxMessage bytes, the oldest burst is handed over early.
//
// It is for [Consume] alone. [Subscribe] refuses it: an iteration gets each event as it comes.
func WithCoalescing(c ...Coalescing) SubscribeOption {
	return func(o *subscribeOptions) { o.coalescing = append([]Coalescing{}, c...) }
}

// A Burst is the events that a handler is given together. See [BurstOf].
type Burst[A, P any] struct {
	// Events ends with the latest. With Keep "all" it holds all events in the order in which they came, or else the
	// latest alone.
	Events []*events.Event[A, P]
	// Count is how many events were joined, First and Last are the timestamps of the first and the last that came.
	Count       int
	First, Last time.Time
}

// BurstOf returns the burst that a handler is called for, by the handler's own context and event. An event that was joined
// with no other is a burst of its own. See [WithCoalescing].
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

// A handed is what a handler's context has of a burst during one try.
type handed struct {
	joined  *joined
	earlier []any // pointers to events, with Keep "all"
}

type handedKey struct{}

// A joined is what a job stands for beside its own event: those of its burst that came before it.
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

// check says what is wrong with c, whatever the event type says.
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

// longest is Max where nobody says, in quiet times.
const longest = 10

// complete fills in what the event type says in its descriptor's _meta.
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

// A joining is the open bursts of a flow.
type joining struct {
	f     *flow
	key   []string
	woken chan struct{} // a token when the first burst opens

	// mu is held while a burst is handed over too, so that those of one key stay in order.
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

// add takes a job into the burst of its key. It reports false where there is none to join.
func (g *joining) add(s *subscription, j *job) bool {
	key, ok := coalesce.Key(g.key, j.o.Raw)
	if !ok {
		return false
	}
	if _, err := s.decoded(g.f.b.event, j.o, nil); err != nil {
		return false // it would take the others with it
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

// supersede lets the next event stand for those that are held; mu is held.
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

// hand hands a burst to the workers; mu is held.
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

// run hands over what is due until the consumer stops.
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

// relieve hands the oldest burst over early where a subscription that has no room waits for it: where nothing before it is
// in hand.
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
