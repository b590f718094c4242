package mcpeclient

import (
	"cmp"
	"encoding/json"
	"slices"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// A bufferLimit limits the notifications that a route buffers. Notifications that exceed it are lost.
type bufferLimit struct {
	events int
	bytes  int64
}

// Limits for the notifications of a subscription and of an id that is not yet known.
var (
	waitingBound = bufferLimit{4096, 32 << 20}
	earlyBound   = bufferLimit{256, 1 << 20}
)

// maxUnknown is the maximum number of unknown ids for which notifications are buffered.
const maxUnknown = 64

// A notice contains the events of one notification.
type notice struct {
	events []mcpewire.Event
	batch  bool
	size   int64
}

// A route buffers the notices for one subscription.
type route struct {
	more chan struct{} // holds a token if there is anything to take

	mu      sync.Mutex
	notices []notice
	held    bufferLimit // size of notices
	lost    bool        // a notice did not fit
	end     error       // set when the route has ended
}

func newRoute() *route { return &route{more: make(chan struct{}, 1)} }

// add appends a notice if the route stays within its limit. Unless strict is set, an empty route accepts a notice of
// any size.
func (r *route) add(n notice, most bufferLimit, strict bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := bufferLimit{r.held.events + len(n.events), r.held.bytes + n.size}
	if (strict || len(r.notices) > 0) && (sum.events > most.events || sum.bytes > most.bytes) {
		r.lost = true
	} else {
		r.notices, r.held = append(r.notices, n), sum
	}
	r.wake()
}

// stop ends the route with err. Later calls do not replace the first error.
func (r *route) stop(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end == nil {
		r.end = err
	}
	r.wake()
}

func (r *route) ended() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end
}

func (r *route) wake() {
	select {
	case r.more <- struct{}{}:
	default:
	}
}

func (r *route) take() (notices []notice, lost bool, end error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	notices, lost = r.notices, r.lost
	r.notices, r.held, r.lost = nil, bufferLimit{}, false
	return notices, lost, r.end
}

// adopt moves notices that arrived before the id was known to r.
func (r *route) adopt(early *route) {
	notices, lost, end := early.take()
	for _, n := range notices {
		r.add(n, waitingBound, false)
	}
	r.mu.Lock()
	r.lost = r.lost || lost
	r.mu.Unlock()
	if end != nil {
		r.stop(end)
	}
}

// handleNotification handles an MCPE notification, which may be wrapped in a log message (MCPE-NOTE-1). It ignores all
// other notifications.
func (m *Client) handleNotification(method string, params json.RawMessage) {
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
	p.SubscriptionID = cmp.Or(p.SubscriptionID, p.ID)
	size := int64(len(params))
	switch {
	case p.SubscriptionID == "":
	case method == wire.MCPENotificationEvent && p.Event != nil:
		m.deliver(p.SubscriptionID, notice{events: []mcpewire.Event{*p.Event}, size: size})
	case method == wire.MCPENotificationBatch && len(p.Events) > 0:
		m.deliver(p.SubscriptionID, notice{events: p.Events, batch: true, size: size})
	case method == wire.MCPENotificationExpired:
		m.mu.Lock()
		defer m.mu.Unlock()
		r, _ := m.routeLocked(p.SubscriptionID)
		r.stop(ErrExpired)
	}
}

// deliver adds a notice to the route of its subscription, or buffers it if the id is unknown.
func (m *Client) deliver(id string, n notice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, known := m.routeLocked(id)
	most := waitingBound
	if !known {
		most = earlyBound
	}
	r.add(n, most, !known)
}

// routeLocked returns the route of a subscription. It creates a route for an unknown id, because the reply with that id
// may be in flight (MCPE-NOTE-3). The caller holds m.mu.
func (m *Client) routeLocked(id string) (r *route, known bool) {
	if c := m.carriers[id]; c != nil {
		return c.route, true
	}
	r = m.early[id]
	if r == nil {
		if len(m.order) >= maxUnknown {
			delete(m.early, m.order[0])
			m.order = m.order[1:]
		}
		r = newRoute()
		m.early[id] = r
		m.order = append(m.order, id)
	}
	return r, false
}

// attach routes the notices of a subscription to c, including notices that arrived earlier. It removes c's previous id.
// After Shutdown, it ends c's route.
func (m *Client) attach(id string, c *carrier) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.id != id {
		delete(m.carriers, c.id)
	}
	c.id = id
	m.carriers[id] = c
	if m.shut {
		c.route.stop(ErrUnsubscribed)
	}
	if early := m.early[id]; early != nil {
		delete(m.early, id)
		m.order = slices.DeleteFunc(m.order, func(o string) bool { return o == id })
		c.route.adopt(early)
	}
}

// detach removes the carrier of a subscription and reports whether the subscription had one.
func (m *Client) detach(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.carriers[id]
	delete(m.carriers, id)
	return known
}

// updateCarrier calls f with a subscription's carrier while m.mu is locked. It does nothing if the subscription has no
// carrier.
func (m *Client) updateCarrier(id string, f func(*carrier)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.carriers[id]; c != nil {
		f(c)
	}
}
