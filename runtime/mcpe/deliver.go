package mcpe

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// A receipt collects the outcome of a notification on all the connections that accepted it.
type receipt struct {
	mu      sync.Mutex
	took    int // connections that accepted; -1 until all were offered the notification
	reports int
	ok      bool
	known   chan struct{} // closed when ok is final
	closed  bool
}

func newReceipt() *receipt { return &receipt{took: -1, known: make(chan struct{})} }

// written records a connection's report: ok if it has written and flushed the notification.
func (r *receipt) written(ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports++
	r.ok = r.ok || ok
	r.check()
}

func (r *receipt) offered(took int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took = took
	r.check()
}

func (r *receipt) check() {
	if !r.closed && (r.ok || r.took >= 0 && r.reports >= r.took) {
		r.closed = true
		close(r.known)
	}
}

// wait reports whether a connection has written the notification. It returns false once all have failed, or
// when ctx ends. Connections report within their write timeout, or when their peer disconnects.
func (r *receipt) wait(ctx context.Context) bool {
	select {
	case <-r.known:
		return r.ok
	case <-ctx.Done():
		return false
	}
}

// notifyLocked sends a notification about a subscription to its client. It tries the session that
// subscribed, the client's other sessions, and its listen requests; for a subscription made without a
// session, the listen requests come first (MCPE-NOTE-4). It reports whether a connection accepted the
// notification for writing; r, if not nil, receives the outcome of the write. a.mu is held.
func (a *Adapter) notifyLocked(s *subscription, method string, params any, r *receipt) bool {
	m := a.message(method, params)
	if r != nil {
		m.Written = r.written
	}
	listeners := func() int {
		if s.owner.principal == "" {
			return 0
		}
		return a.es.SendToListeners(s.owner.principal, wire.MetaMCPE, m)
	}
	send := func(session string) int {
		if a.es.Send(session, m) {
			return 1
		}
		return 0
	}
	took := 0
	if s.session == "" {
		took = listeners()
	} else if slices.Contains(s.owner.bound, s.session) {
		took = send(s.session)
	}
	for _, session := range s.owner.bound {
		if took > 0 {
			break
		}
		if session != s.session {
			took = send(session)
		}
	}
	if took == 0 && s.session != "" {
		took = listeners()
	}
	if took > 0 {
		a.tell.notify(method)
	}
	if r != nil {
		r.offered(took)
	}
	return took > 0
}

// message returns a notification, wrapped in a log message if Options.Envelope is set (MCPE-NOTE-1).
func (a *Adapter) message(method string, params any) port.Message {
	raw := encode(params)
	if !a.o.Envelope {
		return port.Message{Method: method, Params: raw}
	}
	type inner struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	// The two members of the specification, and the required members of an MCP log message.
	return port.Message{Method: wire.NotificationMessage, Params: encode(struct {
		inner
		Level  string `json:"level"`
		Logger string `json:"logger"`
		Data   inner  `json:"data"`
	}{inner{method, raw}, "info", wire.MCPEName, inner{method, raw}})}
}

// realtimeLocked delivers an event immediately or drops it, without a retry (specification, section 8.1).
// Until the client knows the subscription's id, it buffers events. a.mu is held.
func (a *Adapter) realtimeLocked(s *subscription, e *mcpewire.Event) {
	if !s.revealed {
		if len(s.early) < maxEarlyEvents {
			s.early = append(s.early, *e)
		} else {
			a.tell.drop(droppedQueue, 1)
		}
		return
	}
	if !s.owner.limits.notify.Allow() {
		a.tell.drop(droppedRate, 1)
		return
	}
	if !a.notifyLocked(s, wire.MCPENotificationEvent, &mcpewire.EventParams{SubscriptionID: s.id, Event: *e}, nil) {
		a.tell.drop(droppedDisconnected, 1)
	}
}

// notifyBatch sends a batch as one notification or, without aggregation, as one for each event. It returns
// the receipts of the accepted events and, if a rate limit or a slow peer stopped it, the time to wait.
func (a *Adapter) notifyBatch(s *subscription, batch []mcpewire.Event, aggregate bool) (sent []*receipt, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range batch {
		r := s.owner.limits.notify.Reserve()
		if d := r.Delay(); d > 0 {
			r.Cancel()
			return sent, d
		}
		to := newReceipt()
		if aggregate {
			if !a.notifyLocked(s, wire.MCPENotificationBatch, &mcpewire.BatchParams{SubscriptionID: s.id, Events: batch}, to) {
				r.Cancel()
				return nil, a.slowLocked(s)
			}
			return slices.Repeat([]*receipt{to}, len(batch)), 0
		}
		if !a.notifyLocked(s, wire.MCPENotificationEvent, &mcpewire.EventParams{SubscriptionID: s.id, Event: batch[i]}, to) {
			r.Cancel()
			return sent, a.slowLocked(s)
		}
		sent = append(sent, to)
	}
	return sent, 0
}

// slowLocked returns the time to wait before a retry for a connected peer that accepts nothing now. It
// returns 0 for a disconnected peer, because its return triggers a delivery. a.mu is held.
func (a *Adapter) slowLocked(s *subscription) time.Duration {
	if slices.ContainsFunc(s.owner.bound, a.es.Reachable) {
		return retryDelivery
	}
	return 0
}

// reveal records that the reply with the subscription's id was sent, and delivers the buffered events.
func (a *Adapter) reveal(s *subscription) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.gone || s.revealed {
		return
	}
	s.revealed = true
	for i := range s.early {
		a.realtimeLocked(s, &s.early[i])
	}
	s.early = nil
	a.armLocked(s)
}

// flushLocked delivers the pending runs and expiries of a client that has returned. a.mu is held.
func (a *Adapter) flushLocked(o *owner) {
	for _, s := range o.subs {
		if s.status == wire.MCPEExpired {
			if !s.told {
				a.tellExpiredLocked(s)
			}
			continue
		}
		for _, j := range s.jobs {
			if j.due && j.retry.IsZero() {
				a.backgroundLocked(func() { a.deliver(s, j) })
			}
		}
	}
}
