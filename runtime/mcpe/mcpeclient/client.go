// Package mcpeclient is a client of MCPE 2025-01-01. It supports the servers of this module and of the original
// implementation.
//
// Start with [New] and a connected client of runtime/client. A generated Subscribe function, or client.Subscribe,
// receives events over MCPE if you pass the option returned by [Client.Via]. The iterator remains the same.
// [Client.Receive] receives every event that matches a filter, in MCPE's format. Methods such as [Client.Subscribe] and
// [Client.List] call the tools directly.
//
//	m := mcpeclient.New(c)
//	sub, err := incidents.SubscribeIncidentCreated(ctx, c, incidents.IncidentCreatedArguments{}, m.Via(mcpeclient.Options{}))
//	for ev, err := range sub.Events() { … }
//
// On revision 2026-07-28, the server must be able to identify the caller. Over stdio, which has no authentication,
// connect with client.Options{ProtocolVersion: "2025-11-25"}.
package mcpeclient

import (
	"bytes"
	"cmp"
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

// ErrNoMCPE indicates that the server does not have the tool events_subscribe. See MCPE-CAP-2.
var ErrNoMCPE = errors.New("mcpe client: server does not offer MCPE")

// An Error is an error returned by the server. See MCPE-TOOL-4.
type Error struct {
	// Code is the MCPE error code, or 0 if the server sent only text.
	Code mcpewire.Code
	// Name is the name of the code, or "rate_limited".
	Name string
	// Message is the server's message. It is untrusted.
	Message string
	// RetryAfter is the time to wait before a retry, or 0 if the server did not send one.
	RetryAfter time.Duration
}

// Error returns the message, preceded by the code if it is known.
func (e *Error) Error() string {
	if e.Code == 0 {
		return "mcpe: " + e.Message
	}
	return fmt.Sprintf("mcpe: %s (%d): %s", e.Name, e.Code, e.Message)
}

// A Client manages MCPE subscriptions on the connection of another client. Its methods are safe for concurrent use.
type Client struct {
	c     carry.Client
	stops []func()

	mu       sync.Mutex
	carriers map[string]*carrier // by subscription id
	early    map[string]*route   // of unknown ids
	order    []string            // of early, oldest first
	listen   map[*mcp.ClientSession]*listenRequest
	shut     bool // Shutdown was called
}

// New returns a Client that uses the connection of c. Its subscriptions are removed when c is closed or
// [Client.Shutdown] is called.
func New(c *client.Client) *Client {
	in := carry.Of(c)
	m := &Client{c: in, carriers: map[string]*carrier{}, early: map[string]*route{}, listen: map[*mcp.ClientSession]*listenRequest{}}
	methods := []string{wire.MCPENotificationEvent, wire.MCPENotificationBatch, wire.MCPENotificationExpired, wire.NotificationMessage}
	m.stops = []func(){in.Observe(methods, m.handleNotification), in.BeforeClose(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanUpTimeout)
		defer cancel()
		_ = m.cleanUp(ctx, false) // the iterations end with the client
	})}
	return m
}

// cleanUpTimeout limits the time for removing subscriptions when the underlying client is closed.
const cleanUpTimeout = 3 * time.Second

// Shutdown removes all subscriptions and stops listening (specification, section 12.2). Iterations end with
// [ErrUnsubscribed]. The error lists the subscriptions that could not be removed before ctx ended, or that the server
// refused to remove. The connection stays open. Shutdown may be called more than once.
func (m *Client) Shutdown(ctx context.Context) error {
	err := m.cleanUp(ctx, true)
	for _, stop := range m.stops {
		stop()
	}
	return err
}

// cleanUp removes all subscriptions and, if shut is set, ends the iterations.
func (m *Client) cleanUp(ctx context.Context, shut bool) error {
	m.mu.Lock()
	m.shut = m.shut || shut
	for _, c := range m.carriers {
		if shut {
			c.route.stop(ErrUnsubscribed)
		}
	}
	ids := slices.Collect(maps.Keys(m.carriers))
	clear(m.carriers)
	m.mu.Unlock()
	var failed []error
	for _, id := range ids {
		if err := m.Unsubscribe(ctx, id); err != nil {
			failed = append(failed, fmt.Errorf("subscription %s was not removed: %w", id, err))
		}
	}
	return errors.Join(failed...)
}

// Supported reports whether the server offers MCPE, that is, whether it has the tool events_subscribe. See MCPE-CAP-2.
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

// Capabilities returns the server's capability object, or nil if the server does not have one. The object describes
// only the supported features. Use [Client.Supported] to check whether the server offers MCPE. See MCPE-CAP-2.
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

