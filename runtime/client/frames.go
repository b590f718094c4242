package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// notificationListenAck is the method of the first message on a subscriptions/listen stream. The message lists the
// requested notifications that the server will send.
const notificationListenAck = "notifications/subscriptions/acknowledged"

// A frame is an extension notification as read by a tap.
type frame struct {
	method string
	params json.RawMessage
}

// A call holds the state of one request and is stored in the request's context. The tap beneath the SDK uses it to
// match the response to the request and to store data that the SDK does not return.
type call struct {
	method       string
	availability *availability // of the subscription that makes the call; nil for the client's
	in           *frameQueue   // receives the frames of a stream; nil for requests with a single response

	mu     sync.Mutex
	cause  error           // why the response is missing, if the SDK does not know it
	date   time.Time       // the Date of the response; zero if it had none
	result json.RawMessage // as read by the tap; nil if the SDK has it

	gone chan struct{} // closed when a shared carrier no longer carries the stream
}

type callKey struct{}

func newCall(in *frameQueue) *call { return &call{in: in, gone: make(chan struct{})} }

func withCall(ctx context.Context, c *call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

func callFrom(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// reset clears the state left by an earlier attempt at the same call. Redirects and authorizations cause new attempts.
func (c *call) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cause, c.result = nil, nil
}

// fail records the reason no response will arrive. It ignores later reasons.
func (c *call) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		c.cause = err
	}
}

// failureReason returns the reason the response is missing, or nil if it is unknown.
func (c *call) failureReason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Sizes of the buffer between a carrier and the loop of a subscription. The body of a separate stream may remain unread
// for a while, so its buffer is small. A shared read loop must never block, so its buffer must have room for a burst.
const (
	ownFrames    = 16
	sharedFrames = 512
	frameBytes   = 8 << 20 // not counting the last frame, whatever its size
)

// A frameQueue is a bounded queue of frames from a tap to the loop of one subscription.
type frameQueue struct {
	frames   chan frame
	bytes    atomic.Int64
	room     chan struct{} // a token when a frame was taken
	full     atomic.Bool
	overflow chan struct{} // closed when a shared carrier found the queue full
}

func newFrameQueue(shared bool) *frameQueue {
	n := ownFrames
	if shared {
		n = sharedFrames
	}
	return &frameQueue{frames: make(chan frame, n), room: make(chan struct{}, 1), overflow: make(chan struct{})}
}

// put adds f, waiting for space if necessary. It is used only by a carrier with a single subscription, because waiting
// blocks the carrier.
func (q *frameQueue) put(ctx context.Context, f frame) {
	for q.bytes.Load() > frameBytes {
		select {
		case <-q.room:
		case <-ctx.Done():
			return
		}
	}
	q.bytes.Add(int64(len(f.params)))
	select {
	case q.frames <- f:
	case <-ctx.Done():
	}
}

// offer adds f without waiting. If the queue is full, offer drops f and all later frames, so the queue has no gap. The
// loop then resumes from its cursor.
func (q *frameQueue) offer(f frame) {
	if q.full.Load() {
		return
	}
	if q.bytes.Load() <= frameBytes {
		select {
		case q.frames <- f:
			q.bytes.Add(int64(len(f.params)))
			return
		default:
		}
	}
	if q.full.CompareAndSwap(false, true) {
		close(q.overflow)
	}
}

// release frees the space of f. It must be called for every frame received from frames.
func (q *frameQueue) release(f frame) {
	q.bytes.Add(-int64(len(f.params)))
	wake(q.room)
}

// A tapState is the state shared by the taps of one session. It holds the calls by request ID and the results of the
// handshake.
type tapState struct {
	// shared is true if all subscriptions use one read loop.
	shared bool
	// otherObservers receives the notifications of other protocols.
	otherObservers *observers
	// listChanged receives a value after each list_changed notification.
	listChanged chan struct{}
	// abortContext is cancelled if an orderly close takes too long, which ends all requests on the carrier.
	abortContext context.Context
	abort        context.CancelFunc

	mu       sync.Mutex
	trusted  context.Context // done when the carrier is in doubt; see resetTrust
	distrust context.CancelFunc
	routes   map[string]*call // by JSON-RPC ID as text
	shaking  bool             // until the handshake is over
	// advertised and advertisedListChanged report whether the latest handshake result advertises events and list_changed.
	advertised, advertisedListChanged bool
	// refusal is the error from the latest response to a request other than an events call. It is a *StatusError for
	// status 401 or 403, a *waitError if the server was temporarily unavailable, a *contentError if the response was
	// not JSON-RPC, and nil otherwise.
	refusal error
	broken  error // why the connection could not be read any longer
	// Errors of the latest handshake request and of server/discover if no server answered them; otherwise nil.
	handshakeErr, discoverErr error
	strict                    bool // no handshake of an older revision after discoverErr
}

// setBroken records the reason the connection can no longer be read.
func (b *tapState) setBroken(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken == nil {
		b.broken = err
	}
}

// lossError returns ErrSessionLost, wrapped with the reason if it is known.
func (b *tapState) lossError() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken == nil || errors.Is(b.broken, io.EOF) || errors.Is(b.broken, context.Canceled) {
		return ErrSessionLost
	}
	return fmt.Errorf("%w: %w", ErrSessionLost, b.broken)
}

