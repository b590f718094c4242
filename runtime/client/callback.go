package client

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/ring"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// deliveryTimeout is how long a delivery waits for space in the queue. After that, the delivery is refused, and the
// server retries it. Servers wait about five seconds for a response.
const deliveryTimeout = 3 * time.Second

// A callback is the receiving side of one webhook subscription. It holds the endpoint and the stored record, and adds
// deliveries to the inbox. It outlives legs and sessions.
type callback struct {
	s        *subscription
	w        *webhookState
	key      string // of the record in the stores; "" if nothing is stored
	endpoint *webhook.Endpoint
	url      string
	// formerURL is the callback URL of an earlier process, which must be unsubscribed first.
	formerURL string
	// resumed is true if an earlier process had a subscription with this key.
	resumed bool
	// mayExist is true if the server may have a subscription for url.
	mayExist bool
	// reportsStatus is true once the server has sent a deliveryStatus. A later response without one shows that the
	// subscription is new.
	reportsStatus bool
	rotated       time.Time
	lapses        time.Time     // when the grant expires; zero for never
	heard         atomic.Uint64 // deliveries so far

	terminated chan error
	// sem is a semaphore that lets only one delivery at a time enter the inbox.
	sem    chan struct{}
	wake   chan struct{} // a token when something was stored
	after  uint64        // the sequence handed over last; guarded by turn
	stop   context.CancelFunc
	pumped sync.WaitGroup

	mu     sync.Mutex
	state  clientstore.Callback
	closed bool // the record must not be written any more
}

