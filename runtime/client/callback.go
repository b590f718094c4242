package client

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ring"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// handTimeout is how long a delivery waits for room in the queue before the server is told to try
// again; servers wait about five seconds.
const handTimeout = 3 * time.Second

// A callback is the receiving side of one webhook subscription: its endpoint, what is stored of
// it, and the way from there into the inbox. It outlives legs and sessions.
type callback struct {
	s        *subscription
	w        *webhooks
	key      string // of the stores; "" when nothing is stored
	endpoint *webhook.Endpoint
	url      string
	// former is a callback URL of an earlier process that has to be unsubscribed first.
	former string
	// resumed tells that an earlier process had a subscription under this key.
	resumed bool
	// present tells that the server may have a subscription for url.
	present bool
	// reports tells that the server has sent a deliveryStatus, so that none means a new subscription.
	reports bool
	rotated time.Time
	lapses  time.Time     // when the grant ends; zero for never
	heard   atomic.Uint64 // deliveries so far

	terminated chan error
	// turn is held while something is handed to the inbox, so that deliveries that arrive together go in one by one.
	turn   chan struct{}
	wake   chan struct{} // a token when something was stored
	after  uint64        // the last sequence handed over; guarded by turn
	stop   context.CancelFunc
	pumped sync.WaitGroup

	mu     sync.Mutex
	state  clientstore.Callback
	closed bool // the record is not written any more
}

// openCallback opens the endpoint of s, taking up what an earlier process left. From then on
// challenges are answered and stored bodies handed out.
func (s *subscription) openCallback(ctx context.Context) (*callback, error) {
	w := s.c.webhooks
	cb := &callback{s: s, w: w, key: s.ledger.key, terminated: make(chan error, 1), turn: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
	if err := cb.restore(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.endpoint = cb.endpoint
	s.mu.Unlock()
	s.ledger.useCallback(cb)
	pumping, stop := context.WithCancel(s.ctx)
	cb.stop = stop
	if cb.stores() {
		cb.pumped.Go(func() { cb.pump(pumping) })
	}
	if cb.state.Subscription != "" {
		cb.endpoint.Activate(cb.state.Subscription, cb.take)
	}
	return cb, nil
}

// stores tells whether bodies are stored before they are answered for.
func (cb *callback) stores() bool { return cb.w.Received != nil }

func (cb *callback) restore(ctx context.Context) error {
	var found bool
	var err error
	if cb.w.Callbacks != nil && cb.key != "" {
		if cb.state, found, err = cb.w.Callbacks.Callback(ctx, cb.key); err != nil {
			return &CommitError{Key: cb.key, Err: err}
		}
	}
	o := webhook.EndpointOptions{Path: cb.state.Path, Ring: cb.ring()}
	if cb.endpoint, err = cb.w.Receiver.Open(o); err != nil && found {
		// The path is of a receiver with another prefix.
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
		// The application starts elsewhere; what was received before is not wanted.
		if cb.stores() {
			if err := cb.w.Received.TakeReceived(ctx, cb.key, maxSequence, clientstore.Saved{}); err != nil {
				cb.endpoint.Close()
				return &CommitError{Key: cb.key, Err: err}
			}
		}
	} else {
		s.mu.Lock()
		if s.cursor == "" {
			s.cursor = cb.state.Start
		}
		for _, id := range cb.state.EventIDs {
			s.seen.add(id)
		}
		s.mu.Unlock()
	}
	// While nobody answered, the server may have given events up. A subscription from the cursor
	// gets them again; without a cursor what the server still has to deliver is all there is.
	if cb.state.URL != cb.url || s.resume() != nil || s.opts.fromNow {
		cb.former = cb.state.URL
	}
	cb.present = true
	return nil
}

// maxSequence is beyond every sequence of a store.
const maxSequence = 1<<63 - 1

// save stores path, secrets and id. Path and secrets are stored before the server is told of them.
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

// close ends the writing of the record.
func (cb *callback) close() {
	cb.mu.Lock()
	defer cb.mu.Unlock()
	cb.closed = true
}

// forget drops the record after the subscription's end.
func (cb *callback) forget(ctx context.Context) error {
	if cb.w.Callbacks == nil || cb.key == "" {
		return nil
	}
	return cb.w.Callbacks.DeleteCallback(ctx, cb.key)
}

// errEnding refuses a delivery while the subscription ends; the server tries again, or not.
var errEnding = errors.New("client: the subscription is ending")

// take is the endpoint's handler: it returns nil once the message is stored, or in the queue.
func (cb *callback) take(ctx context.Context, d webhook.Delivery) error {
	s := cb.s
	if s.ctx.Err() != nil {
		return errEnding
	}
	ctx, cancel := context.WithTimeout(ctx, handTimeout)
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel)
	defer stop()
	s.heard()
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
	if cb.stores() {
		return cb.keep(ctx, d)
	}
	release, err := cb.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return cb.hand(ctx, &d, 0)
}

func (cb *callback) terminate(e *webhook.ErrorObject) {
	if e == nil {
		e = &webhook.ErrorObject{}
	}
	select {
	case cb.terminated <- &TerminatedError{Event: cb.s.name, Err: errorOf(e.Code, e.Message, e.Data)}:
	default: // one is known already
	}
}

func (cb *callback) acquire(ctx context.Context) (release func(), err error) {
	select {
	case cb.turn <- struct{}{}:
		return func() { <-cb.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// hand gives one message to the inbox; sequence is its place in the store, 0 for none.
func (cb *callback) hand(ctx context.Context, d *webhook.Delivery, sequence uint64) error {
	if d.Type == wire.EnvelopeGap {
		return cb.s.gapItem(ctx, cb.s.usable(d.Envelope.Cursor), sequence)
	}
	o := wire.Occurrence(d.Occurrence)
	o.Cursor = cb.s.usable(o.Cursor)
	return cb.s.takeItem(ctx, item{occurrence: &o, cursor: o.Cursor, sequence: sequence})
}
