package mcpeclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/carry"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// Options configures one subscription of [Client.Via].
type Options struct {
	// Delivery says when the server delivers events; nil means in real time.
	Delivery *mcpewire.Delivery
	// Tags and Priority restrict the events in addition to their type.
	Tags, Priority []string
	// ExpiresAt is the time at which the subscription expires; zero means never.
	ExpiresAt time.Time
}

// Via returns an option with which client.Subscribe and the generated functions receive over MCPE.
// MCPE has no subscription arguments, so passing any is an error. Subscribing returns an [*Error]
// from the server, or [ErrNoMCPE] if the server does not offer MCPE.
//
// A subscription that has expired on the server ends with a client.TerminatedError that wraps
// [ErrExpired]. If the session is lost, the client looks the subscription up with events_list and
// resumes it, or recreates it. Either way the iterator yields a [client.GapError], because MCPE does
// not repeat lost events.
func (m *Client) Via(o Options) client.SubscribeOption {
	return carry.Via(func() carry.Carrier {
		return &carrier{m: m, route: newRoute(), request: Request{Filter: mcpewire.Filter{Tags: o.Tags, Priority: o.Priority},
			Delivery: o.Delivery, ExpiresAt: o.ExpiresAt}}
	}).(client.SubscribeOption)
}

// errNotListening ends an attempt because notifications can no longer arrive.
var errNotListening = errors.New("mcpe client: the listen request has ended")

// Reasons for the end of a subscription.
var (
	// ErrExpired ends a subscription that has expired on the server.
	ErrExpired = errors.New("mcpe client: subscription has expired")
	// ErrUnsubscribed ends a subscription that [Client.Unsubscribe] or [Client.Shutdown] has removed.
	ErrUnsubscribed = errors.New("mcpe client: unsubscribed")
)

// A carrier receives for one subscription: the occurrences of one event type or, when raw, items.
type carrier struct {
	m     *Client
	raw   bool
	route *route

	// Guarded by Client.mu: the state with which a lost subscription is recreated.
	request Request
	paused  bool
	id      string // the subscription's id in the last session
}

func (*carrier) Mode() string { return wire.MCPEName }

// Carry subscribes, or resumes the subscription of the previous session, and receives events.
func (c *carrier) Carry(ctx context.Context, in carry.Intake) error {
	if args := in.Arguments(); args != nil {
		return &client.TerminatedError{Event: in.Event(), Err: fmt.Errorf("mcpe client: MCPE has no subscription arguments, and %s was given", args)}
	}
	cs := in.Session()
	ok, err := supported(ctx, cs)
	if err != nil {
		return err
	}
	if !ok {
		return &client.TerminatedError{Event: in.Event(), Err: ErrNoMCPE}
	}
	var over <-chan struct{} // closed when the listen request ends; nil on a session
	if in.Stateless() {
		l, err := c.m.join(ctx, in)
		if err != nil {
			return err
		}
		defer c.m.part(cs, l)
		over = l.over
	}
	defer c.leave(in, cs)
	if err := c.takeUp(ctx, in); err != nil {
		return err
	}
	if before := in.Accepted(); before {
		if err := in.Gap(ctx); err != nil {
			return err
		}
	}
	return c.receive(ctx, in, over)
}

// takeUp resumes the subscription of the previous session, or creates a new one (specification,
// section 12.2).
func (c *carrier) takeUp(ctx context.Context, in carry.Intake) error {
	cs := in.Session()
	c.m.mu.Lock()
	id, paused, shut := c.id, c.paused, c.m.shut
	if !c.raw {
		c.request.Filter.EventTypes = []string{in.Event()}
	}
	request := c.request
	c.m.mu.Unlock()
	switch {
	case c.route.ended() != nil:
		return nil // receive delivers the remaining events and ends
	case shut:
		return &client.TerminatedError{Event: in.Event(), Err: ErrUnsubscribed}
	}
	status := ""
	if id != "" {
		var err error
		if status, err = find(ctx, cs, id); err != nil {
			return err
		}
	}
	if status == "" {
		// The call is repeatable: after a failure the subscription is recreated anyway.
		s, err := c.m.subscribe(carry.Repeatable(ctx), cs, request)
		if err != nil {
			return err
		}
		id, status = s.ID, wire.MCPEActive
		c.m.open(id, c)
	}
	switch {
	case status == wire.MCPEExpired:
		c.route.finish(ErrExpired)
	case paused && status == wire.MCPEActive:
		return call(ctx, cs, wire.MCPEToolPause, named{id}, nil)
	}
	return nil
}

