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

// A receipt tells what became of a notification on all the ways that took it.
type receipt struct {
	mu      sync.Mutex
	took    int // -1 until the notification was offered to all
	reports int
	ok      bool
	known   chan struct{} // closed when ok is final
	closed  bool
}

func newReceipt() *receipt { return &receipt{took: -1, known: make(chan struct{})} }

// written is what a way reports: true when it has written and flushed the notification.
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

// wait reports whether one way has written the notification; false when none ever will, or ctx ends.
// Ways report within their write timeout, or when their peer is gone.
func (r *receipt) wait(ctx context.Context) bool {
	select {
	case <-r.known:
		return r.ok
	case <-ctx.Done():
		return false
	}
}

// notifyLocked sends a notification about a subscription to its client: by the session that
// subscribed, by another one of the client, or on its listen requests, those first for one that was
// made without a session (MCPE-NOTE-4). False when nobody took it, which means that it waits to be
// written: r, if not nil, tells more. a.mu is held.
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

// message is a notification in the form that the options ask for (MCPE-NOTE-1).
func (a *Adapter) message(method string, params any) port.Message {
	raw := encode(params)
	if !a.o.Envelope {
		return port.Message{Method: method, Params: raw}
	}
	type inner struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	// The page's two members, and those without which it is no log message of MCP.
	return port.Message{Method: wire.NotificationMessage, Params: encode(struct {
		inner
		Level  string `json:"level"`
		Logger string `json:"logger"`
		Data   inner  `json:"data"`
	}{inner{method, raw}, "info", wire.MCPEName, inner{method, raw}})}
}

// realtimeLocked delivers an event at once or drops it: there is no second try (specification,
// section 8.1). a.mu is held.
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

// notifyBatch sends a batch, as one notification or, without aggregation, one for each event. It
// returns the receipts of the events that were taken and, when a rate keeps it from more, how long to wait.
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

// slowLocked is how long to leave a peer alone that is there and takes nothing now; 0 when it is not
// there, since its coming back is told. a.mu is held.
func (a *Adapter) slowLocked(s *subscription) time.Duration {
	if slices.ContainsFunc(s.owner.bound, a.es.Reachable) {
		return retryDelivery
	}
	return 0
}

// reveal tells that the reply with the subscription's id is on its way: what happened since is
// delivered now.
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

// flushLocked delivers what waited for a client that is there again. a.mu is held.
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
