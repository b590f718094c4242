package server

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

func newTicket() string { return rand.Text() }

// A Message is a JSON-RPC message that belongs to no call of the peer's. For adapters and carriers.
type Message = wire.Message

// An Outlet is an open way to one peer for messages that belong to no call: a session, or a listen
// request of the stateless era that asked for an adapter's messages. For carriers.
type Outlet struct {
	// Session is the key of the session, unique among the server's; "" for a listen request.
	Session string
	// Principal is whose the listen request is.
	Principal string
	// Key is the member of _meta by which the listen request asked; see [Server.AddListenKey].
	Key string
	// Send queues a message. It never blocks; false when the peer does not take messages as fast as
	// they come, or is gone.
	Send func(Message) bool
}

// hub knows the open outlets.
type hub struct {
	mu        sync.Mutex
	sessions  map[string]*Outlet
	listeners map[listenerKey][]*Outlet
	keys      []string
	opened    map[int]func(Outlet)
	notified  map[string]map[int]func(context.Context, Notification)
	ended     map[int]func(session, principal string)
	lastID    int
}

type listenerKey struct{ principal, key string }

// OpenOutlet makes an outlet known until closed is called. A later one of the same session takes
// the place of an earlier one. For carriers.
func (s *Server) OpenOutlet(o Outlet) (closed func()) {
	h := &s.adapters.hub
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
	var tell []func(Outlet)
	for _, f := range h.opened {
		tell = append(tell, f)
	}
	h.mu.Unlock()
	for _, f := range tell {
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

// OnOutlet calls f for every outlet that opens, until stop is called. f must not block. For
// adapters.
func (s *Server) OnOutlet(f func(Outlet)) (stop func()) {
	h := &s.adapters.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.opened == nil {
		h.opened = map[int]func(Outlet){}
	}
	h.lastID++
	id := h.lastID
	h.opened[id] = f
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.opened, id)
	}
}

// AddListenKey lets clients of the stateless era ask for an adapter's messages: subscriptions/listen
// with key: true in its _meta is kept open as an outlet (MCPE-NOTE-4). For adapters.
func (s *Server) AddListenKey(key string) {
	h := &s.adapters.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.keys, key) {
		h.keys = append(slices.Clone(h.keys), key)
	}
}

// ListenKeys lists what was given to AddListenKey. For carriers.
func (s *Server) ListenKeys() []string {
	h := &s.adapters.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.keys
}

// Reachable reports whether the session has an open outlet. For adapters.
func (s *Server) Reachable(session string) bool {
	h := &s.adapters.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions[session] != nil
}

// Send sends a message to a session; false when it has no open outlet or takes nothing now. For
// adapters.
func (s *Server) Send(session string, m Message) bool {
	h := &s.adapters.hub
	h.mu.Lock()
	o := h.sessions[session]
	h.mu.Unlock()
	return o != nil && o.Send(m)
}

// SendToListeners sends a message to the principal's listen requests that asked by key, and returns
// how many took it. For adapters.
func (s *Server) SendToListeners(principal, key string, m Message) (took int) {
	h := &s.adapters.hub
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
