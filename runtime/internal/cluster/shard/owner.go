// Package shard determines which shards a replica of a cluster owns. It maintains a lease, which it measures with the
// replica's clock, and claims a fair share of the shards (REP-6 to REP-9). It uses [engine.Leases] and does not depend
// on the work that owners perform. Start with [New]. [Options.Run] is called for each claimed shard.
package shard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// maxDrift is the maximum drift between the wall clock and the monotonic clock before a lease is considered lost.
	// The monotonic clock stops while the machine is suspended.
	maxDrift = time.Second
	// maxSkew is the maximum difference between the replica's wall clock and the store's clock before a warning is
	// logged.
	maxSkew = time.Second
	// marginDivisor is the divisor of a lease's duration that yields the safety margin at its end. The margin is
	// necessary because clocks can run at different rates.
	marginDivisor = 20
	// looksPerLease is the minimum number of looks at the cluster during a lease.
	looksPerLease = 6
)

// Options configures an [Owner]. Leases and Run are required.
type Options struct {
	Leases engine.Leases
	// Name is the name of the replica in log messages.
	Name string
	// Types returns the event types that the replica has registered, together with their fingerprints. The replica only
	// owns shards of these types.
	Types func() map[string]string
	// Report returns the replica's figures for operators, see [engine.Replica]. The default reports nothing.
	Report func() json.RawMessage
	// Duties lists topics with a single shard that each replica can own, such as [engine.OutboxTopic].
	Duties []string
	// Shards is the number of shards of a new event type. The default is 16.
	Shards int
	// Orphans is the time after which other replicas can own the shards of an event type that is unregistered in all
	// replicas. The new owner ends the subscriptions. If Orphans is 0, other replicas never own these shards.
	Orphans time.Duration
	// Looked is called with the cluster and the replica's fence after every look. It must not call the Owner.
	Looked func(c engine.Cluster, own uint64)
	// TTL is the duration of a lease that is not renewed. The default is 10 seconds.
	TTL time.Duration
	// Look is the interval between two looks at the cluster. The default is 1 second, and the maximum is one sixth of
	// TTL.
	Look time.Duration
	// Run performs the work of the owner of a shard. It must return after the ownership's context has ended, or after
	// the ownership is draining and the work in progress has finished. The replica does not release the shard before
	// Run returns.
	Run func(*Ownership)
	// Clock is the replica's clock. The default is [System].
	Clock Clock
	// Logger logs lost leases and inaccurate clocks. The default is slog.Default().
	Logger *slog.Logger
}

// An Owner maintains a lease and the shards that it owns.
type Owner struct {
	o     Options
	hurry chan struct{} // capacity 1
	ended chan struct{}

	mu         sync.Mutex
	session    *session // nil without a lease
	ownerships map[engine.Shard]*Ownership
	known      map[string]bool          // established topics
	unknown    map[string]time.Duration // topics registered nowhere, and since when; used by run
	freed      map[engine.Shard]bool    // released since the cluster was last read; guarded by mu
	silent     silentReplicas           // used by run
	seen       engine.Cluster           // at the last look; used by run
	closing    bool
	time       reading
	skewed     bool
}

// New returns an Owner. Call [Owner.Start] to join the cluster.
func New(o Options) *Owner {
	o.Shards, o.TTL = cmp.Or(o.Shards, 16), cmp.Or(o.TTL, 10*time.Second)
	o.Look = min(cmp.Or(o.Look, time.Second), o.TTL/looksPerLease) // a renewal is due after a third of the lease, and happens at a look
	o.Clock, o.Logger = cmp.Or(o.Clock, System()), cmp.Or(o.Logger, slog.Default())
	if o.Types == nil {
		o.Types = func() map[string]string { return nil }
	}
	if o.Report == nil {
		o.Report = func() json.RawMessage { return nil }
	}
	return &Owner{o: o, hurry: make(chan struct{}, 1), ended: make(chan struct{}), ownerships: map[engine.Shard]*Ownership{}, known: map[string]bool{}, freed: map[engine.Shard]bool{},
		unknown: map[string]time.Duration{}, silent: silentReplicas{map[engine.Shard]time.Duration{}, map[uint64]time.Duration{}}}
}

// Start joins the cluster and owns shards until Shutdown is called or ctx is done. To the other replicas, the end of
// ctx looks like a crash.
func (o *Owner) Start(ctx context.Context) { go o.maintainLease(ctx) }

// Hurry triggers a look at the cluster, for example after a type has been registered or a shard released.
func (o *Owner) Hurry() {
	select {
	case o.hurry <- struct{}{}:
	default:
	}
}