// A Request describes a subscription. The zero value subscribes to all events in real time.
type Request struct {
	// Filter selects the events. An event must match one of the types, one of the tags and one of the priorities. A
	// type can be a wildcard, such as github.*.
	Filter mcpewire.Filter `json:"filter"`
	// Delivery configures when the server delivers events; nil means in real time.
	Delivery *mcpewire.Delivery `json:"delivery,omitempty"`
	// Handler is an action that the server runs for events; nil means no action.
	Handler *mcpewire.Handler `json:"handler,omitempty"`
	// ExpiresAt is the time when the subscription expires; zero means never.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

// realtimeDelivery is the default delivery. Send it explicitly, because some servers require a delivery.
var realtimeDelivery = &mcpewire.Delivery{Channels: []string{wire.MCPERealtime}}

func (r Request) withDefaultDelivery() Request {
	if r.Delivery == nil {
		r.Delivery = realtimeDelivery
	}
	return r
}

// Subscribe creates a subscription by calling events_subscribe. It does not receive the notifications. Use it to set up
// handlers, or to subscribe on behalf of other clients. To receive events, use [Client.Receive] or [Client.Via].
func (m *Client) Subscribe(ctx context.Context, r Request) (*mcpewire.Subscription, error) {
	cs, _, err := m.c.Live(ctx)
	if err != nil {
		return nil, err
	}
	return m.subscribe(ctx, cs, r)
}

func (m *Client) subscribe(ctx context.Context, cs *mcp.ClientSession, r Request) (*mcpewire.Subscription, error) {
	s := &mcpewire.Subscription{}
	if err := call(ctx, cs, wire.MCPEToolSubscribe, r.withDefaultDelivery(), s); err != nil {
		return nil, err
	}
	return s, setBothIDs(s)
}

// setBothIDs sets ID and SubscriptionID to the same value, because servers can omit either of them (MCPE-TOOL-2).
func setBothIDs(s *mcpewire.Subscription) error {
	s.ID = cmp.Or(s.ID, s.SubscriptionID)
	s.SubscriptionID = s.ID
	if s.ID == "" {
		return errors.New("mcpe client: the server answered without a subscription id")
	}
	return nil
}

type named struct {
	SubscriptionID string `json:"subscriptionId"`
}

// Unsubscribe removes a subscription. If it was created by [Client.Receive] or [Client.Via], it ends with
// [ErrUnsubscribed].
func (m *Client) Unsubscribe(ctx context.Context, id string) error {
	if err := m.call(ctx, wire.MCPEToolUnsubscribe, named{id}, nil); err != nil {
		return err
	}
	m.updateCarrier(id, func(c *carrier) {
		delete(m.carriers, id)
		c.route.stop(ErrUnsubscribed)
	})
	return nil
}

// Pause pauses the delivery of a subscription.
func (m *Client) Pause(ctx context.Context, id string) error {
	return m.pause(ctx, wire.MCPEToolPause, id, true)
}

// Resume continues the delivery of a paused subscription.
func (m *Client) Resume(ctx context.Context, id string) error {
	return m.pause(ctx, wire.MCPEToolResume, id, false)
}

func (m *Client) pause(ctx context.Context, tool, id string, paused bool) error {
	if err := m.call(ctx, tool, named{id}, nil); err != nil {
		return err
	}
	m.updateCarrier(id, func(c *carrier) { c.paused = paused })
	return nil
}

// List returns this client's subscriptions on the server that have the given status, or all subscriptions if status is
// empty. MCPE does not paginate the list, because servers limit the number of subscriptions per client.
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
		into = &r.Subscriptions // a server that returns a bare list
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return nil, fmt.Errorf("mcpe client: result of %s: %w", wire.MCPEToolList, err)
	}
	for i := range r.Subscriptions {
		_ = setBothIDs(&r.Subscriptions[i])
	}
	return r.Subscriptions, nil
}

// A Change contains the changes to make with [Client.Update]. Zero fields are left unchanged. Set ExpiresAt and Handler
// with [events.Some], and clear them with [events.Null]:
//
//	m.Update(ctx, id, mcpeclient.Change{ExpiresAt: events.Null[time.Time]()}) // it never expires
//
// The MCPE specification does not mention Handler for this tool, so other servers may ignore it.
type Change struct {
	Filter    *mcpewire.Filter                  `json:"filter,omitempty"`
	Delivery  *mcpewire.Delivery                `json:"delivery,omitempty"`
	Handler   events.Optional[mcpewire.Handler] `json:"handler,omitzero"`
	ExpiresAt events.Optional[time.Time]        `json:"expiresAt,omitzero"`
}

// apply applies the change to a request.
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

// Update changes a subscription. A filter, delivery or handler in c completely replaces the old one. If a subscription
// created by [Client.Receive] is later recreated, the changes are preserved.
func (m *Client) Update(ctx context.Context, id string, c Change) (*mcpewire.Subscription, error) {
	// Send the arguments in two forms, the specified form and the form expected by the original implementation.
	args := struct {
		named
		Updates Change `json:"updates"`
		Change
	}{named{id}, c, c}
	s := &mcpewire.Subscription{}
	if err := m.call(ctx, wire.MCPEToolUpdate, args, s); err != nil {
		return nil, err
	}
	m.updateCarrier(id, func(kept *carrier) { c.apply(&kept.request) })
	if s.ID == "" && s.SubscriptionID == "" {
		s.ID = id
	}
	return s, setBothIDs(s)
}

func (m *Client) call(ctx context.Context, tool string, args, result any) error {
	cs, _, err := m.c.Live(ctx)
	if err != nil {
		return err
	}
	return call(ctx, cs, tool, args, result)
}

// call calls a tool and decodes the result into the value that result points to.
func call(ctx context.Context, cs *mcp.ClientSession, tool string, args, result any) error {
	if tool != wire.MCPEToolSubscribe { // a repeated call would create a second subscription
		ctx = carry.Repeatable(ctx)
	}
	res, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		if refusal := asRefusal(err); refusal != nil {
			return refusal
		}
		return fmt.Errorf("mcpe client: %s: %w", tool, err)
	}
	raw, text := contentOf(res)
	if err := resultError(res.IsError, raw, text); err != nil {
		return err
	}
	if result == nil {
		return nil
	}
	if raw == nil {
		return fmt.Errorf("mcpe client: %s answered without JSON: %.200q", tool, text)
	}
	if err := json.Unmarshal(raw, result); err != nil {
		return fmt.Errorf("mcpe client: result of %s: %w", tool, err)
	}
	return nil
}

// contentOf returns the JSON and the text of a result. The JSON is the structured content or, if that is absent, the
// text.
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