// find returns the status of a subscription, or "" if the server does not have it.
func find(ctx context.Context, cs *mcp.ClientSession, id string) (status string, err error) {
	all, err := list(ctx, cs, "")
	if err != nil {
		return "", err
	}
	for _, s := range all {
		if s.ID == id {
			return cmp.Or(s.Status, wire.MCPEActive), nil
		}
	}
	return "", nil
}

// leave removes the subscription from the server if the application has ended it (specification,
// section 12.2). A subscription that only lost its session stays and may be resumed.
func (c *carrier) leave(in carry.Intake, cs *mcp.ClientSession) {
	id, end := c.named(), c.route.ended()
	if !in.Over() && end == nil || !c.m.close(id) || end == ErrExpired {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanTime)
	defer cancel()
	_ = call(ctx, cs, wire.MCPEToolUnsubscribe, named{id}, nil)
}

// named returns the subscription's id, or "" before the first one.
func (c *carrier) named() string {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	return c.id
}

func (c *carrier) receive(ctx context.Context, in carry.Intake, over <-chan struct{}) error {
	for {
		notices, lost, end := c.route.take()
		for _, n := range notices {
			if err := c.hand(ctx, in, n); err != nil {
				return err
			}
		}
		if lost {
			if err := in.Gap(ctx); err != nil {
				return err
			}
		}
		if end != nil {
			return &client.TerminatedError{Event: in.Event(), Err: end}
		}
		select {
		case <-c.route.more:
		case <-over:
			return errNotListening
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// hand delivers a notice: event by event or, if raw, as one item without the events that the policy
// withholds.
func (c *carrier) hand(ctx context.Context, in carry.Intake, n notice) error {
	if !c.raw {
		for i := range n.events {
			if err := in.Take(ctx, occurrence(&n.events[i])); err != nil {
				return err
			}
		}
		return nil
	}
	n.events = slices.DeleteFunc(n.events, func(e mcpewire.Event) bool { return !in.Allowed(ctx, occurrence(&e)) })
	if len(n.events) == 0 {
		return nil
	}
	return in.Put(ctx, Item{Events: n.events, Batch: n.batch}, n.size)
}

// occurrence converts an MCPE event to an MCP Events occurrence, with the source's event id if it is
// known.
func occurrence(e *mcpewire.Event) wire.Occurrence {
	o := wire.Occurrence{EventID: e.Metadata.SourceEventID, Name: e.Type, Timestamp: e.Metadata.Timestamp, Data: e.Data}
	if o.EventID == "" {
		o.EventID = e.ID
	}
	if len(o.Data) == 0 {
		o.Data = []byte(`{}`)
	}
	return o
}

// listening is a session's listen request, which all its subscriptions share.
type listening struct {
	holders int
	ready   chan struct{} // closed once the server has accepted or refused; see err
	once    sync.Once
	err     error
	cancel  context.CancelFunc
	over    chan struct{}
}

// join opens or shares the listen request that receives notifications on revision 2026-07-28
// (MCPE-NOTE-4).
func (m *Client) join(ctx context.Context, in carry.Intake) (*listening, error) {
	cs := in.Session()
	m.mu.Lock()
	l := m.listen[cs]
	if l == nil {
		l = &listening{ready: make(chan struct{}), over: make(chan struct{})}
		var own context.Context
		own, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
		m.listen[cs] = l
		go func() {
			defer close(l.over)
			err := in.Listen(own, wire.MetaMCPE, func() { l.once.Do(func() { close(l.ready) }) })
			m.mu.Lock()
			if m.listen[cs] == l {
				delete(m.listen, cs)
			}
			m.mu.Unlock()
			l.once.Do(func() { l.err = err; close(l.ready) })
		}()
	}
	l.holders++
	m.mu.Unlock()
	select {
	case <-l.ready:
		if l.err != nil {
			m.part(cs, l)
			return nil, fmt.Errorf("mcpe client: listening: %w", l.err)
		}
		return l, nil
	case <-ctx.Done():
		m.part(cs, l)
		return nil, context.Cause(ctx)
	}
}

// part releases the listen request of join; the last holder ends it.
func (m *Client) part(cs *mcp.ClientSession, l *listening) {
	m.mu.Lock()
	l.holders--
	last := l.holders == 0
	if last && m.listen[cs] == l {
		delete(m.listen, cs)
	}
	m.mu.Unlock()
	if last {
		l.cancel()
		<-l.over
	}
}
