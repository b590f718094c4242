package webhook

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"
)

// A Handler processes a message. It should return nil once the message is queued or stored. If it returns an error, the
// server retries. The context is cancelled when the server gives up, about five seconds after it sent the request. A
// Handler receives a message again after it has returned an error. It may also receive a message again after a long
// time or a restart. Use the eventId to detect duplicates (CLI-2).
type Handler func(ctx context.Context, d Delivery) error

// An Endpoint is the callback of a subscription, with an unguessable path and a secret. It is safe for concurrent use.
// Call [Endpoint.Close] to close it.
type Endpoint struct {
	receiver *Receiver
	path     string
	seen     *messageSet

	mu           sync.RWMutex
	ring         Ring
	subscription string
	handle       Handler // nil until Activate
	refusals     Refusals
}

// Refusals describes the messages that an endpoint has refused. It contains no data from the messages.
type Refusals struct {
	// ByStatus counts the refusals by HTTP status. It is nil before the first refusal.
	ByStatus map[int]int64
	// Last is an error with the status and the reason of the latest refusal, or nil.
	Last error
	// Standing reports whether no message has been accepted since the latest refusal.
	Standing bool
}

// Refused returns the refusals of the endpoint since it was opened. See CLI-5.
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

// recordAccepted records that a message was accepted.
func (e *Endpoint) recordAccepted() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refusals.Standing = false
}

// Path returns the path of the callback URL. Append it to the public origin of the application.
func (e *Endpoint) Path() string { return e.path }

// Secret returns the newest secret, which must be sent with events/subscribe.
func (e *Endpoint) Secret() Secret {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.ring[0].Secret
}

// Ring returns the accepted secrets. Store them to pass them in [EndpointOptions] after a restart.
func (e *Endpoint) Ring() Ring {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return append(Ring(nil), e.ring...)
}

// Rotate makes s the newest secret. The endpoint continues to accept the previous secret for the duration of grace.
// Call Rotate before the refresh that sends s to the server, because the server signs with s once it has received it.
// If the refresh fails, call Rotate with the previous secret, which then remains valid (SUB-5).
func (e *Endpoint) Rotate(s Secret, grace time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ring = e.ring.Rotate(s, time.Now(), grace)
}

// Activate starts to pass the messages of the given subscription to handle. The subscription is the id in the result of
// events/subscribe. The endpoint answers messages for other subscriptions with 503, because the result that contains
// their id may still be in flight. A second call replaces the id and the handler.
func (e *Endpoint) Activate(subscription string, handle Handler) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.subscription, e.handle = subscription, handle
}

// Subscription returns the id passed to [Endpoint.Activate], or "" before the first call.
func (e *Endpoint) Subscription() string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.subscription
}

// Close closes the endpoint, which then answers neither messages nor challenges. It neither interrupts running handlers
// nor waits for them. Close can be called more than once.
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

// route returns the handler for a message with the given subscription id. A message without an id belongs to the
// endpoint's subscription, because the path and the signature identify it.
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