// setRefusal records the latest refusal; nil clears it.
func (b *tapState) setRefusal(e error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusal = e
}

// explain returns an error that states whether the server refused the credentials, was unavailable, or did not answer.
// It returns err if none of these applies.
func (b *tapState) explain(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := b.refusal.(type) {
	case *StatusError:
		return &reasonError{"the server refused the credentials: " + e.said(), []error{e, err}}
	case *waitError:
		return &waitError{err, e.after}
	case *contentError:
		return &reasonError{e.Error(), []error{err}}
	}
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		err = &reasonError{failed.Err.Error(), []error{err}} // without the layers of the SDK
	}
	if b.handshakeErr != nil {
		return &unreachableError{err}
	}
	return err
}

func newTapState(shared bool, others *observers) *tapState {
	b := &tapState{shared: shared, otherObservers: others, listChanged: make(chan struct{}, 1), routes: map[string]*call{}, shaking: true}
	b.abortContext, b.abort = context.WithCancel(context.Background())
	b.trusted, b.distrust = context.WithCancel(b.abortContext)
	return b
}

// trustContext returns a context that the next call to resetTrust cancels.
func (b *tapState) trustContext() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.trusted
}

// resetTrust cancels the trust context after a stream has timed out. Streams without heartbeats may be dead as well.
func (b *tapState) resetTrust() {
	b.mu.Lock()
	b.distrust()
	b.trusted, b.distrust = context.WithCancel(b.abortContext)
	b.mu.Unlock()
	wake(b.listChanged)
}

// route directs frames with the given ID to c until ctx is done.
func (b *tapState) route(ctx context.Context, id string, c *call) {
	b.mu.Lock()
	b.routes[id] = c
	b.mu.Unlock()
	context.AfterFunc(ctx, func() { b.unroute(id) })
}

func (b *tapState) unroute(id string) {
	b.mu.Lock()
	c := b.routes[id]
	delete(b.routes, id)
	b.mu.Unlock()
	if c != nil {
		close(c.gone)
	}
}

// handleNotification handles a notification that the SDK would drop. If own is not nil, the frame arrived in the
// response to own and is passed to it. Otherwise it is passed to the call with the frame's subscription ID, or dropped
// if that call has ended.
func (b *tapState) handleNotification(ctx context.Context, f frame, own *call) {
	switch {
	case f.method == wire.NotificationListChanged:
		wake(b.listChanged)
	case !strings.HasPrefix(f.method, wire.NotificationPrefix) && f.method != notificationListenAck:
		b.otherObservers.notify(f.method, f.params)
	case own != nil:
		own.in.put(ctx, f)
	default:
		b.mu.Lock()
		c := b.routes[subscriptionID(f.params)]
		b.mu.Unlock()
		if c != nil {
			c.in.offer(f)
		}
	}
}

// decodeMessage decodes a JSON-RPC message. The message's result or params share memory with data. If a member is
// repeated, decodeMessage uses the first value, as an intermediary may have done. The SDK would use the last value.
func decodeMessage(data []byte) (jsonrpc.Message, error) {
	m, err := wire.DecodeMembers(data)
	if err != nil {
		return nil, err
	}
	small := map[string]json.RawMessage{}
	for _, name := range []string{"jsonrpc", "id", "method", "error", "result", "params"} {
		raw, ok := m[name]
		switch {
		case ok && (name == "result" || name == "params"):
			small[name] = json.RawMessage(`{}`)
		case ok:
			small[name] = raw
		}
	}
	envelope, err := json.Marshal(small)
	if err != nil {
		return nil, err
	}
	msg, err := jsonrpc.DecodeMessage(envelope)
	switch msg := msg.(type) {
	case *jsonrpc.Request:
		msg.Params = m["params"]
	case *jsonrpc.Response:
		msg.Result = m["result"]
	}
	return msg, err
}

// subscriptionID returns the JSON text of the subscription ID in a notification's params, or "" without one.
func subscriptionID(params json.RawMessage) string {
	return string(wire.FirstMember(wire.FirstMember(params, "_meta"), wire.MetaSubscriptionID))
}

// idText returns the JSON text of a JSON-RPC ID.
func idText(raw any) string {
	b, err := json.Marshal(raw)
	if err != nil {
		return ""
	}
	return string(b)
}

// recordCapabilities records whether a handshake result advertises events and list_changed, in any place (D1).
func (b *tapState) recordCapabilities(result json.RawMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.shaking {
		return
	}
	r, err := wire.DecodeMembers(result)
	if err != nil {
		return
	}
	capabilities, err := wire.DecodeMembers(r["capabilities"])
	if err != nil {
		return
	}
	standard, experimental := wire.EventsCapabilities(capabilities)
	b.advertised, b.advertisedListChanged = false, false
	for _, raw := range append(standard, experimental...) {
		var v struct {
			ListChanged bool `json:"listChanged"`
		}
		b.advertised = true
		b.advertisedListChanged = b.advertisedListChanged || wire.Decode(raw, &v) == nil && v.ListChanged
	}
}

// endHandshake ends the handshake. It reports whether the server advertises events and whether it advertises
// list_changed.
func (b *tapState) endHandshake() (advertised, listChanged bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shaking = false
	return b.advertised, b.advertisedListChanged
}

// inHandshake reports whether the handshake is in progress.
func (b *tapState) inHandshake() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shaking
}
