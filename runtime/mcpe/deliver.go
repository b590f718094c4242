package mcpe

import (
	"encoding/json"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// notifyLocked sends a notification about a subscription to its client: by the session that
// subscribed, by another one of the client, or on its listen requests, those first for one that was
// made without a session (MCPE-NOTE-4). False when nobody took it. a.mu is held.
func (a *Adapter) notifyLocked(s *subscription, method string, params any) bool {
	m := a.message(method, params)
	listeners := func() bool {
		return s.owner.principal != "" && a.es.SendToListeners(s.owner.principal, wire.MetaMCPE, m) > 0
	}
	took := false
	if s.session == "" {
		took = listeners()
	} else {
		took = a.isBound(s.owner, s.session) && a.es.Send(s.session, m)
	}
	for _, b := range s.owner.bound {
		if took {
			break
		}
		took = b.session != s.session && a.es.Send(b.session, m)
	}
	if !took && s.session != "" {
		took = listeners()
	}
	if took {
		a.tell.notify(method)
	}
	return took
}

func (a *Adapter) isBound(o *owner, session string) bool {
	for _, b := range o.bound {
		if b.session == session {
			return true
		}
	}
	return false
}

// message is a notification in the form that the options ask for (MCPE-NOTE-1).
func (a *Adapter) message(method string, params any) server.Message {
	raw := encode(params)
	if !a.o.Envelope {
		return server.Message{Method: method, Params: raw}
	}
	type inner struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	// The page's two members, and those without which it is no log message of MCP.
	return server.Message{Method: wire.NotificationMessage, Params: encode(struct {
		inner
		Level  string `json:"level"`
		Logger string `json:"logger"`
		Data   inner  `json:"data"`
	}{inner{method, raw}, "info", wire.MCPEName, inner{method, raw}})}
}

// realtimeLocked delivers an event at once or drops it: there is no second try (specification,
// section 8.1). a.mu is held.
func (a *Adapter) realtimeLocked(s *subscription, e *wire.MCPEEvent) {
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
	if !a.notifyLocked(s, wire.MCPENotificationEvent, &wire.MCPEEventParams{SubscriptionID: s.id, Event: *e}) {
		a.tell.drop(droppedDisconnected, 1)
	}
}

// notifyBatch sends a batch, as one notification or, without aggregation, one for each event. It
// returns how many events were taken and, when a rate keeps it from more, how long to wait.
func (a *Adapter) notifyBatch(s *subscription, batch []wire.MCPEEvent, aggregate bool) (sent int, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for sent < len(batch) {
		r := s.owner.limits.notify.Reserve()
		if d := r.Delay(); d > 0 {
			r.Cancel()
			return sent, d
		}
		if aggregate {
			if !a.notifyLocked(s, wire.MCPENotificationBatch, &wire.MCPEBatchParams{SubscriptionID: s.id, Events: batch}) {
				r.Cancel()
				return 0, a.slowLocked(s)
			}
			return len(batch), 0
		}
		if !a.notifyLocked(s, wire.MCPENotificationEvent, &wire.MCPEEventParams{SubscriptionID: s.id, Event: batch[sent]}) {
			r.Cancel()
			return sent, a.slowLocked(s)
		}
		sent++
	}
	return sent, 0
}

// slowLocked is how long to leave a peer alone that is there and takes nothing now; 0 when it is not
// there, since its coming back is told. a.mu is held.
func (a *Adapter) slowLocked(s *subscription) time.Duration {
	for _, b := range s.owner.bound {
		if a.es.Reachable(b.session) {
			return retryDelivery
		}
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
				if a.tellExpiredLocked(s); s.told {
					row := s.stored()
					a.backgroundLocked(func() {
						if err := a.save(a.ctx, o, []store.Schedule{row}, nil); err != nil {
							a.logError("storing the expiry", s, err)
						}
					})
				}
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
