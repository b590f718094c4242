// Package shard decides what a replica of a cluster owns: one lease, counted on the replica's own
// clock, and a fair share of the shards (REP-6 to REP-9). It knows [engine.Leases] and nothing of what
// owners do. Start with [New]; [Options.Run] is called for each shard that is won.
package shard

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// maxDrift is how far wall and monotonic clock may drift apart before a lease counts as lost: a
	// suspended machine's monotonic clock stands still.
	maxDrift = time.Second
	// maxSkew is how far the replica's wall clock may be from the store's before that is logged.
	maxSkew = time.Second
	// marginPart of the lease is not used, so that clocks may differ in rate by that part.
	marginPart = 20
	// lookPart of the lease is the longest time between two looks.
	lookPart = 6
)

// Options configure [New]. Leases and Run are needed.
type Options struct {
	Leases engine.Leases
	// Name is what the replica is called in logs.
	Name string
	// Types returns the event types that the replica has registered, with fingerprints. It owns
	// shards of no others.
	Types func() map[string]string
	// Duties are topics of one shard that every replica can own, such as [engine.OutboxTopic].
	Duties []string
	// Shards is how many shards a new event type gets; default 16.
	Shards int
	// Orphans is how long no replica has to have registered an event type before those that have
	// registered others own its shards too, to end what waits there; 0 for never.
	Orphans time.Duration
	// Looked is told of the cluster, and of the replica's own fence in it, after every look; it must
	// not call the owner.
	Looked func(c engine.Cluster, own uint64)
	// TTL is how long a lease lasts without a renewal; default 10 s.
	TTL time.Duration
	// Look is how often the replica looks at the cluster; default 1 s, at most a sixth of TTL.
	Look time.Duration
	// Run does what the owner of a shard does. It returns when the tenure's context has ended, or when
	// it is draining and what was under way is concluded. Until then nobody else gets the shard from
	// this replica.
	Run func(*Tenure)
	// Clock is the replica's; default [System].
	Clock Clock
	// Logger is told of leases that are lost and of clocks that are wrong; default slog.Default().
	Logger *slog.Logger
}

// An Owner keeps a lease and the shards that it owns by it.
type Owner struct {
	o     Options
	hurry chan struct{} // capacity 1
	ended chan struct{}

	mu      sync.Mutex
	session *session // nil without a lease
	tenures map[engine.Shard]*Tenure
	known   map[string]bool          // topics that were established
	unknown map[string]time.Duration // topics that nobody has registered, since when; run's
	freed   map[engine.Shard]bool    // given up since the cluster was last asked for; guarded by mu
	silent  silence                  // run's
	closing bool
	time    reading
	skewed  bool
}