// Owns reports whether the replica may now start work on the shard.
func (o *Owner) Owns(s engine.Shard) bool {
	o.mu.Lock()
	t := o.ownerships[s]
	o.mu.Unlock()
	return t != nil && t.Valid()
}

// Shutdown releases each shard after its work has finished, and then ends the lease. If ctx is done first, Shutdown
// cancels the remaining work, ends the lease, and returns the error of ctx.
func (o *Owner) Shutdown(ctx context.Context) error {
	o.mu.Lock()
	o.closing = true
	for _, t := range o.ownerships {
		t.drain() // even if the store does not answer
	}
	o.mu.Unlock()
	o.Hurry()
	select {
	case <-o.ended:
		return nil
	case <-ctx.Done():
	}
	o.mu.Lock()
	for _, t := range o.ownerships {
		t.cancel()
	}
	o.mu.Unlock()
	o.Hurry()
	<-o.ended
	return ctx.Err()
}

func (o *Owner) maintainLease(ctx context.Context) {
	defer close(o.ended)
	var last *session
	for ctx.Err() == nil {
		s := o.current()
		if last != nil && last != s && !o.hasWork(last) {
			// Other replicas need not wait for the shards of a lost lease after the work on them has ended here.
			o.callStore(ctx, func(ctx context.Context) error { return o.o.Leases.Leave(ctx, last.fence) })
		}
		if s == nil && !o.isDone() {
			s = o.join(ctx)
		}
		last = s
		if s != nil {
			o.takeTurn(ctx, s)
		}
		if o.isDone() {
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
		if o.callStore(ctx, func(ctx context.Context) error { return o.o.Leases.Leave(ctx, s.fence) }) == nil {
			o.o.Logger.Info("mcp events: this process has left the cluster", "replica", o.o.Name)
		}
	}
	o.mu.Lock()
	if s := o.session; s != nil {
		s.stop()
		s.lost, o.session = true, nil
	}
	all := make([]*Ownership, 0, len(o.ownerships))
	for _, t := range o.ownerships {
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

// hasWork reports whether Run is still running for a shard of the session.
func (o *Owner) hasWork(s *session) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.ownerships {
		if t.session == s {
			return true
		}
	}
	return false
}

// isDone reports whether Shutdown was called and all shards have been released.
func (o *Owner) isDone() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closing && len(o.ownerships) == 0
}

// callStore calls the store with a timeout that leaves enough time for a renewal.
func (o *Owner) callStore(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := o.o.Clock.AfterFunc(o.o.TTL/5, cancel)
	defer stop()
	return f(ctx)
}

// takeTurn renews the lease, reads the cluster, and releases and claims shards according to the plan.
func (o *Owner) takeTurn(ctx context.Context, s *session) {
	o.renewLease(ctx, s, s.types)
	types := o.announcedTypes()
	o.createShards(ctx, types)
	o.renewLease(ctx, s, types) // only after their shards exist, so that no shard moves to balance future ones
	o.mu.Lock()
	clear(o.freed)
	o.mu.Unlock()
	var c engine.Cluster
	err := o.callStore(ctx, func(ctx context.Context) (err error) {
		c, err = o.o.Leases.Cluster(ctx)
		return err
	})
	if err != nil {
		o.o.Logger.Warn("mcp events: reading the cluster's state failed", "replica", o.o.Name, "error", err)
		return
	}
	if !o.isCurrent(s) {
		return
	}
	if o.o.Looked != nil {
		o.o.Looked(c, s.fence)
	}
	o.reportDeaths(s, c)
	free := o.releaseMoved(ctx, s, c)
	o.renewLease(ctx, s, s.types)
	if len(free) == 0 || !o.isCurrent(s) {
		return
	}
	var won []engine.Shard
	err = o.callStore(ctx, func(ctx context.Context) (err error) {
		won, err = o.o.Leases.Claim(ctx, s.fence, free)
		return err
	})
	if len(won) > 0 {
		o.o.Logger.Info("mcp events: this process takes over shards", "replica", o.o.Name, "shards", len(won), "topics", topicsOf(won))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, shard := range won {
		o.startOwnership(ctx, s, shard)
	}
	if errors.Is(err, engine.ErrFenced) {
		o.endSession(s, "the store says so")
	} else if err != nil {
		o.o.Logger.Warn("mcp events: claiming shards failed", "replica", o.o.Name, "error", err)
	}
}

// createShards creates the shards for new duties and event types.
func (o *Owner) createShards(ctx context.Context, types map[string]string) {
	topics := map[string]int{}
	for _, t := range o.o.Duties {
		topics[t] = 1
	}
	for t := range types {
		if t != closingType {
			topics[t] = o.o.Shards
		}
	}
	for t, n := range topics {
		if o.known[t] {
			continue
		}
		if err := o.callStore(ctx, func(ctx context.Context) error {
			_, err := o.o.Leases.Establish(ctx, t, n)
			return err
		}); err != nil {
			o.o.Logger.Warn("mcp events: creating shards failed", "topic", t, "error", err)
			return
		}
		o.known[t] = true
	}
}

// closingType is a pseudo-type that a replica announces while it is shutting down, so it is not assigned more shards.
// It contains a slash, which cannot occur in an event name.
const closingType = "/closing"

// announcedTypes returns the types that this replica announces in the store.
func (o *Owner) announcedTypes() map[string]string {
	o.mu.Lock()
	over := o.closing
	o.mu.Unlock()
	if over {
		return map[string]string{closingType: ""}
	}
	return o.o.Types()
}

// isEligible reports whether a replica can own shards of the topic.
func isEligible(r *engine.Replica, topic string) bool {
	if _, over := r.Types[closingType]; over {
		return false
	}
	if isDuty(topic) {
		return true
	}
	_, ok := r.Types[topic]
	return ok
}

func isDuty(topic string) bool { return topic != "" && topic[0] == '/' }

// orphanTopics returns the event types that all replicas have left unregistered for Options.Orphans, so all replicas
// can own their shards.
func (o *Owner) orphanTopics(c engine.Cluster) map[string]bool {
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

// releaseMoved releases the shards that the plan assigns to other replicas, and returns the shards that this replica
// must claim.
func (o *Owner) releaseMoved(ctx context.Context, s *session, c engine.Cluster) (free []engine.ShardFence) {
	orphans := o.orphanTopics(c)
	owners, anybodys := o.assignShards(s, c, func(r *engine.Replica, topic string) bool {
		return isEligible(r, topic) || orphans[topic] && len(r.Types) > 0 && isEligible(r, engine.OutboxTopic)
	})
	live := make(map[uint64]bool, len(c.Replicas))
	for _, r := range c.Replicas {
		live[r.Fence] = true
	}
	var unused []engine.ShardFence
	o.mu.Lock()
	for _, h := range c.Shards {
		t, mine := o.ownerships[h.Shard], owners[h.Shard] == s.fence && !o.closing
		switch {
		case t != nil && t.session == s && h.Fence == s.fence && !mine:
			t.drain()
		case t != nil && t.session == s && h.Fence != s.fence && !t.fenced && h.Fence != 0:
			t.cancel() // another replica has claimed it
		case t != nil: // it continues, or is about to end
		case o.freed[h.Shard]: // the read state may be older than the release
		case h.Fence == s.fence && mine:
			o.startOwnership(ctx, s, h.Shard) // the answer to a claim was lost
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

// startOwnership starts an ownership unless the lease has ended. The caller must hold o.mu.
func (o *Owner) startOwnership(ctx context.Context, s *session, shard engine.Shard) {
	if s.lost || o.ownerships[shard] != nil {
		return
	}
	t := &Ownership{owner: o, session: s, hold: engine.ShardFence{Shard: shard, Fence: s.fence}, draining: make(chan struct{}), ended: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancel(ctx)
	o.ownerships[shard] = t
	go func() {
		defer close(t.ended)
		defer t.cancel()
		o.o.Run(t)
		if t.Valid() {
			o.release(ctx, s, t.hold)
		}
		o.mu.Lock()
		delete(o.ownerships, shard)
		o.mu.Unlock()
		o.Hurry()
	}()
}

// release releases a shard. If the store's response is lost, it also ends the session. Otherwise, the store could
// execute the request later and release a shard that has since been reclaimed with the same fence.
func (o *Owner) release(ctx context.Context, s *session, h engine.ShardFence) {
	if !o.isCurrent(s) {
		return
	}
	err := o.callStore(ctx, func(ctx context.Context) error { return o.o.Leases.Release(ctx, h) })
	o.mu.Lock()
	o.freed[h.Shard] = true
	o.mu.Unlock()
	if err == nil || errors.Is(err, engine.ErrFenced) {
		return
	}
	o.o.Logger.Warn("mcp events: releasing a shard failed", "shard", h.Shard.String(), "error", err)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endSession(s, "the answer to a release was lost")
}
