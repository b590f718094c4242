package port

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/listeners"
)

// A Notification is a notification from a peer with a method that the SDK does not support.
type Notification = wire.Notification

// A Message is a JSON-RPC message that is not part of a call by the peer.
type Message = wire.Message

// An Outlet is an open channel for sending messages to a peer outside of calls. It is either a session or a
// subscriptions/listen request of a stateless client.
type Outlet struct {
	// Session is the key of the session, which is unique within the server. It is "" for a listen request.
	Session string
	// Principal is the principal of the listen request.
	Principal string
	// Key is the _meta key with which the listen request requested messages; see [Hub.AddListenKey].
	Key string
	// Send queues a message. It never blocks. It returns false if the peer reads too slowly or has disconnected.
	Send func(Message) bool
}

// A Hub connects carriers and adapters directly, without the server. It manages the open outlets to peers,
// notifications that the SDK does not support, and the capabilities that adapters advertise.
type Hub struct {
	replies sync.Map // text → *reply
	serving sync.Map // protocols
	held    heldCalls

	advertised advertisement

	mu        sync.Mutex
	sessions  map[string]*Outlet
	listeners map[listenerKey][]*Outlet
	keys      []string

	opened   listeners.Set[func(Outlet)]
	notified listeners.Set[registration]
	ended    listeners.Set[func(session, principal string)]
}

type listenerKey struct{ principal, key string }

// A registration is an adapter's callback for notifications with a given method.
type registration struct {
	method string
	tell   func(context.Context, Notification)
}

// Claim registers that an adapter serves a protocol on the server. It returns an error if the protocol has already been
// claimed, because the methods, tools and middleware of the first adapter cannot be removed.
func (h *Hub) Claim(protocol string) error {
	if _, served := h.serving.LoadOrStore(protocol, true); served {
		return fmt.Errorf("this server already serves %s: use what the first call returned, or make another server", protocol)
	}
	return nil
}

// Release removes the claim of an adapter that could not be created.
func (h *Hub) Release(protocol string) { h.serving.Delete(protocol) }

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

// OnOutlet calls f for every new outlet until stop is called. f must not block.
func (h *Hub) OnOutlet(f func(Outlet)) (stop func()) { return h.opened.Add(f) }

// AddListenKey allows stateless clients to request an adapter's messages. A subscriptions/listen request with key: true
// in its _meta stays open as an outlet (MCPE-NOTE-4).
func (h *Hub) AddListenKey(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.keys, key) {
		h.keys = append(slices.Clone(h.keys), key)
	}
}

// ListenKeys returns the keys passed to AddListenKey.
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

// SendToListeners sends a message to the principal's listen requests with the given key. It returns the number of
// requests that accepted the message.
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

// OnNotification calls f for every notification with the given method until stop is called. f must not block. Its ctx
// is canceled when the peer's connection or request ends.
func (h *Hub) OnNotification(method string, f func(ctx context.Context, n Notification)) (stop func()) {
	return h.notified.Add(registration{method, f})
}

// Awaits reports whether an adapter has registered for notifications with the given method.
func (h *Hub) Awaits(method string) bool {
	for a := range h.notified.All() {
		if a.method == method {
			return true
		}
	}
	return false
}

// Notified passes a notification to the adapters that have registered for its method.
func (h *Hub) Notified(ctx context.Context, n Notification) {
	for a := range h.notified.All() {
		if a.method == n.Method {
			a.tell(ctx, n)
		}
	}
}

// OnSessionEnd calls f whenever a client ends a session, until stop is called. f is called before the session waits for
// pending calls. It must verify that the principal owns the session and must not block.
func (h *Hub) OnSessionEnd(f func(session, principal string)) (stop func()) { return h.ended.Add(f) }

// UntilEnd calls end if the principal ends the session before leave is called.
func (h *Hub) UntilEnd(session, principal string, end context.CancelFunc) (leave func()) {
	return h.held.add(ownedSession{session, principal}, end)
}

// EndSession notifies adapters that the principal is ending a session and cancels the session's open requests. The
// carrier must call ended once the session has ended or ending it has failed. Until then, new requests in the session
// are also canceled.
func (h *Hub) EndSession(session, principal string) (ended func()) {
	ended = h.held.end(ownedSession{session, principal})
	for f := range h.ended.All() {
		f(session, principal)
	}
	return ended
}