// openCallback opens the endpoint of s and restores the record of an earlier process. It also starts to answer
// challenges and to move stored bodies into the inbox.
func (s *subscription) openCallback(ctx context.Context) (*callback, error) {
	w := s.c.webhooks
	cb := &callback{s: s, w: w, key: s.ledger.key, terminated: make(chan error, 1), sem: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
	if err := cb.restore(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.endpoint = cb.endpoint
	s.mu.Unlock()
	s.ledger.useCallback(cb)
	pumping, stop := context.WithCancel(s.ctx)
	cb.stop = stop
	if cb.storesBodies() {
		cb.pumped.Go(func() { cb.pump(pumping) })
	}
	if cb.state.Subscription != "" {
		cb.endpoint.Activate(cb.state.Subscription, cb.handleDelivery)
	}
	return cb, nil
}

// storesBodies reports whether bodies are stored before they are acknowledged.
func (cb *callback) storesBodies() bool { return cb.w.Received != nil }

func (cb *callback) restore(ctx context.Context) error {
	var found bool
	var err error
	if cb.w.Callbacks != nil && cb.key != "" {
		if cb.state, found, err = cb.w.Callbacks.Callback(ctx, cb.key); err != nil {
			return &CommitError{Key: cb.key, Err: err}
		}
	}
	o := webhook.EndpointOptions{Path: cb.state.Path, Ring: cb.storedRing()}
	if cb.endpoint, err = cb.w.Receiver.Open(o); err != nil && found {
		// The path belongs to a receiver with another prefix.
		o.Path = ""
		cb.endpoint, err = cb.w.Receiver.Open(o)
	}
	if err != nil {
		return err
	}
	cb.url = cb.w.public + cb.endpoint.Path()
	cb.rotated = time.Now()
	if !found {
		return nil
	}
	cb.resumed = true
	s := cb.s
	if s.opts.fromNow || s.opts.cursor != "" {
		// The application starts at another position and does not want the bodies received so far.
		if cb.storesBodies() {
			if err := cb.w.Received.TakeReceived(ctx, cb.key, maxSequence, clientstore.Saved{}); err != nil {
				cb.endpoint.Close()
				return &CommitError{Key: cb.key, Err: err}
			}
		}
	} else {
		s.mu.Lock()
		s.cursor = cmp.Or(s.cursor, cb.state.Start)
		for _, id := range cb.state.EventIDs {
			s.seen.add(id)
		}
		s.mu.Unlock()
	}
	// If no process answered for a while, the server may have abandoned deliveries. A new subscription that starts from
	// the cursor receives them. Without a cursor, only the server's pending deliveries can still be received.
	if cb.state.URL != cb.url || s.resumeCursor() != nil || s.opts.fromNow {
		cb.formerURL = cb.state.URL
	}
	cb.mayExist = true
	return nil
}

// maxSequence is larger than any sequence number in a store.
const maxSequence = 1<<63 - 1

// save stores the path, the secrets and the ID. The path and the secrets are stored before they are sent to the server.
func (cb *callback) save(ctx context.Context, change func(*clientstore.Callback)) error {
	if cb.w.Callbacks == nil || cb.key == "" {
		return nil
	}
	cb.mu.Lock()
	defer cb.mu.Unlock()
	if cb.closed {
		return nil
	}
	next := cb.state
	next.URL, next.Path, next.Secrets = cb.url, cb.endpoint.Path(), ring.Stored(cb.endpoint.Ring())
	change(&next)
	if sameCallback(next, cb.state) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	if err := cb.w.Callbacks.PutCallback(ctx, cb.key, next); err != nil {
		return &CommitError{Key: cb.key, Err: err}
	}
	cb.state = next
	return nil
}

// close prevents further writes of the record.
func (cb *callback) close() {
	cb.mu.Lock()
	defer cb.mu.Unlock()
	cb.closed = true
}

// deleteRecord deletes the record after the subscription has ended.
func (cb *callback) deleteRecord(ctx context.Context) error {
	if cb.w.Callbacks == nil || cb.key == "" {
		return nil
	}
	return cb.w.Callbacks.DeleteCallback(ctx, cb.key)
}

// errEnding is returned for a delivery while the subscription is ending. The server may retry it.
var errEnding = errors.New("client: the subscription is ending")

// handleDelivery is the endpoint's handler. It returns nil once the message is stored or queued.
func (cb *callback) handleDelivery(ctx context.Context, d webhook.Delivery) error {
	s := cb.s
	if s.ctx.Err() != nil {
		return errEnding
	}
	ctx, cancel := context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel)
	defer stop()
	s.recordActivity()
	cb.heard.Add(1)
	switch d.Type {
	case wire.EnvelopeTerminated:
		cb.terminate(d.Envelope.Error)
		return nil
	case "", wire.EnvelopeGap:
	default:
		s.log.Warn("webhook envelope of an unknown type", "type", d.Type)
		return nil
	}
	if cb.storesBodies() {
		return cb.storeMessage(ctx, d)
	}
	return cb.inTurn(ctx, func() error { return cb.enqueue(ctx, &d, 0) })
}

func (cb *callback) terminate(e *webhook.ErrorObject) {
	if e == nil {
		e = &webhook.ErrorObject{}
	}
	select {
	case cb.terminated <- &TerminatedError{Event: cb.s.name, Err: convertError(e.Code, e.Message, e.Data)}:
	default: // a termination is already pending
	}
}

// inTurn calls f, which queues items, once no other goroutine queues any.
func (cb *callback) inTurn(ctx context.Context, f func() error) error {
	select {
	case cb.sem <- struct{}{}:
		defer func() { <-cb.sem }()
		return f()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// enqueue adds one message to the inbox. The sequence is the message's position in the store, or 0 if it is not stored.
func (cb *callback) enqueue(ctx context.Context, d *webhook.Delivery, sequence uint64) error {
	if d.Type == wire.EnvelopeGap {
		return cb.s.queueGapItem(ctx, cb.s.usableCursor(d.Envelope.Cursor), sequence)
	}
	o := wire.Occurrence(d.Occurrence)
	o.Cursor = cb.s.usableCursor(o.Cursor)
	return cb.s.queueItem(ctx, item{occurrence: &o, cursor: o.Cursor, sequence: sequence})
}
