// Package mcpeclient subscribes by MCPE 2025-01-01: to servers of this module and to those of the
// original implementation.
//
// Start with [New] over a connected client of runtime/client. A generated Subscribe function, or
// client.Subscribe, receives by MCPE when it is given the option [Client.Via]; its iterator is the
// same. [Client.Receive] receives whatever a filter matches, as MCPE delivers it. [Client.Subscribe],
// [Client.List] and their siblings are the tools themselves. Programs that do not use this package do
// not link it.
//
//	m := mcpeclient.New(c)
//	sub, err := incidents.SubscribeIncidentCreated(ctx, c, incidents.IncidentCreatedArguments{}, m.Via(mcpeclient.Options{}))
//	for ev, err := range sub.Events() { … }
//
// On revision 2026-07-28 a server needs to know who the caller is; over stdio, where nobody is
// authenticated, connect with client.Options{ProtocolVersion: "2025-11-25"}.
package mcpeclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/carry"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// ErrNoMCPE is returned where the server has no tool events_subscribe. See MCPE-CAP-2.
var ErrNoMCPE = errors.New("mcpe client: server does not offer MCPE")

// An Error is a refusal of the server's. See MCPE-TOOL-4.
type Error struct {
	// Code is the code of MCPE, 0 where the server gave only a text.
	Code mcpewire.Code
	// Name is the code's name, or "rate_limited".
	Name string
	// Message is the server's sentence; untrusted.
	Message string
	// RetryAfter is when to try again; 0 when the server does not say.
	RetryAfter time.Duration
}

// Error gives the code, where there is one, and the message.
func (e *Error) Error() string {
	if e.Code == 0 {
		return "mcpe: " + e.Message
	}
	return fmt.Sprintf("mcpe: %s (%d): %s", e.Name, e.Code, e.Message)
}

// A Client subscribes by MCPE over the connection of another client. Its methods are safe for
// concurrent use.
type Client struct {
	c     carry.Client
	stops []func()

	mu       sync.Mutex
	carriers map[string]*carrier // by subscription id
	early    map[string]*route   // of ids that nobody knows yet
	order    []string            // of early, the oldest first
	listen   map[*mcp.ClientSession]*listening
	shut     bool // by Shutdown
}

// New makes a client over c. What it subscribes to is removed when c closes, or by
// [Client.Shutdown].
func New(c *client.Client) *Client {
	in := carry.Of(c)
	m := &Client{c: in, carriers: map[string]*carrier{}, early: map[string]*route{}, listen: map[*mcp.ClientSession]*listening{}}
	methods := []string{wire.MCPENotificationEvent, wire.MCPENotificationBatch, wire.MCPENotificationExpired, wire.NotificationMessage}
	m.stops = []func(){in.Observe(methods, m.observe), in.BeforeClose(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanTime)
		defer cancel()
		_ = m.cleanUp(ctx, false) // the iterations end with the client
	})}
	return m
}

// cleanTime bounds the removal of subscriptions when the client below closes.
const cleanTime = 3 * time.Second

// Shutdown removes what was subscribed to, as long as ctx allows, and stops listening (specification,
// section 12.2); iterations end with [ErrUnsubscribed]. The error says what the server was not told, or
// why it refused. The connection stays open. Shutdown may be called more than once.
func (m *Client) Shutdown(ctx context.Context) error {
	err := m.cleanUp(ctx, true)
	for _, stop := range m.stops {
		stop()
	}
	return err
}

// cleanUp unsubscribes from everything, and with shut ends the iterations.
func (m *Client) cleanUp(ctx context.Context, shut bool) error {
	m.mu.Lock()
	m.shut = m.shut || shut
	for _, c := range m.carriers {
		if shut {
			c.route.finish(ErrUnsubscribed)
		}
	}
	ids := slices.Collect(maps.Keys(m.carriers))
	clear(m.carriers)
	m.mu.Unlock()
	var failed []error
	for _, id := range ids {
		if err := m.Unsubscribe(ctx, id); err != nil {
			failed = append(failed, fmt.Errorf("subscription %s was not ended: %w", id, err))
		}
	}
	return errors.Join(failed...)
}

// Supported reports whether the server offers MCPE: whether any page of its tools has
// events_subscribe. See MCPE-CAP-2.
func (m *Client) Supported(ctx context.Context) (bool, error) {
	cs, _, err := m.c.Live(ctx)
	if err != nil {
		return false, err
	}
	return supported(ctx, cs)
}

