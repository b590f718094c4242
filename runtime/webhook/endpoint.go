package webhook

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"
)

// A Handler processes one message. Return nil once the message is queued or stored; an error makes
// the server retry. The context ends when the server gives up, about five seconds after it sent the
// request. A Handler receives a message a second time after an error, and possibly after a long
// time or a restart; recognize duplicates by eventId (CLI-2).
type Handler func(ctx context.Context, d Delivery) error

// An Endpoint is the callback of one subscription: an unguessable path and its secret. It is safe
// for concurrent use. Close it with [Endpoint.Close].
type Endpoint struct {
	receiver *Receiver
	path     string
	seen     *seen

	mu           sync.RWMutex
	ring         Ring
	subscription string
	handle       Handler // nil until Activate
	refusals     Refusals
}

// Refusals describe the messages that an endpoint refused. They contain nothing from the messages.
type Refusals struct {
	// ByStatus counts the refusals by HTTP status; nil before the first one.
	ByStatus map[int]int64
	// Last is the status and the reason of the latest refusal, or nil.
	Last error
	// Standing reports that no message has been accepted since the latest refusal.
	Standing bool
}

// Refused returns the refusals since the endpoint was opened. See CLI-5.
func (e *Endpoint) Refused() Refusals {
	e.mu.RLock()
	defer e.mu.RUnlock()
	r := e.refusals
	r.ByStatus = maps.Clone(r.ByStatus)
	return r
}

func (e *Endpoint) refused(r *refusal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refusals.ByStatus == nil {
		e.refusals.ByStatus = map[int]int64{}
	}
	e.refusals.ByStatus[r.status]++
	e.refusals.Last, e.refusals.Standing = fmt.Errorf("a delivery was refused with %d: %w", r.status, r), true
}

// took records that a message was accepted.
func (e *Endpoint) took() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refusals.Standing = false
}

// Path returns the path of the callback URL, to be appended to the author's public origin.
func (e *Endpoint) Path() string { return e.path }

// Secret returns the newest secret, which events/subscribe sends.
func (e *Endpoint) Secret() Secret {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.ring[0].Secret
}

// Ring returns the accepted secrets. Store them for [EndpointOptions] after a restart.
func (e *Endpoint) Ring() Ring {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return append(Ring(nil), e.ring...)
}

// Rotate makes s the newest secret and accepts the replaced one until grace has passed. Call it
// before the refresh that sends s to the server, because the server then signs with s. If that
// refresh fails, rotate back to keep the old secret permanently (SUB-5).
func (e *Endpoint) Rotate(s Secret, grace time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ring = e.ring.Rotate(s, time.Now(), grace)
}

// Activate passes the messages of the subscription with this id to handle. The id comes from the
// result of events/subscribe. The endpoint answers messages that name another subscription with
// 503, because the result with that id may still be in flight. A second call replaces the id and
// the handler.
func (e *Endpoint) Activate(subscription string, handle Handler) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.subscription, e.handle = subscription, handle
}

// Subscription returns the id given to [Endpoint.Activate], or "".
func (e *Endpoint) Subscription() string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.subscription
}

// Close stops answering requests on the path, challenges included. It neither interrupts running
// handlers nor waits for them. It may be called more than once.
func (e *Endpoint) Close() {
	e.receiver.mu.Lock()
	defer e.receiver.mu.Unlock()
	if e.receiver.endpoints[e.path] == e {
		delete(e.receiver.endpoints, e.path)
	}
}

func (e *Endpoint) secrets() []Secret {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.ring.Active(time.Now())
}

// route returns the handler for a message that names a subscription. A message without a name
// belongs to the endpoint's subscription, because the path and the signature identify it.
func (e *Endpoint) route(subscription string) (Handler, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.handle == nil {
		return nil, &refusal{http.StatusServiceUnavailable, "the endpoint is not active yet"}
	}
	if subscription != "" && subscription != e.subscription {
		return nil, &refusal{http.StatusServiceUnavailable, "the message names another subscription"}
	}
	return e.handle, nil
}
