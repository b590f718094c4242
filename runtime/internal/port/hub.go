package port

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/listeners"
)

// A Notification is one that a peer sent and that the SDK knows nothing of.
type Notification = wire.Notification

// A Message is a JSON-RPC message that belongs to no call of the peer's.
type Message = wire.Message

// An Outlet is an open way to one peer for messages that belong to no call: a session, or a listen
// request of the stateless era that asked for an adapter's messages.
type Outlet struct {
	// Session is the key of the session, unique among the server's; "" for a listen request.
	Session string
	// Principal is whose the listen request is.
	Principal string
	// Key is the member of _meta by which the listen request asked; see [Hub.AddListenKey].
	Key string
	// Send queues a message. It never blocks; false when the peer does not take messages as fast as
	// they come, or is gone.
	Send func(Message) bool
}

// A Hub is what carriers and adapters tell each other, past the server: open ways to peers, what
// peers send that the SDK knows nothing of, and what adapters advertise.
type Hub struct {
	tickets sync.Map // text → *Ticket
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

// An awaiting is who wants notifications of a method.
type awaiting struct {
	method string
	tell   func(context.Context, Notification)
}

// Claim notes that an adapter serves a protocol on the server; an error if one does already, since its methods, tools and
// middleware stay.
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

// Release takes the claim of an adapter back that could not be made.
func (h *Hub) Release(protocol string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.serving, protocol)
}

// OpenOutlet makes an outlet known until closed is called. A later one of the same session takes
// the place of an earlier one.
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

// OnOutlet calls f for every outlet that opens, until stop is called. f must not block.
func (h *Hub) OnOutlet(f func(Outlet)) (stop func()) { return h.opened.Add(f) }

// AddListenKey lets clients of the stateless era ask for an adapter's messages: subscriptions/listen
// with key: true in its _meta is kept open as an outlet (MCPE-NOTE-4).
func (h *Hub) AddListenKey(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.keys, key) {
		h.keys = append(slices.Clone(h.keys), key)
	}
}

// ListenKeys lists what was given to AddListenKey.
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

// Send sends a message to a session; false when it has no open outlet or takes nothing now.
func (h *Hub) Send(session string, m Message) bool {
	h.mu.Lock()
	o := h.sessions[session]
	h.mu.Unlock()
	return o != nil && o.Send(m)
}

// SendToListeners sends a message to the principal's listen requests that asked by key, and returns
// how many took it.
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

// OnNotification has f called for every notification of the method, until stop is called. f must
// not block; ctx ends when the peer's connection or request does.
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

// Notified hands a notification to the adapters that want it.
func (h *Hub) Notified(ctx context.Context, n Notification) {
	for a := range h.notified.All() {
		if a.method == n.Method {
			a.tell(ctx, n)
		}
	}
}

// OnSessionEnd calls f when a client asks for the end of its session, before the session waits for
// its calls, until stop is called. Whether the principal owns the session is f's to compare; f must
// not block.
func (h *Hub) OnSessionEnd(f func(session, principal string)) (stop func()) { return h.ended.Add(f) }

// EndSession tells adapters that the principal asked for the end of a session, and ends what is held open in it. The
// carrier calls ended when the session is over, or goes on: until then nothing begins to be held open in it.
func (h *Hub) EndSession(session, principal string) (ended func()) {
	ended = h.held.end(sessionOf{session, principal})
	for f := range h.ended.All() {
		f(session, principal)
	}
	return ended
}