// New returns an owner that begins with [Owner.Start].
func New(o Options) *Owner {
	if o.Shards <= 0 {
		o.Shards = 16
	}
	if o.TTL <= 0 {
		o.TTL = 10 * time.Second
	}
	if o.Look <= 0 {
		o.Look = time.Second
	}
	o.Look = min(o.Look, o.TTL/lookPart) // a renewal is due after a third of the lease, and begins at a look
	if o.Clock == nil {
		o.Clock = System()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Types == nil {
		o.Types = func() map[string]string { return nil }
	}
	return &Owner{o: o, hurry: make(chan struct{}, 1), ended: make(chan struct{}), tenures: map[engine.Shard]*Tenure{}, known: map[string]bool{}, freed: map[engine.Shard]bool{},
		unknown: map[string]time.Duration{}, silent: silence{map[engine.Shard]time.Duration{}, map[uint64]time.Duration{}}}
}

// Start joins the cluster and owns until ctx ends, which is a crash to the others, or Shutdown.
func (o *Owner) Start(ctx context.Context) { go o.run(ctx) }

// Hurry looks at the cluster now: a type was registered or removed, or something was released.
func (o *Owner) Hurry() {
	select {
	case o.hurry <- struct{}{}:
	default:
	}
}

// Owns reports whether the replica may begin work of that shard now.
func (o *Owner) Owns(s engine.Shard) bool {
	o.mu.Lock()
	t := o.tenures[s]
	o.mu.Unlock()
	return t != nil && t.Valid()
}

// Shutdown gives all shards away, each when its work is concluded, and ends the lease. When ctx ends
// before that, work under way is cut off; the lease is ended all the same.
func (o *Owner) Shutdown(ctx context.Context) error {
	o.mu.Lock()
	o.closing = true
	for _, t := range o.tenures {
		t.drain() // whether or not the store answers
	}
	o.mu.Unlock()
	o.Hurry()
	select {
	case <-o.ended:
		return nil
	case <-ctx.Done():
	}
	o.mu.Lock()
	for _, t := range o.tenures {
		t.cancel()
	}
	o.mu.Unlock()
	o.Hurry()
	<-o.ended
	return ctx.Err()
}

func (o *Owner) run(ctx context.Context) {
	defer close(o.ended)
	var last *session
	for ctx.Err() == nil {
		s := o.current()
		if last != nil && last != s && !o.working(last) {
			// Others need not wait for what this replica has lost, once nothing of it goes on.
			o.ask(ctx, func(ctx context.Context) error { return o.o.Leases.Leave(ctx, last.fence) })
		}
		if s == nil && !o.done() {
			s = o.join(ctx)
		}
		last = s
		if s != nil {
			o.turn(ctx, s)
		}
		if o.done() {
			break
		}
		timer := make(chan struct{})
		stop := o.o.Clock.AfterFunc(o.o.Look, func() { close(timer) })
		select {
		case <-ctx.Done():
		case <-o.hurry:
		case <-timer:
		}
		stop()
	}
	if s := o.current(); s != nil && ctx.Err() == nil {
		o.ask(ctx, func(ctx context.Context) error { return o.o.Leases.Leave(ctx, s.fence) })
	}
	o.mu.Lock()
	if s := o.session; s != nil {
		s.stop()
		s.lost, o.session = true, nil
	}
	all := make([]*Tenure, 0, len(o.tenures))
	for _, t := range o.tenures {
		t.cancel()
		all = append(all, t)
	}
	o.mu.Unlock()
	for _, t := range all {
		<-t.ended
	}
}

func (o *Owner) current() *session {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.session
}

// working tells that Run has not returned for every shard of the session.
func (o *Owner) working(s *session) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.tenures {
		if t.session == s {
			return true
		}
	}
	return false
}

// done tells that everything was given away.
func (o *Owner) done() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closing && len(o.tenures) == 0
}

// ask calls the store, for no longer than leaves time to renew.
func (o *Owner) ask(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := o.o.Clock.AfterFunc(o.o.TTL/5, cancel)
	defer stop()
	return f(ctx)
}

