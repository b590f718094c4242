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

// Options of one subscription by MCPE.
type Options struct {
	// Delivery is when events come; nil means at once.
	Delivery *mcpewire.Delivery
	// Tags and Priority restrict the events beside their type.
	Tags, Priority []string
	// ExpiresAt ends the subscription by itself; zero for never.
	ExpiresAt time.Time
}

// Via makes a subscription receive by MCPE: client.Subscribe and the generated functions take it.
// MCPE has no subscription arguments, so giving any is refused. Subscribing returns an [*Error] for
// a refusal and [ErrNoMCPE] where there is no MCPE.
//
// A subscription that the server has expired ends with a client.TerminatedError that wraps
// [ErrExpired]. After a loss of the session the subscription is looked up by events_list and taken
// up again, or made anew; either way the iterator yields a
// [client.GapError], since MCPE repeats nothing.
func (m *Client) Via(o Options) client.SubscribeOption {
	return carry.Via(func() carry.Carrier {
		return &carrier{m: m, route: newRoute(), request: Request{Filter: mcpewire.Filter{Tags: o.Tags, Priority: o.Priority},
			Delivery: o.Delivery, ExpiresAt: o.ExpiresAt}}
	}).(client.SubscribeOption)
}

// errNotListening ends one try: notifications have nowhere to come.
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

	// Guarded by Client.mu. They are what the subscription has to be when it is made anew.
	request Request
	paused  bool
	id      string // of the last session's subscription
}

func (*carrier) Mode() string { return wire.MCPEName }

// Carry subscribes, or takes up the subscription of the session before, and receives.
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
	var over <-chan struct{} // of the listen request; never over on a session
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

// takeUp makes sure that the server has the subscription, be it that of the session before
// (specification, section 12.2).
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
		return nil // receive hands over what is left, and ends
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
		// After a failure the subscription is made anew anyway.
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

// find returns the status of a subscription, "" when the server does not have it.
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

// leave removes the subscription when it is over for the application, too (specification, section
// 12.2). What only lost its session may be taken up again.
func (c *carrier) leave(in carry.Intake, cs *mcp.ClientSession) {
	id, end := c.named(), c.route.ended()
	if !in.Over() && end == nil || !c.m.close(id) || end == ErrExpired {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanTime)
	defer cancel()
	_ = call(ctx, cs, wire.MCPEToolUnsubscribe, named{id}, nil)
}

// named is the subscription's id, "" before there is one.
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

// hand hands a notice over: event by event, or as it came but for what the policy withholds.
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

// occurrence is an event as MCP Events has it: its id is the source's where the server tells it.
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

// listening is the one listen request of a session, which all its subscriptions share.
type listening struct {
	holders int
	ready   chan struct{} // closed when the server has agreed, or refused: err
	once    sync.Once
	err     error
	cancel  context.CancelFunc
	over    chan struct{}
}

// join makes sure that notifications find this client on revision 2026-07-28 (MCPE-NOTE-4).
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

// part gives up what join made; the last one ends the listen request.
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
