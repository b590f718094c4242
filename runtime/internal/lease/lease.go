package lease

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Lease represents a poller between two polls (POLL-8).
type Lease struct {
	of      *Leases
	sub     eventtype.Subscription
	args    eventtype.Arguments // bare
	et      eventtype.Type
	charge  int
	since   time.Time
	expires time.Time     // guarded by Leases.mu, as are timer and ended
	timer   *time.Timer   // nil until OnSubscribe accepted the first poll
	ready   chan struct{} // closed when OnSubscribe returned
	err     error         // result of OnSubscribe, valid after ready
	ended   bool
	passed  store.Position // position of the last poll in the type's log; guarded by Leases.mu
	polled  bool           // passed is known
	polls   []Poll         // running polls; guarded by Leases.mu, as is reason
	reason  *events.Error  // reason of the termination
}

// A Poll is a running poll request. Its values are comparable.
type Poll interface {
	// End ends the request with the error, at any time and more than once.
	End(reason *events.Error)
}

// Leases manages the leases of the pollers of a server.
type Leases struct {
	Members *Members

	mu     sync.Mutex
	byID   map[string]*Lease
	closed bool // no new leases: nothing would end them

	decisions atomic.Uint64
}

// overhead is the memory used by a lease, excluding its arguments, in bytes. It includes the names, the timer, the
// membership and the map entries.
const overhead = 768

// Renew creates or extends the lease of sub. After the call, the lease expires no earlier than d from now. For a new
// lease, Renew calls Members.Join and charges the principal (CAP-5). It returns nil for a poller that does not need a
// lease.
func (ls *Leases) Renew(ctx context.Context, et eventtype.Type, sub eventtype.Subscription, a eventtype.Arguments, d time.Duration) (*Lease, error) {
	until := time.Now().Add(d)
	ls.mu.Lock()
	if ls.closed {
		ls.mu.Unlock()
		return nil, fault.ErrShuttingDown
	}
	if l := ls.byID[sub.ID]; l != nil {
		if until.After(l.expires) { // never shorter: polls of one subscription may overlap
			l.expires = until
		}
		ls.mu.Unlock()
		select {
		case <-l.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if l.err != nil && !errors.Is(l.err, context.Canceled) {
			return nil, l.err
		}
		if l.err != nil {
			return ls.Renew(ctx, et, sub, a, d) // the first poller went away while its hook ran
		}
		return l, nil
	}
	host := ls.Members.Host
	l := &Lease{of: ls, sub: sub, args: a.Bare(), et: et, since: time.Now(), expires: until, ready: make(chan struct{}),
		charge: overhead + len(sub.Principal) + len(a.JSON)}
	if err := host.Take(sub.Principal, l.charge); err != nil {
		ls.mu.Unlock()
		if sub.Principal == "" && !host.Hears(a) {
			return nil, nil
		}
		return nil, err
	}
	if ls.byID == nil {
		ls.byID = map[string]*Lease{}
	}
	ls.byID[sub.ID] = l
	ls.mu.Unlock()

	l.err = ls.Members.Join(ctx, sub, a)
	ls.mu.Lock()
	over := l.ended
	if l.err != nil {
		ls.removeLease(l)
	} else if !over {
		l.timer = time.AfterFunc(time.Until(l.expires), func() { ls.removeExpired(l) })
	}
	ls.mu.Unlock()
	close(l.ready)
	if l.err == nil && over {
		ls.Members.Leave(sub, a)
	}
	if l.err != nil {
		return nil, l.err
	}
	return l, nil
}

// Enter registers a running poll until leave is called, so Terminate can end the poll. If the lease is already
// terminated, Enter ends the poll immediately. It does nothing for a nil lease.
func (l *Lease) Enter(p Poll) (leave func()) {
	if l == nil {
		return func() {}
	}
	l.of.mu.Lock()
	reason := l.reason
	l.polls = append(l.polls, p)
	l.of.mu.Unlock()
	if reason != nil {
		p.End(reason)
	}
	return func() {
		l.of.mu.Lock()
		defer l.of.mu.Unlock()
		i := slices.Index(l.polls, p)
		if l.polls = slices.Delete(l.polls, i, i+1); len(l.polls) == 0 {
			l.polls = nil // a lease is kept for longer than its polls
		}
	}
}

// Deciding records that the decisions of the author's hooks might have changed.
func (ls *Leases) Deciding() { ls.decisions.Add(1) }

// Decisions returns the number of calls of [Leases.Deciding]. A request calls the hooks again if the number has
// increased since it last called them.
func (ls *Leases) Decisions() uint64 { return ls.decisions.Load() }

// Reached records the position that a poll has reached in the type's log.
func (ls *Leases) Reached(id string, p store.Position) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.byID[id]; l != nil {
		l.passed, l.polled = p, true
	}
}

