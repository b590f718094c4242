package mcpeclient

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// Bounds of what waits for a subscription, and of what came for ids that nobody knows yet.
const (
	maxWaiting = 4096
	maxUnknown = 64
	maxEarly   = 256
)

// A route holds what came for one subscription.
type route struct {
	limit int
	more  chan struct{} // a token when there is something

	mu      sync.Mutex
	events  []mcpewire.Event
	lost    bool // there was no room
	expired bool
}

func newRoute(limit int) *route { return &route{limit: limit, more: make(chan struct{}, 1)} }

func (r *route) put(events []mcpewire.Event, expired bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		if len(r.events) >= r.limit {
			r.lost = true
			break
		}
		r.events = append(r.events, e)
	}
	r.expired = r.expired || expired
	select {
	case r.more <- struct{}{}:
	default:
	}
}

func (r *route) take() (events []mcpewire.Event, lost, expired bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events, lost = r.events, r.lost
	r.events, r.lost = nil, false
	return events, lost, r.expired
}

// observe takes a notification, bare or in the envelope of a log message (MCPE-NOTE-1). Anything
// else is somebody else's.
func (m *Client) observe(method string, params json.RawMessage) {
	if method == wire.NotificationMessage {
		type inner struct {
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		var envelope struct {
			inner
			Data json.RawMessage `json:"data"`
		}
		if wire.Decode(params, &envelope) != nil {
			return
		}
		if envelope.Method == "" && wire.Decode(envelope.Data, &envelope.inner) != nil {
			return
		}
		method, params = envelope.Method, envelope.Params
	}
	var p struct {
		SubscriptionID string           `json:"subscriptionId"`
		ID             string           `json:"id"`
		Event          *mcpewire.Event  `json:"event"`
		Events         []mcpewire.Event `json:"events"`
	}
	if wire.Decode(params, &p) != nil {
		return
	}
	if p.SubscriptionID == "" {
		p.SubscriptionID = p.ID
	}
	switch {
	case p.SubscriptionID == "":
	case method == wire.MCPENotificationEvent && p.Event != nil:
		m.route(p.SubscriptionID).put([]mcpewire.Event{*p.Event}, false)
	case method == wire.MCPENotificationBatch:
		m.route(p.SubscriptionID).put(p.Events, false)
	case method == wire.MCPENotificationExpired:
		m.route(p.SubscriptionID).put(nil, true)
	}
}

// route finds who waits for a subscription, or keeps what comes for it a while: the reply that tells
// its id may be on its way (MCPE-NOTE-3).
func (m *Client) route(id string) *route {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.routes[id]; r != nil {
		return r
	}
	r := m.early[id]
	if r == nil {
		if len(m.order) >= maxUnknown {
			delete(m.early, m.order[0])
			m.order = m.order[1:]
		}
		r = newRoute(maxEarly)
		m.early[id] = r
		m.order = append(m.order, id)
	}
	return r
}

// open makes what comes for a subscription go to one taker, with what has come before.
func (m *Client) open(id string) *route {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.routes[id]
	if r == nil {
		if r = m.early[id]; r == nil {
			r = newRoute(maxWaiting)
		}
		r.mu.Lock()
		r.limit = maxWaiting
		r.mu.Unlock()
		m.routes[id] = r
		delete(m.early, id)
		m.order = slices.DeleteFunc(m.order, func(o string) bool { return o == id })
	}
	return r
}

// close forgets a subscription; it reports whether it was known.
func (m *Client) close(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.routes[id] != nil
	delete(m.routes, id)
	return known
}
