package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// notificationListenAck is the first message on a subscriptions/listen stream; it says which of the
// kinds asked for the server will send.
const notificationListenAck = "notifications/subscriptions/acknowledged"

// A frame is one notification of the extension as a tap found it on the carrier.
type frame struct {
	method string
	params json.RawMessage
}

// A call travels in the context of one request, so that the tap below the SDK can tell whose
// answer it sees and leave there what the SDK does not pass on.
type call struct {
	in       *inflow   // where frames go; nil for requests that are answered at once
	presence *presence // of whom it is made for; nil for the client's
	method   string

	mu         sync.Mutex
	cause      error         // why there is no answer, where the SDK tells less; nil when it knows
	retryAfter time.Duration // of a refusal
	date       time.Time     // of the answer by the server's clock; zero when it did not say
	meta       map[string]any
	result     json.RawMessage // as the tap found it; nil when the SDK has it

	endOnce sync.Once
	ended   chan struct{} // closed when the carrier of a listen request is gone
}

type callKey struct{}

func newCall(in *inflow) *call { return &call{in: in, ended: make(chan struct{})} }

func withCall(ctx context.Context, c *call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

func callFrom(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// again forgets what an earlier try of the same call met: a redirect, a login.
func (c *call) again() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cause, c.retryAfter, c.result = nil, 0, nil
}

// fail keeps why there will be no answer; the first reason counts.
func (c *call) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		c.cause = err
	}
}

// reason is why there is no answer, where that is known.
func (c *call) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// refused keeps a refusal that is no JSON-RPC message.
func (c *call) refused(resp *http.Response, body []byte) {
	err := error(&StatusError{Status: resp.StatusCode, text: clipped(body)})
	if awayStatus(resp) {
		err = &awayError{err}
	}
	c.fail(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retryAfter = retryAfter(resp)
}

func (c *call) dated(resp *http.Response) {
	at, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.date = at
}

// now is the server's clock at the answer, or ours where that tells more or is all that is known.
func (c *call) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	ours := time.Now()
	if c.date.IsZero() || c.date.Sub(ours).Abs() <= clockNoise {
		return ours
	}
	return c.date
}

// clockNoise is what a Date header, which has whole seconds, may be off.
const clockNoise = 2 * time.Second

func (c *call) end() { c.endOnce.Do(func() { close(c.ended) }) }

// Room for frames between a carrier and the loop of its subscription. A body of its own may be
// left unread, so little is kept; a shared read loop must never wait, so a burst must fit.
const (
	ownFrames    = 16
	sharedFrames = 512
	frameBytes   = 8 << 20 // beyond the last frame, however large that is
)

// An inflow is the bounded hand-over of frames from a tap to the loop of one subscription.
type inflow struct {
	frames   chan frame
	bytes    atomic.Int64
	room     chan struct{} // a token when something was taken
	full     atomic.Bool
	overflow chan struct{} // closed when a shared carrier found no room
}

func newInflow(shared bool) *inflow {
	n := ownFrames
	if shared {
		n = sharedFrames
	}
	return &inflow{frames: make(chan frame, n), room: make(chan struct{}, 1), overflow: make(chan struct{})}
}

// put hands f over and waits for room: for a carrier that carries only this subscription, where
// waiting pushes back on the server alone.
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

// offer hands f over without waiting. Once there was no room, everything later is refused too, so
// that what was taken has no hole; the loop then resumes from its cursor.
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

// took is called for every frame received from frames.
func (q *inflow) took(f frame) {
	q.bytes.Add(-int64(len(f.params)))
	wake(q.room)
}