// removeLease removes the lease and releases its charge. It returns false if the lease was already removed. The caller
// must hold mu.
func (ls *Leases) removeLease(l *Lease) bool {
	if l.ended {
		return false
	}
	l.ended = true
	delete(ls.byID, l.sub.ID)
	ls.Members.Host.Give(l.sub.Principal, l.charge)
	return true
}

// removeExpired removes the lease if it has expired. Otherwise it resets the timer.
func (ls *Leases) removeExpired(l *Lease) {
	ls.mu.Lock()
	if rest := time.Until(l.expires); rest > 0 && !l.ended {
		l.timer.Reset(rest)
		ls.mu.Unlock()
		return
	}
	removed := ls.removeLease(l)
	ls.mu.Unlock()
	if removed {
		ls.Members.Leave(l.sub, l.args)
	}
}

func (ls *Leases) endLease(l *Lease) {
	ls.mu.Lock()
	removed, joined := ls.removeLease(l), l.timer != nil
	if joined {
		l.timer.Stop()
	}
	ls.mu.Unlock()
	if removed && joined {
		ls.Members.Leave(l.sub, l.args)
	}
}

// EndType ends all leases of an event type.
func (ls *Leases) EndType(et eventtype.Type) {
	for _, l := range ls.All() {
		if l.et == et {
			ls.endLease(l)
		}
	}
}

// Close ends all leases and prevents new ones (SRV-6).
func (ls *Leases) Close() {
	ls.mu.Lock()
	ls.closed = true
	ls.mu.Unlock()
	for _, l := range ls.All() {
		ls.endLease(l)
	}
}

// All returns all leases in unspecified order.
func (ls *Leases) All() (all []*Lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	all = slices.Grow(all, len(ls.byID))
	for _, l := range ls.byID {
		all = append(all, l)
	}
	return all
}

// Of returns the lease of the subscription with the id, or nil if it has no lease.
func (ls *Leases) Of(id string) *Lease {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.byID[id]
}

// Subscription returns the subscription of the lease.
func (l *Lease) Subscription() eventtype.Subscription { return l.sub }

// Info returns a description of the lease for operators.
func (l *Lease) Info() operator.Connection {
	return operator.Connection{Subscription: l.sub.ID, Principal: l.sub.Principal, Event: l.sub.Event, Mode: l.sub.Mode, Since: l.since}
}

// Type returns the event type of the lease.
func (l *Lease) Type() eventtype.Type { return l.et }

// Behind returns the number of log entries after the last poll's position, or nil if the position is unknown.
func (l *Lease) Behind() *int64 {
	l.of.mu.Lock()
	passed, polled := l.passed, l.polled
	l.of.mu.Unlock()
	if !polled {
		return nil
	}
	return eventtype.Behind(l.et, passed)
}

// Refused calls the author's hooks. It returns their error if they refuse the poller, or nil if they allow it (AUTH-2).
func (l *Lease) Refused(ctx context.Context) *events.Error {
	args := l.args
	if now := l.et.Current(); now != nil && now != args.Def {
		if renewed, err := eventtype.Reparse(now, args.JSON); err == nil {
			args = renewed
		}
	}
	return l.of.Members.Host.Refused(ctx, l.sub.Principal, args)
}

// Hold ends the running polls as revoked, because a request cannot wait for the author's hooks.
func (l *Lease) Hold() { l.Terminate(fault.Revoked()) }

// Terminate ends the lease. It also ends the running polls with the given reason.
func (l *Lease) Terminate(reason *events.Error) {
	l.of.endLease(l)
	l.of.mu.Lock()
	l.reason = cmp.Or(l.reason, reason)
	polls := slices.Clone(l.polls)
	l.of.mu.Unlock()
	for _, p := range polls {
		p.End(reason)
	}
}
