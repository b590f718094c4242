package port

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/listeners"
)

// A Notification is a peer's notification that the SDK does not know.
type Notification = wire.Notification

// A Message is a JSON-RPC message outside the peer's calls.
type Message = wire.Message

// An Outlet is an open channel to one peer for messages outside calls. It is a session, or a listen request of the
// stateless era for an adapter's messages.
type Outlet struct {
	// Session is the key of the session, unique among the server's; "" for a listen request.
	Session string
	// Principal is the principal of the listen request.
	Principal string
	// Key is the member of _meta with which the listen request asked for messages; see [Hub.AddListenKey].
	Key string
	// Send queues a message. It never blocks. It returns false if the peer reads too slowly or is gone.
	Send func(Message) bool
}

// A Hub connects carriers and adapters without the server. It has the open outlets to peers, the peers' notifications
// that the SDK does not know, and the capabilities that adapters advertise.
type Hub struct {
	replies sync.Map // text → *reply
	held    held

	advertised advertised

	mu        sync.Mutex
	sessions  map[string]*Outlet
	listeners map[listenerKey][]*Outlet
	keys      []string
	serving   map[string]bool // by protocol

	opened   listeners.Set[func(Outlet)]
	notified listeners.Set[awaiting]
	ended    listeners.Set[func(session, principal string)]
}

type listenerKey struct{ principal, key string }

// An awaiting is an adapter's registration for notifications of a method.
type awaiting struct {
	method string
	tell   func(context.Context, Notification)
}

// Claim registers that an adapter serves a protocol on the server. It returns an error if one already does, since the
// first adapter's methods, tools and middleware stay.
func (h *Hub) Claim(protocol string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.serving[protocol] {
		return fmt.Errorf("this server already serves %s: use what the first call returned, or make another server", protocol)
	}
	if h.serving == nil {
		h.serving = map[string]bool{}
	}
	h.serving[protocol] = true
	return nil
}

// Release undoes the claim of an adapter that could not be created.
func (h *Hub) Release(protocol string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.serving, protocol)
}

// OpenOutlet registers an outlet until closed is called. It replaces an earlier outlet of the same session.
func (h *Hub) OpenOutlet(o Outlet) (closed func()) {
	at := listenerKey{o.Principal, o.Key}
	own := &o
	h.mu.Lock()
	if o.Session != "" {
		if h.sessions == nil {
			h.sessions = map[string]*Outlet{}
		}
		h.sessions[o.Session] = own
	} else {
		if h.listeners == nil {
			h.listeners = map[listenerKey][]*Outlet{}
		}
		h.listeners[at] = append(h.listeners[at], own)
	}
	h.mu.Unlock()
	for f := range h.opened.All() {
		f(o)
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if o.Session != "" {
			if h.sessions[o.Session] == own {
				delete(h.sessions, o.Session)
			}
			return
		}
		rest := slices.DeleteFunc(slices.Clone(h.listeners[at]), func(l *Outlet) bool { return l == own })
		if len(rest) == 0 {
			delete(h.listeners, at)
		} else {
			h.listeners[at] = rest
		}
	}
}

// OnOutlet calls f for every outlet that is opened, until stop is called. f must not block.
func (h *Hub) OnOutlet(f func(Outlet)) (stop func()) { return h.opened.Add(f) }

// AddListenKey lets clients of the stateless era request an adapter's messages. A subscriptions/listen request with
// key: true in its _meta is kept open as an outlet (MCPE-NOTE-4).
func (h *Hub) AddListenKey(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.keys, key) {
		h.keys = append(slices.Clone(h.keys), key)
	}
}

// ListenKeys returns the keys given to AddListenKey.
func (h *Hub) ListenKeys() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.keys
}

// Reachable reports whether the session has an open outlet.
func (h *Hub) Reachable(session string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions[session] != nil
}

// Send sends a message to a session. It returns false if the session has no open outlet or its queue is full.
func (h *Hub) Send(session string, m Message) bool {
	h.mu.Lock()
	o := h.sessions[session]
	h.mu.Unlock()
	return o != nil && o.Send(m)
}

// SendToListeners sends a message to the principal's listen requests with key, and returns how many accepted it.
func (h *Hub) SendToListeners(principal, key string, m Message) (took int) {
	h.mu.Lock()
	all := h.listeners[listenerKey{principal, key}]
	h.mu.Unlock()
	for _, o := range all {
		if o.Send(m) {
			took++
		}
	}
	return took
}

// OnNotification calls f for every notification of the method, until stop is called. f must not block. ctx ends with
// the peer's connection or request.
func (h *Hub) OnNotification(method string, f func(ctx context.Context, n Notification)) (stop func()) {
	return h.notified.Add(awaiting{method, f})
}

// Awaits reports whether an adapter wants notifications of the method.
func (h *Hub) Awaits(method string) bool {
	for a := range h.notified.All() {
		if a.method == method {
			return true
		}
	}
	return false
}

// Notified passes a notification to the adapters that registered for it.
func (h *Hub) Notified(ctx context.Context, n Notification) {
	for a := range h.notified.All() {
		if a.method == n.Method {
			a.tell(ctx, n)
		}
	}
}

// OnSessionEnd calls f when a client ends its session, before the session waits for its calls, until stop is called. f
// must check that the principal owns the session, and must not block.
func (h *Hub) OnSessionEnd(f func(session, principal string)) (stop func()) { return h.ended.Add(f) }

// UntilEnd calls end when the principal ends the session, until leave is called.
func (h *Hub) UntilEnd(session, principal string, end context.CancelFunc) (leave func()) {
	return h.held.add(sessionOf{session, principal}, end)
}

// EndSession notifies adapters that the principal ends a session, and cancels the requests held open in it. The carrier
// calls ended when the session has ended or continues; until then new requests in it are cancelled as well.
func (h *Hub) EndSession(session, principal string) (ended func()) {
	ended = h.held.end(sessionOf{session, principal})
	for f := range h.ended.All() {
		f(session, principal)
	}
	return ended
}
