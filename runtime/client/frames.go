package client

import (
	"bytes"
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

// notificationListenAck is the first message of a subscriptions/listen stream. It lists the requested notifications
// that the server will send.
const notificationListenAck = "notifications/subscriptions/acknowledged"

// A frame is one notification of the extension, as a tap read it from the carrier.
type frame struct {
	method string
	params json.RawMessage
}

// A call travels in the context of one request, so that the tap below the SDK can match the response to its request and
// keep the parts that the SDK does not pass on.
type call struct {
	method   string
	presence *presence // of the subscription that makes the call; nil for the client's
	in       *inflow   // receives the frames of a stream; nil for requests with a single response

	mu     sync.Mutex
	cause  error           // why the response is missing, if the SDK does not know it
	date   time.Time       // the Date of the response; zero if it had none
	result json.RawMessage // as read by the tap; nil if the SDK has it

	gone chan struct{} // closed when a shared carrier no longer carries the stream
}

type callKey struct{}

func newCall(in *inflow) *call { return &call{in: in, gone: make(chan struct{})} }

func withCall(ctx context.Context, c *call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

func callFrom(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// again clears the state of an earlier attempt at the same call, such as a redirect or a login.
func (c *call) again() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cause, c.result = nil, nil
}

// fail records why there will be no response. The first reason counts.
func (c *call) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		c.cause = err
	}
}

// reason returns why the response is missing, or nil if that is unknown.
func (c *call) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Buffer sizes between a carrier and the loop of its subscription. The body of a stream may be left unread, so its
// buffer is small; a shared read loop must never block, so its buffer must hold a burst.
const (
	ownFrames    = 16
	sharedFrames = 512
	frameBytes   = 8 << 20 // not counting the last frame, whatever its size
)

// An inflow is the bounded queue of frames between a tap and the loop of one subscription.
type inflow struct {
	frames   chan frame
	bytes    atomic.Int64
	room     chan struct{} // a token when a frame was taken
	full     atomic.Bool
	overflow chan struct{} // closed when a shared carrier found the queue full
}

func newInflow(shared bool) *inflow {
	n := ownFrames
	if shared {
		n = sharedFrames
	}
	return &inflow{frames: make(chan frame, n), room: make(chan struct{}, 1), overflow: make(chan struct{})}
}

// put adds f and waits for room. Only a carrier of a single subscription uses it: waiting there blocks only the server.
func (q *inflow) put(ctx context.Context, f frame) {
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

// offer adds f without waiting. Once the queue was full, offer drops all later frames as well, so that the queue has no
// gap; the loop then resumes from its cursor.
func (q *inflow) offer(f frame) {
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

// took must be called for every frame received from frames.
func (q *inflow) took(f frame) {
	q.bytes.Add(-int64(len(f.params)))
	wake(q.room)
}

// A board is the state shared by the taps of one session: the routes of frames to calls, and the results of the
// handshake.
type board struct {
	// shared says whether all subscriptions use one read loop.
	shared bool
	// others receives the notifications of other protocols.
	others *observers
	// changed receives a token at each list_changed.
	changed chan struct{}
	// aborted ends everything on the carrier when an orderly close takes too long.
	aborted context.Context
	abort   context.CancelFunc

	mu        sync.Mutex
	trusted   context.Context // done when the carrier is in doubt; see doubt
	distrust  context.CancelFunc
	routes    map[string]*call // by JSON-RPC ID as text
	shaking   bool             // until the handshake is over
	topLevel  json.RawMessage  // capabilities.events, which the SDK does not decode
	extension json.RawMessage  // capabilities.extensions[wire.ExtensionID]
	// refusal is the error of the newest response outside events calls: a *StatusError for 401 and 403, a *waitError if
	// the server was temporarily unable, a *contentError if the response was not JSON-RPC; nil otherwise.
	refusal error
	broken  error // why the connection could not be read any longer
	// Errors of the newest handshake request and of server/discover if no server answered them; otherwise nil.
	away, undiscovered error
	strict             bool // no handshake of an older revision after undiscovered
}

// breaks records why the connection can no longer be read.
func (b *board) breaks(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken == nil {
		b.broken = err
	}
}

// loss returns ErrSessionLost with the reason, if known.
func (b *board) loss() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken == nil || errors.Is(b.broken, io.EOF) || errors.Is(b.broken, context.Canceled) {
		return ErrSessionLost
	}
	return fmt.Errorf("%w: %w", ErrSessionLost, b.broken)
}

// refused sets the newest refusal, or clears it with nil.
func (b *board) refused(e error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusal = e
}

// reasonOf returns an error that says plainly whether the server refused the caller, was unable, or did not answer. It
// returns err if none applies.
func (b *board) reasonOf(err error) error {
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
	if b.away != nil {
		return &awayError{err}
	}
	return err
}

func newBoard(shared bool, others *observers) *board {
	b := &board{shared: shared, others: others, changed: make(chan struct{}, 1), routes: map[string]*call{}, shaking: true}
	b.aborted, b.abort = context.WithCancel(context.Background())
	b.trusted, b.distrust = context.WithCancel(b.aborted)
	return b
}

// trust returns a context that ends when the carrier is in doubt.
func (b *board) trust() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.trusted
}

// doubt records that a stream timed out. Streams without heartbeats may be dead as well, so their trust ends.
func (b *board) doubt() {
	b.mu.Lock()
	b.distrust()
	b.trusted, b.distrust = context.WithCancel(b.aborted)
	b.mu.Unlock()
	wake(b.changed)
}

// route delivers frames with id to c until ctx ends.
func (b *board) route(ctx context.Context, id string, c *call) {
	b.mu.Lock()
	b.routes[id] = c
	b.mu.Unlock()
	context.AfterFunc(ctx, func() { b.unroute(id) })
}

func (b *board) unroute(id string) {
	b.mu.Lock()
	c := b.routes[id]
	delete(b.routes, id)
	b.mu.Unlock()
	if c != nil {
		close(c.gone)
	}
}

// take handles a notification that the SDK would drop. A frame belongs to own if it arrived in the response to own,
// otherwise to the call that it names. Frames of ended requests are dropped.
func (b *board) take(ctx context.Context, f frame, own *call) {
	switch {
	case f.method == wire.NotificationListChanged:
		wake(b.changed)
	case !strings.HasPrefix(f.method, wire.NotificationPrefix) && f.method != notificationListenAck:
		b.others.observed(f.method, f.params)
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

// decodeMessage decodes a JSON-RPC message. Its result or params share data's memory. It takes the first of repeated
// members, as an intermediary may have done; the SDK would take the last.
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

// subscriptionID returns the JSON text of the subscription ID in a notification, "" if it has none.
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

// observe looks for both forms of the capability in a result (D1) during the handshake.
func (b *board) observe(result json.RawMessage) {
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
	extensions, _ := wire.DecodeMembers(capabilities["extensions"])
	b.topLevel = bytes.Clone(present(capabilities[wire.CapabilityKey]))
	b.extension = bytes.Clone(present(extensions[wire.ExtensionID]))
}

func present(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return raw
}

// shaken ends the handshake. It reports whether the server advertises events, and whether it advertises list_changed.
func (b *board) shaken() (advertised, listChanged bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shaking = false
	for _, raw := range []json.RawMessage{b.topLevel, b.extension} {
		if raw == nil {
			continue
		}
		advertised = true
		var v struct {
			ListChanged bool `json:"listChanged"`
		}
		if wire.Decode(raw, &v) == nil && v.ListChanged {
			listChanged = true
		}
	}
	return advertised, listChanged
}

// observing reports whether the handshake is still going on.
func (b *board) observing() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shaking
}
