package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/operate"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// hookTime bounds OnUnsubscribe, which runs after its request or stream has ended.
const hookTime = 30 * time.Second

// memberships call OnSubscribe when the first holder of a subscription id joins and OnUnsubscribe
// when the last one leaves: once each while the process lives (SRV-3), also when two streams of a
// principal ask for the same.
type memberships struct {
	server *Server
	mu     sync.Mutex
	byID   map[string]*membership
}

type membership struct {
	holders int // guarded by memberships.mu

	hooks chan struct{} // capacity 1: held while a hook runs
	on    bool          // guarded by hooks
}

// join makes the caller a holder; on an error it is none.
func (m *memberships) join(ctx context.Context, sub Subscription, a arguments) error {
	if a.def.hooks.OnSubscribe == nil && a.def.hooks.OnUnsubscribe == nil {
		return nil
	}
	m.mu.Lock()
	if m.byID == nil {
		m.byID = map[string]*membership{}
	}
	ms := m.byID[sub.ID]
	if ms == nil {
		ms = &membership{hooks: make(chan struct{}, 1)}
		m.byID[sub.ID] = ms
	}
	ms.holders++
	m.mu.Unlock()
	err := func() error {
		select {
		case ms.hooks <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-ms.hooks }()
		if ms.on {
			return nil
		}
		if f := a.def.hooks.OnSubscribe; f != nil {
			if err := a.def.guard("OnSubscribe", func() error { return f(ctx, sub, a.Typed()) }); err != nil {
				return err
			}
		}
		ms.on = true
		return nil
	}()
	if err != nil {
		m.leave(sub, a)
	}
	return err
}

// leave gives up what join made; it may call OnUnsubscribe.
func (m *memberships) leave(sub Subscription, a arguments) { m.part(sub, a, true) }

// release gives up what join made of a subscription that goes on elsewhere: no hook is called.
func (m *memberships) release(sub Subscription, a arguments) { m.part(sub, a, false) }

func (m *memberships) part(sub Subscription, a arguments, ends bool) {
	m.mu.Lock()
	ms := m.byID[sub.ID]
	if ms == nil {
		m.mu.Unlock()
		return
	}
	ms.holders--
	last := ms.holders == 0
	m.mu.Unlock()
	if !last {
		return
	}
	ms.hooks <- struct{}{}
	defer func() { <-ms.hooks }()
	m.mu.Lock()
	last = ms.holders == 0 && m.byID[sub.ID] == ms
	m.mu.Unlock()
	if !last {
		return // somebody came meanwhile and will find it on
	}
	if ms.on {
		ms.on = false
		if f := a.def.hooks.OnUnsubscribe; f != nil && ends {
			ctx, cancel := m.server.hookContext(hookTime)
			defer cancel()
			if err := a.def.guard("OnUnsubscribe", func() error { f(hook.WithPrincipal(ctx, sub.Principal), sub, a.Typed()); return nil }); err != nil {
				m.server.log.Internal(ctx, "OnUnsubscribe", err)
			}
		}
	}
	m.mu.Lock()
	if ms.holders == 0 {
		delete(m.byID, sub.ID)
	}
	m.mu.Unlock()
}

// A lease stands for a poller that may come again (POLL-8).
type lease struct {
	sub     Subscription
	args    arguments // bare
	et      *eventType
	charge  int
	since   time.Time
	expires time.Time     // guarded by leases.mu, as are timer and ended
	timer   *time.Timer   // nil until the first poll's OnSubscribe has accepted
	ready   chan struct{} // closed when it has answered
	err     error         // its answer, after ready
	ended   bool
	passed  store.Position // of the type's log, by its last poll; guarded by leases.mu
	polled  bool           // passed is known
}

type leases struct {
	server *Server
	mu     sync.Mutex
	byID   map[string]*lease
	closed bool // for good: nobody would end another one
}

// leaseOverhead is what a lease keeps beside its arguments, in bytes: its names, its timer, its
// membership and its places in maps.
const leaseOverhead = 768

