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

// A receipt tracks whether at least one connection that accepted a notification has written it.
type receipt struct {
	mu      sync.Mutex
	took    int // connections that accepted; -1 until all were offered the notification
	reports int
	ok      bool
	known   chan struct{} // closed when ok is final
	closed  bool
}

func newReceipt() *receipt { return &receipt{took: -1, known: make(chan struct{})} }

// recordResult records whether a connection has written and flushed the notification.
func (r *receipt) recordResult(ok bool) {
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

// wait blocks until a connection has written the notification. It returns false if all connections fail or ctx ends.
// Connections report their results within their write timeout, or when their peer disconnects.
func (r *receipt) wait(ctx context.Context) bool {
	select {
	case <-r.known:
		return r.ok
	case <-ctx.Done():
		return false
	}
}

// notifyLocked sends a notification about a subscription to its client. It tries the session that subscribed, then the
// client's other sessions, then its listen requests. If the subscription was created without a session, it tries the
// listen requests first (MCPE-NOTE-4). notifyLocked reports whether a connection accepted the notification for writing.
// If r is not nil, it records the result of the write. The caller holds a.mu.
func (a *Adapter) notifyLocked(s *subscription, method string, params any, r *receipt) bool {
	m := a.message(method, params)
	if r != nil {
		m.Written = r.recordResult
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

// message returns a notification. If Options.Envelope is set, the notification is wrapped in a log message
// (MCPE-NOTE-1).
func (a *Adapter) message(method string, params any) port.Message {
	raw := encode(params)
	if !a.o.Envelope {
		return port.Message{Method: method, Params: raw}
	}
	type inner struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	// Send the two members that the specification defines and the required members of an MCP log message.
	return port.Message{Method: wire.NotificationMessage, Params: encode(struct {
		inner
		Level  string `json:"level"`
		Logger string `json:"logger"`
		Data   inner  `json:"data"`
	}{inner{method, raw}, "info", wire.MCPEName, inner{method, raw}})}
}

// sendRealtimeLocked delivers an event immediately or drops it without a retry (specification, section 8.1). It buffers
// events until the client knows the subscription's id. The caller holds a.mu.
func (a *Adapter) sendRealtimeLocked(s *subscription, e *mcpewire.Event) {
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

// notifyBatch sends a batch as one notification if aggregate is set, or as one notification per event. It returns the
// receipts of the accepted events. If a rate limit or a slow peer prevents delivery, it also returns the time to wait
// before a retry.
func (a *Adapter) notifyBatch(s *subscription, batch []mcpewire.Event, aggregate bool) (sent []*receipt, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.status != wire.MCPEActive || slices.ContainsFunc(batch, func(e mcpewire.Event) bool { return slices.Contains(s.withdrawn, e.Type) }) {
		return nil, retryDelivery // it changed after the hooks were asked
	}
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
				return nil, a.retryDelayLocked(s)
			}
			return slices.Repeat([]*receipt{to}, len(batch)), 0
		}
		if !a.notifyLocked(s, wire.MCPENotificationEvent, &mcpewire.EventParams{SubscriptionID: s.id, Event: batch[i]}, to) {
			r.Cancel()
			return sent, a.retryDelayLocked(s)
		}
		sent = append(sent, to)
	}
	return sent, 0
}

// retryDelayLocked returns the time to wait before a retry if a connected peer did not accept a notification. It
// returns 0 for a disconnected peer, because a reconnection triggers the delivery. The caller holds a.mu.
func (a *Adapter) retryDelayLocked(s *subscription) time.Duration {
	if slices.ContainsFunc(s.owner.bound, a.es.Reachable) {
		return retryDelivery
	}
	return 0
}

// reveal records that the client has been sent the subscription's id, and delivers the buffered events.
func (a *Adapter) reveal(s *subscription) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.gone || s.revealed {
		return
	}
	s.revealed = true
	for i := range s.early {
		a.sendRealtimeLocked(s, &s.early[i])
	}
	s.early = nil
	if s.status == wire.MCPEExpired {
		a.notifyExpiredLocked(s) // it ended meanwhile
	}
	a.armLocked(s)
}

// flushLocked delivers the pending runs and expiry notifications of a client that has reconnected. The caller holds
// a.mu.
func (a *Adapter) flushLocked(o *owner) {
	for _, s := range o.subs {
		if s.status == wire.MCPEExpired {
			if !s.told {
				a.notifyExpiredLocked(s)
			}
			continue
		}
		for _, j := range s.jobs {
			if j.due && j.retry.IsZero() {
				a.runInBackgroundLocked(func() { a.deliver(s, j) })
			}
		}
	}
}
