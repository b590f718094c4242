package webhook

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"
)

// A Handler takes one message over. Nil means that the message is queued or stored and need not
// be sent again; an error makes the server try again. The context ends when the server gives up
// waiting, about five seconds after it began. A message is handed over again after an error, and
// possibly after a long time or a restart; eventId tells (CLI-2).
type Handler func(ctx context.Context, d Delivery) error

// An Endpoint is the callback of one subscription: a path nobody can guess, and its secret. It is
// safe for concurrent use. Close it with [Endpoint.Close].
type Endpoint struct {
	receiver *Receiver
	path     string
	seen     *seen

	mu           sync.RWMutex
	ring         Ring
	subscription string
	handle       Handler // nil until the endpoint is routable
	refusals     Refusals
}

// Refusals are the messages that an endpoint has refused. Nothing in them comes from a message.
type Refusals struct {
	// ByStatus counts them by the HTTP status that was answered; nil while there were none.
	ByStatus map[int]int64
	// Last is the status and the reason of the newest one, nil for none.
	Last error
	// Standing tells that no message was taken since the newest one.
	Standing bool
}

// Refused returns what the endpoint has refused since it was opened. See CLI-5.
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

// took notes that a message was taken.
func (e *Endpoint) took() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refusals.Standing = false
}

// Path is the path of the callback URL; the author's public origin comes before it.
func (e *Endpoint) Path() string { return e.path }

// Secret is the newest secret, which events/subscribe carries.
func (e *Endpoint) Secret() Secret {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.ring[0].Secret
}

// Ring is the accepted secrets, for [EndpointOptions] after a restart.
func (e *Endpoint) Ring() Ring {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return append(Ring(nil), e.ring...)
}

// Rotate accepts s beside the secrets of before, the one it replaces until grace has passed. It
// is called before the refresh that tells the server, because the server signs with s from then
// on; when that refresh fails, rotating back keeps the old one for good (SUB-5).
func (e *Endpoint) Rotate(s Secret, grace time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ring = e.ring.Rotate(s, time.Now(), grace)
}

// Activate makes the endpoint routable: messages of the subscription with this id go to handle.
// The id is what events/subscribe returned; messages that name another one get 503, because the
// answer which tells of it may still be under way. Calling it again replaces both.
func (e *Endpoint) Activate(subscription string, handle Handler) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.subscription, e.handle = subscription, handle
}

// Subscription is the id given to [Endpoint.Activate], or "".
func (e *Endpoint) Subscription() string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.subscription
}

// Close stops answering on the path, challenges included; messages that are being handed over
// are not interrupted, and Close does not wait for them. It may be called again.
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

// route finds the handler for a message that names a subscription; one that names none is taken
// for the endpoint's own, because the path and the signature have told whose it is.
func (e *Endpoint) route(subscription string) (Handler, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.handle == nil {
		return nil, &refusal{http.StatusServiceUnavailable, "the endpoint is not routable yet"}
	}
	if subscription != "" && subscription != e.subscription {
		return nil, &refusal{http.StatusServiceUnavailable, "the message names another subscription"}
	}
	return e.handle, nil
}