// renew takes or prolongs the lease of sub for at least d from now; the first time it calls
// OnSubscribe. What is kept is charged to the principal (CAP-5).
func (ls *leases) renew(ctx context.Context, et *eventType, sub Subscription, a arguments, d time.Duration) error {
	until := time.Now().Add(d)
	ls.mu.Lock()
	if ls.closed {
		ls.mu.Unlock()
		return fault.ErrShuttingDown
	}
	if l := ls.byID[sub.ID]; l != nil {
		if until.After(l.expires) { // never shorter: polls of one subscription may overlap
			l.expires = until
		}
		ls.mu.Unlock()
		select {
		case <-l.ready:
		case <-ctx.Done():
			return ctx.Err()
		}
		if l.err != nil && !errors.Is(l.err, context.Canceled) {
			return l.err
		}
		if l.err != nil {
			return ls.renew(ctx, et, sub, a, d) // the first poller went away while its hook ran
		}
		return nil
	}
	l := &lease{sub: sub, args: a.bare(), et: et, since: time.Now(), expires: until, ready: make(chan struct{}),
		charge: leaseOverhead + len(sub.Principal) + len(a.JSON)}
	if err := ls.server.holdings.take(sub.Principal, l.charge); err != nil {
		ls.mu.Unlock()
		if sub.Principal == "" && a.def.hooks.OnSubscribe == nil && a.def.hooks.OnUnsubscribe == nil {
			return nil // nobody needs it to be remembered
		}
		return err
	}
	if ls.byID == nil {
		ls.byID = map[string]*lease{}
	}
	ls.byID[sub.ID] = l
	ls.mu.Unlock()

	l.err = ls.server.members.join(ctx, sub, a)
	ls.mu.Lock()
	over := l.ended
	if l.err != nil {
		ls.remove(l)
	} else if !over {
		l.timer = time.AfterFunc(time.Until(l.expires), func() { ls.lapse(l) })
	}
	ls.mu.Unlock()
	close(l.ready)
	if l.err == nil && over {
		ls.server.members.leave(sub, a)
	}
	return l.err
}

// reached notes how far a poll of the type's own log came.
func (ls *leases) reached(id string, p store.Position) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.byID[id]; l != nil {
		l.passed, l.polled = p, true
	}
}

// remove takes the lease out and gives its charge back; false when it is out. The caller holds mu.
func (ls *leases) remove(l *lease) bool {
	if l.ended {
		return false
	}
	l.ended = true
	delete(ls.byID, l.sub.ID)
	ls.server.holdings.give(l.sub.Principal, l.charge)
	return true
}

// lapse runs when the lease may have run out.
func (ls *leases) lapse(l *lease) {
	ls.mu.Lock()
	if rest := time.Until(l.expires); rest > 0 && !l.ended {
		l.timer.Reset(rest)
		ls.mu.Unlock()
		return
	}
	removed := ls.remove(l)
	ls.mu.Unlock()
	if removed {
		ls.server.members.leave(l.sub, l.args)
	}
}

func (ls *leases) end(l *lease) {
	ls.mu.Lock()
	removed, joined := ls.remove(l), l.timer != nil
	if joined {
		l.timer.Stop()
	}
	ls.mu.Unlock()
	if removed && joined {
		ls.server.members.leave(l.sub, l.args)
	}
}

func (ls *leases) endWhere(which func(*lease) bool) {
	ls.mu.Lock()
	var all []*lease
	for _, l := range ls.byID {
		if which(l) {
			all = append(all, l)
		}
	}
	ls.mu.Unlock()
	for _, l := range all {
		ls.end(l)
	}
}

// close ends all leases and refuses others (SRV-6).
func (ls *leases) close() {
	ls.mu.Lock()
	ls.closed = true
	ls.mu.Unlock()
	ls.endWhere(func(*lease) bool { return true })
}

func (ls *leases) endType(et *eventType) {
	ls.endWhere(func(l *lease) bool { return l.et == et })
}

func (ls *leases) each(f func(Subscription)) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.byID {
		f(l.sub)
	}
}

// Info and what follows implement [operate.Connection].
func (l *lease) Info() operator.Connection {
	return operator.Connection{Subscription: l.sub.ID, Principal: l.sub.Principal, Event: l.sub.Event, Mode: wire.ModePoll, Since: l.since}
}

func (l *lease) Type() operate.EventType { return l.et }

// Behind is by the last poll.
func (l *lease) Behind() *int64 {
	ls := &l.et.server.leases
	ls.mu.Lock()
	passed, polled := l.passed, l.polled
	ls.mu.Unlock()
	if !polled || l.et.topic == nil {
		return nil
	}
	return behind(l.et.topic.Head(), passed)
}

func (l *lease) Terminate(*events.Error) { l.et.server.leases.end(l) }

// identity names the caller's subscription in a mode (SRV-2).
func identity(mode, principal string, a arguments) Subscription {
	name := a.def.info.Name
	return Subscription{ID: wire.SubscriptionID(mode, principal, "", name, a.Canonical()), Principal: principal, Event: name, Mode: mode}
}
