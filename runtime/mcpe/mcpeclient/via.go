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
	// Delivery configures when the server delivers events; nil means in real time.
	Delivery *mcpewire.Delivery
	// Tags and Priority further restrict the events of the type.
	Tags, Priority []string
	// ExpiresAt is the time when the subscription expires; zero means never.
	ExpiresAt time.Time
}

// Via returns an option for client.Subscribe and the generated functions to receive events over MCPE. MCPE does not
// support subscription arguments, so passing any is an error. Subscribing returns an [*Error] if the server rejects the
// subscription, or [ErrNoMCPE] if the server does not offer MCPE.
//
// A subscription that has expired on the server ends with a client.TerminatedError that wraps [ErrExpired]. If the
// session is lost, the client looks up the subscription with events_list and resumes or recreates it. In both cases,
// the iterator yields a [client.GapError], because MCPE does not resend lost events.
func (m *Client) Via(o Options) client.SubscribeOption {
	return carry.Via(func() carry.Carrier {
		return &carrier{m: m, route: newRoute(), request: Request{Filter: mcpewire.Filter{Tags: o.Tags, Priority: o.Priority},
			Delivery: o.Delivery, ExpiresAt: o.ExpiresAt}}
	}).(client.SubscribeOption)
}

// errNotListening is returned if the listen request has ended, so notifications can no longer arrive.
var errNotListening = errors.New("mcpe client: the listen request has ended")

// Errors that end a subscription.
var (
	// ErrExpired is returned if the subscription has expired on the server.
	ErrExpired = errors.New("mcpe client: subscription has expired")
	// ErrUnsubscribed is returned if [Client.Unsubscribe] or [Client.Shutdown] has removed the subscription.
	ErrUnsubscribed = errors.New("mcpe client: unsubscribed")
)

// A carrier receives notifications for one subscription. It delivers occurrences of one event type or, if raw is set,
// items.
type carrier struct {
	m     *Client
	raw   bool
	route *route

	// The following fields are guarded by Client.mu. They contain the state for recreating a lost subscription.
	request Request
	paused  bool
	id      string // the subscription's id in the last session
}

func (*carrier) Mode() string { return wire.MCPEName }

// Carry creates a subscription or resumes that of the previous session, and then receives events.
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
		l, err := c.m.acquireListen(ctx, in)
		if err != nil {
			return err
		}
		defer c.m.releaseListen(cs, l)
		over = l.over
	}
	defer c.cleanUp(in, cs)
	if err := c.subscribe(ctx, in); err != nil {
		return err
	}
	if before := in.Accepted(); before {
		if err := in.Gap(ctx); err != nil {
			return err
		}
	}
	return c.receive(ctx, in, over)
}

// subscribe resumes the subscription of the previous session, or creates a new one (specification, section 12.2).
func (c *carrier) subscribe(ctx context.Context, in carry.Intake) error {
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
		if status, err = findStatus(ctx, cs, id); err != nil {
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
		c.m.attach(id, c)
	}
	switch {
	case status == wire.MCPEExpired:
		c.route.stop(ErrExpired)
	case paused && status == wire.MCPEActive:
		return call(ctx, cs, wire.MCPEToolPause, named{id}, nil)
	}
	return nil
}

// findStatus returns the status of a subscription, or "" if the server does not list the subscription.
func findStatus(ctx context.Context, cs *mcp.ClientSession, id string) (status string, err error) {
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

// cleanUp removes the subscription from the server if the application has ended it (specification, section 12.2). If
// only the session is lost, the subscription remains and can be resumed.
func (c *carrier) cleanUp(in carry.Intake, cs *mcp.ClientSession) {
	id, end := c.subscriptionID(), c.route.ended()
	if !in.Over() && end == nil || !c.m.detach(id) || end == ErrExpired {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpTimeout)
	defer cancel()
	_ = call(ctx, cs, wire.MCPEToolUnsubscribe, named{id}, nil)
}

// subscriptionID returns the current id, or "" if the carrier has not yet subscribed.
func (c *carrier) subscriptionID() string {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	return c.id
}

func (c *carrier) receive(ctx context.Context, in carry.Intake, over <-chan struct{}) error {
	for {
		notices, lost, end := c.route.take()
		for _, n := range notices {
			if err := c.deliver(ctx, in, n); err != nil {
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

// deliver passes on the events of a notice. If c.raw is set, it passes them on as one item, and omits events that the
// policy rejects.
func (c *carrier) deliver(ctx context.Context, in carry.Intake, n notice) error {
	if !c.raw {
		for i := range n.events {
			if err := in.Take(ctx, newOccurrence(&n.events[i])); err != nil {
				return err
			}
		}
		return nil
	}
	n.events = slices.DeleteFunc(n.events, func(e mcpewire.Event) bool { return !in.Allowed(ctx, newOccurrence(&e)) })
	if len(n.events) == 0 {
		return nil
	}
	return in.Put(ctx, Item{Events: n.events, Batch: n.batch}, n.size)
}

// newOccurrence converts an MCPE event to an MCP Events occurrence. It uses the source's event id if it is known.
func newOccurrence(e *mcpewire.Event) wire.Occurrence {
	o := wire.Occurrence{EventID: e.Metadata.SourceEventID, Name: e.Type, Timestamp: e.Metadata.Timestamp, Data: e.Data}
	o.EventID = cmp.Or(o.EventID, e.ID)
	if len(o.Data) == 0 {
		o.Data = []byte(`{}`)
	}
	return o
}

// A listenRequest is a session's listen request, which all of the session's subscriptions share.
type listenRequest struct {
	holders int
	ready   chan struct{} // closed once the server has accepted or refused; see err
	once    sync.Once
	err     error
	cancel  context.CancelFunc
	over    chan struct{}
}

// acquireListen opens or shares the listen request that receives notifications on revision 2026-07-28 (MCPE-NOTE-4).
func (m *Client) acquireListen(ctx context.Context, in carry.Intake) (*listenRequest, error) {
	cs := in.Session()
	m.mu.Lock()
	l := m.listen[cs]
	if l == nil {
		l = &listenRequest{ready: make(chan struct{}), over: make(chan struct{})}
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
			m.releaseListen(cs, l)
			return nil, fmt.Errorf("mcpe client: listening: %w", l.err)
		}
		return l, nil
	case <-ctx.Done():
		m.releaseListen(cs, l)
		return nil, context.Cause(ctx)
	}
}

// releaseListen releases a listen request returned by acquireListen. The last release ends the request.
func (m *Client) releaseListen(cs *mcp.ClientSession, l *listenRequest) {
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