// A board is what the taps of one session share: which request waits for which frames, and what
// the handshake said.
type board struct {
	// shared tells that all subscriptions come through one read loop.
	shared bool
	// others hear of notifications that are not of the extension.
	others *observers
	// changed gets a token at each list_changed.
	changed chan struct{}
	// aborted ends everything on the carrier, when orderly closing takes too long.
	aborted context.Context
	abort   context.CancelFunc

	mu        sync.Mutex
	trusted   context.Context // ends when the carrier is in doubt; see doubt
	distrust  context.CancelFunc
	routes    map[string]*call // by JSON-RPC id as text
	shaking   bool             // until the handshake is over
	topLevel  json.RawMessage  // capabilities.events, which the SDK does not decode
	extension json.RawMessage  // capabilities.extensions[wire.ExtensionID]
	// refusal is what the newest answer outside of events calls says plainly: a *StatusError for 401 and 403, a
	// *waitError of a server that is not able now, nil otherwise.
	refusal error
	broken  error // why a connection could not be read any more
	// How the newest request of the handshake, and server/discover, met nobody; nil when they did not.
	away, undiscovered error
	strict             bool // no handshake of an older revision after that
}

// breaks keeps why the connection could not be read any more.
func (b *board) breaks(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken == nil {
		b.broken = err
	}
}

// loss is ErrSessionLost with what is known of the reason.
func (b *board) loss() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken == nil || errors.Is(b.broken, io.EOF) || errors.Is(b.broken, context.Canceled) {
		return ErrSessionLost
	}
	return fmt.Errorf("%w: %w", ErrSessionLost, b.broken)
}

// refused keeps the newest refusal, or that there is none any more.
func (b *board) refused(e error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusal = e
}

// reasonOf is err, or what says plainly that the server refused the caller, was not able, or was not there.
func (b *board) reasonOf(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := b.refusal.(type) {
	case *StatusError:
		return &refusedError{e, err}
	case *waitError:
		return &waitError{err, e.after}
	}
	if b.away != nil {
		return &awayError{err}
	}
	return err
}

func newBoard(shared bool) *board {
	b := &board{shared: shared, changed: make(chan struct{}, 1), routes: map[string]*call{}, shaking: true}
	b.aborted, b.abort = context.WithCancel(context.Background())
	b.trusted, b.distrust = context.WithCancel(b.aborted)
	return b
}

// trust is a context that ends when the carrier is in doubt.
func (b *board) trust() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.trusted
}

// doubt tells that a stream has died in silence: those that have no heartbeat may have, too.
func (b *board) doubt() {
	b.mu.Lock()
	b.distrust()
	b.trusted, b.distrust = context.WithCancel(b.aborted)
	b.mu.Unlock()
	wake(b.changed)
}

// route makes frames that name id reach c until ctx ends.
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
		c.end()
	}
}

// dispatch gives a frame to the call whose body it came in, or else to the one that it names.
// Frames of requests that have ended are dropped.
func (b *board) dispatch(ctx context.Context, f frame, own *call) {
	if f.method == wire.NotificationListChanged {
		wake(b.changed)
		return
	}
	if own != nil && own.in != nil && !b.shared {
		own.in.put(ctx, f)
		return
	}
	b.mu.Lock()
	c := b.routes[subscriptionID(f.params)]
	b.mu.Unlock()
	if c != nil && c.in != nil {
		c.in.offer(f)
	}
}

// decodeMessage reads a JSON-RPC message, whose result or params share data's memory. The SDK takes the last
// of repeated members; whatever stands before the client may have taken the first.
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

// subscriptionID returns the JSON text of the id that a notification names, "" for none.
func subscriptionID(params json.RawMessage) string {
	return string(wire.FirstMember(wire.FirstMember(params, "_meta"), wire.MetaSubscriptionID))
}

// idText is the JSON text of a JSON-RPC id.
func idText(raw any) string {
	b, err := json.Marshal(raw)
	if err != nil {
		return ""
	}
	return string(b)
}

// observe looks for the two forms of the capability in a result (D1), while the handshake lasts.
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

// shaken ends the handshake and returns whether events are advertised, and whether list_changed is.
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

// observing reports whether answers are still those of the handshake.
func (b *board) observing() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shaking
}