func supported(ctx context.Context, cs *mcp.ClientSession) (bool, error) {
	if r := cs.InitializeResult(); r != nil && r.Capabilities != nil && r.Capabilities.Tools == nil {
		return false, nil
	}
	for tool, err := range cs.Tools(carry.Repeatable(ctx), nil) {
		if err != nil {
			return false, fmt.Errorf("mcpe client: listing tools: %w", err)
		}
		if tool.Name == wire.MCPEToolSubscribe {
			return true, nil
		}
	}
	return false, nil
}

// Capabilities returns the server's capability object, nil when it gives none: the tools decide
// whether there is MCPE, and this only what of it. See MCPE-CAP-2.
func (m *Client) Capabilities(ctx context.Context) (*mcpewire.Capabilities, error) {
	cs, _, err := m.c.Live(ctx)
	if err != nil {
		return nil, err
	}
	r := cs.InitializeResult()
	if r == nil || r.Capabilities == nil {
		return nil, nil
	}
	v, ok := r.Capabilities.Experimental[wire.MCPECapability]
	if !ok {
		return nil, nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	c := &mcpewire.Capabilities{}
	if err := json.Unmarshal(raw, c); err != nil {
		return nil, fmt.Errorf("mcpe client: capability object: %w", err)
	}
	return c, nil
}

// A Request is what to subscribe to; the zero value is everything, at once.
type Request struct {
	// Filter says which events: of any of the types, which may be wildcards such as github.*, with any
	// of the tags and any of the priorities.
	Filter mcpewire.Filter `json:"filter"`
	// Delivery is when events come; nil means at once.
	Delivery *mcpewire.Delivery `json:"delivery,omitempty"`
	// Handler is what the server does with them itself; nil for nothing.
	Handler *mcpewire.Handler `json:"handler,omitempty"`
	// ExpiresAt ends the subscription by itself; zero for never.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

// realtime is what an absent delivery means; it is written out for servers that want it.
var realtime = &mcpewire.Delivery{Channels: []string{wire.MCPERealtime}}

func (r Request) written() Request {
	if r.Delivery == nil {
		r.Delivery = realtime
	}
	return r
}

// Subscribe creates a subscription by the tool. What it is notified of goes to nobody: use it to set up
// handlers, or to subscribe for others, and [Client.Receive] or [Client.Via] to receive.
func (m *Client) Subscribe(ctx context.Context, r Request) (*mcpewire.Subscription, error) {
	cs, _, err := m.c.Live(ctx)
	if err != nil {
		return nil, err
	}
	return m.subscribe(ctx, cs, r)
}

func (m *Client) subscribe(ctx context.Context, cs *mcp.ClientSession, r Request) (*mcpewire.Subscription, error) {
	s := &mcpewire.Subscription{}
	if err := call(ctx, cs, wire.MCPEToolSubscribe, r.written(), s); err != nil {
		return nil, err
	}
	return s, same(s)
}

// same makes both names of the id the same, whichever the server has given (MCPE-TOOL-2).
func same(s *mcpewire.Subscription) error {
	if s.ID == "" {
		s.ID = s.SubscriptionID
	}
	s.SubscriptionID = s.ID
	if s.ID == "" {
		return errors.New("mcpe client: the server answered without a subscription id")
	}
	return nil
}

type named struct {
	SubscriptionID string `json:"subscriptionId"`
}

// Unsubscribe removes a subscription. One of [Client.Receive] or [Client.Via] ends with [ErrUnsubscribed].
func (m *Client) Unsubscribe(ctx context.Context, id string) error {
	if err := m.call(ctx, wire.MCPEToolUnsubscribe, named{id}, nil); err != nil {
		return err
	}
	m.edit(id, func(c *carrier) {
		delete(m.carriers, id)
		c.route.finish(ErrUnsubscribed)
	})
	return nil
}

// Pause stops the delivery of a subscription.
func (m *Client) Pause(ctx context.Context, id string) error {
	return m.pause(ctx, wire.MCPEToolPause, id, true)
}

// Resume goes on with it.
func (m *Client) Resume(ctx context.Context, id string) error {
	return m.pause(ctx, wire.MCPEToolResume, id, false)
}

func (m *Client) pause(ctx context.Context, tool, id string, paused bool) error {
	if err := m.call(ctx, tool, named{id}, nil); err != nil {
		return err
	}
	m.edit(id, func(c *carrier) { c.paused = paused })
	return nil
}

// List returns the subscriptions of this client that the server has, of one status or, when it is
// empty, of all. MCPE has no pages: servers bound how many a client may have.
func (m *Client) List(ctx context.Context, status string) ([]mcpewire.Subscription, error) {
	cs, _, err := m.c.Live(ctx)
	if err != nil {
		return nil, err
	}
	return list(ctx, cs, status)
}

func list(ctx context.Context, cs *mcp.ClientSession, status string) ([]mcpewire.Subscription, error) {
	args := map[string]string{}
	if status != "" {
		args["status"] = status
	}
	var raw json.RawMessage
	if err := call(ctx, cs, wire.MCPEToolList, args, &raw); err != nil {
		return nil, err
	}
	var r struct{ Subscriptions []mcpewire.Subscription }
	into := any(&r)
	if len(raw) > 0 && raw[0] == '[' {
		into = &r.Subscriptions // a server that gives the bare list
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return nil, fmt.Errorf("mcpe client: result of %s: %w", wire.MCPEToolList, err)
	}
	for i := range r.Subscriptions {
		_ = same(&r.Subscriptions[i])
	}
	return r.Subscriptions, nil
}

// A Change is what [Client.Update] changes. Zero members stay as they are. ExpiresAt and Handler are set by
// [events.Some] and cleared by [events.Null]:
//
//	m.Update(ctx, id, mcpeclient.Change{ExpiresAt: events.Null[time.Time]()}) // it never expires
//
// MCPE's own page of the tool names no handler, so that other servers may pass it over.
type Change struct {
	Filter    *mcpewire.Filter                  `json:"filter,omitempty"`
	Delivery  *mcpewire.Delivery                `json:"delivery,omitempty"`
	Handler   events.Optional[mcpewire.Handler] `json:"handler,omitzero"`
	ExpiresAt events.Optional[time.Time]        `json:"expiresAt,omitzero"`
}

// apply makes the change to what is asked for.
func (c Change) apply(r *Request) {
	if c.Filter != nil {
		r.Filter = *c.Filter
	}
	if c.Delivery != nil {
		r.Delivery = c.Delivery
	}
	if !c.Handler.IsZero() {
		r.Handler = nil
		if h, ok := c.Handler.Get(); ok {
			r.Handler = &h
		}
	}
	if !c.ExpiresAt.IsZero() {
		r.ExpiresAt, _ = c.ExpiresAt.Get()
	}
}

// Update changes a subscription. A given filter, delivery or handler replaces the old one whole. One of
// [Client.Receive] that has to be made anew later is made as changed.
func (m *Client) Update(ctx context.Context, id string, c Change) (*mcpewire.Subscription, error) {
	// Both forms: the document's, and the original implementation's.
	args := struct {
		named
		Updates Change `json:"updates"`
		Change
	}{named{id}, c, c}
	s := &mcpewire.Subscription{}
	if err := m.call(ctx, wire.MCPEToolUpdate, args, s); err != nil {
		return nil, err
	}
	m.edit(id, func(kept *carrier) { c.apply(&kept.request) })
	if s.ID == "" && s.SubscriptionID == "" {
		s.ID = id
	}
	return s, same(s)
}

func (m *Client) call(ctx context.Context, tool string, args, into any) error {
	cs, _, err := m.c.Live(ctx)
	if err != nil {
		return err
	}
	return call(ctx, cs, tool, args, into)
}

// call calls a tool and reads its result into into.
func call(ctx context.Context, cs *mcp.ClientSession, tool string, args, into any) error {
	if tool != wire.MCPEToolSubscribe { // a second one would be another subscription
		ctx = carry.Repeatable(ctx)
	}
	res, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		if refusal := refusalOf(err); refusal != nil {
			return refusal
		}
		return fmt.Errorf("mcpe client: %s: %w", tool, err)
	}
	raw, text := contentOf(res)
	if err := failure(res.IsError, raw, text); err != nil {
		return err
	}
	if into == nil {
		return nil
	}
	if raw == nil {
		return fmt.Errorf("mcpe client: %s answered without JSON: %.200q", tool, text)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("mcpe client: result of %s: %w", tool, err)
	}
	return nil
}

// contentOf returns the JSON of a result, structured or in its text, and the text.
func contentOf(res *mcp.CallToolResult) (raw json.RawMessage, text string) {
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			text = strings.TrimSpace(t.Text)
			break
		}
	}
	if res.StructuredContent != nil {
		if b, err := json.Marshal(res.StructuredContent); err == nil {
			return b, text
		}
	}
	if b := []byte(text); json.Valid(b) && bytes.ContainsAny(b[:1], "{[") {
		raw = b
	}
	return raw, text
}