// turn renews, looks at the cluster and does what the plan says of this replica.
func (o *Owner) turn(ctx context.Context, s *session) {
	o.renew(ctx, s, s.types)
	types := o.types()
	o.establish(ctx, types)
	o.renew(ctx, s, types) // now that their shards are there: none is moved to balance what is to come
	o.mu.Lock()
	clear(o.freed)
	o.mu.Unlock()
	var c engine.Cluster
	err := o.ask(ctx, func(ctx context.Context) (err error) {
		c, err = o.o.Leases.Cluster(ctx)
		return err
	})
	if err != nil {
		o.o.Logger.Warn("mcp events: reading the cluster's state failed", "replica", o.o.Name, "error", err)
		return
	}
	if !o.holds(s) {
		return
	}
	if o.o.Looked != nil {
		o.o.Looked(c, s.fence)
	}
	free := o.settle(ctx, s, c)
	o.renew(ctx, s, s.types)
	if len(free) == 0 || !o.holds(s) {
		return
	}
	var won []engine.Shard
	err = o.ask(ctx, func(ctx context.Context) (err error) {
		won, err = o.o.Leases.Claim(ctx, s.fence, free)
		return err
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, shard := range won {
		o.begin(ctx, s, shard)
	}
	if errors.Is(err, engine.ErrFenced) {
		o.lose(s, "the store says so")
	} else if err != nil {
		o.o.Logger.Warn("mcp events: claiming shards failed", "replica", o.o.Name, "error", err)
	}
}

// establish makes the shards of topics that are new: of the duties, and of types.
func (o *Owner) establish(ctx context.Context, types map[string]string) {
	topics := map[string]int{}
	for _, t := range o.o.Duties {
		topics[t] = 1
	}
	for t := range types {
		if t != closing {
			topics[t] = o.o.Shards
		}
	}
	for t, n := range topics {
		if o.known[t] {
			continue
		}
		if err := o.ask(ctx, func(ctx context.Context) error {
			_, err := o.o.Leases.Establish(ctx, t, n)
			return err
		}); err != nil {
			o.o.Logger.Warn("mcp events: creating shards failed", "topic", t, "error", err)
			return
		}
		o.known[t] = true
	}
}

// closing stands among the types of a replica that gives everything away: it gets nothing more. No event
// name has a slash.
const closing = "/closing"

// types are what the store is told of this replica.
func (o *Owner) types() map[string]string {
	o.mu.Lock()
	over := o.closing
	o.mu.Unlock()
	if over {
		return map[string]string{closing: ""}
	}
	return o.o.Types()
}

// eligible reports whether a replica can own shards of the topic.
func eligible(r *engine.Replica, topic string) bool {
	if _, over := r.Types[closing]; over {
		return false
	}
	if isDuty(topic) {
		return true
	}
	_, ok := r.Types[topic]
	return ok
}

func isDuty(topic string) bool { return topic != "" && topic[0] == '/' }

// orphans are the event types that no replica has registered for so long that they are anybody's.
func (o *Owner) orphans(c engine.Cluster) map[string]bool {
	known := map[string]bool{}
	for _, r := range c.Replicas {
		for t := range r.Types {
			known[t] = true
		}
	}
	now, found := o.o.Clock.Monotonic(), map[string]bool{}
	for _, h := range c.Shards {
		t := h.Shard.Topic
		if isDuty(t) || known[t] {
			delete(o.unknown, t)
			continue
		}
		since, ok := o.unknown[t]
		if !ok {
			o.unknown[t], since = now, now
		}
		if o.o.Orphans > 0 && now-since >= o.o.Orphans {
			found[t] = true
		}
	}
	return found
}

// settle gives away what the plan gives to others, goes on with what is this replica's already, and
// returns what it should claim.
func (o *Owner) settle(ctx context.Context, s *session, c engine.Cluster) (free []engine.Hold) {
	orphans := o.orphans(c)
	owners, anybodys := o.share(s, c, func(r *engine.Replica, topic string) bool {
		return eligible(r, topic) || orphans[topic] && len(r.Types) > 0 && eligible(r, engine.OutboxTopic)
	})
	live := make(map[uint64]bool, len(c.Replicas))
	for _, r := range c.Replicas {
		live[r.Fence] = true
	}
	var unused []engine.Hold
	o.mu.Lock()
	for _, h := range c.Shards {
		t, mine := o.tenures[h.Shard], owners[h.Shard] == s.fence && !o.closing
		switch {
		case t != nil && t.session == s && h.Fence == s.fence && !mine:
			t.drain()
		case t != nil && t.session == s && h.Fence != s.fence && !t.fenced && h.Fence != 0:
			t.cancel() // somebody else has it
		case t != nil: // it goes on, or has yet to end
		case o.freed[h.Shard]: // what the store said of it may be older
		case h.Fence == s.fence && mine:
			o.begin(ctx, s, h.Shard) // the answer to a claim was lost
		case h.Fence == s.fence:
			unused = append(unused, h)
		case (mine || anybodys[h.Shard] && !o.closing) && !live[h.Fence]:
			free = append(free, h)
		}
	}
	o.mu.Unlock()
	for _, h := range unused {
		o.release(ctx, s, h)
	}
	return free
}

// begin starts a tenure unless the lease is over; o.mu is held.
func (o *Owner) begin(ctx context.Context, s *session, shard engine.Shard) {
	if s.lost || o.tenures[shard] != nil {
		return
	}
	t := &Tenure{owner: o, session: s, hold: engine.Hold{Shard: shard, Fence: s.fence}, draining: make(chan struct{}), ended: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancel(ctx)
	o.tenures[shard] = t
	go func() {
		defer close(t.ended)
		defer t.cancel()
		o.o.Run(t)
		if t.Valid() {
			o.release(ctx, s, t.hold)
		}
		o.mu.Lock()
		delete(o.tenures, shard)
		o.mu.Unlock()
		o.Hurry()
	}()
}

// release gives a shard up. When the answer is lost the lease is lost with it: the order may arrive later,
// and would then free what was claimed again under the same fence.
func (o *Owner) release(ctx context.Context, s *session, h engine.Hold) {
	if !o.holds(s) {
		return
	}
	err := o.ask(ctx, func(ctx context.Context) error { return o.o.Leases.Release(ctx, h) })
	o.mu.Lock()
	o.freed[h.Shard] = true
	o.mu.Unlock()
	if err == nil || errors.Is(err, engine.ErrFenced) {
		return
	}
	o.o.Logger.Warn("mcp events: releasing a shard failed", "shard", h.Shard.String(), "error", err)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lose(s, "the answer to a release was lost")
}
