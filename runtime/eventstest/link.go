package eventstest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// A link connects clients to a server, with one or more connections.
type link struct {
	t         testing.TB
	principal string
	ctx       context.Context // ends with the test
	served    sync.WaitGroup

	mu      sync.Mutex
	es      *server.Server // nil while unreachable
	taps    map[*serverConn]struct{}
	pollers map[pollKey][]fault // faults for the next response to each
}

// A pollKey identifies a poll subscription by its event type and arguments.
type pollKey struct{ event, arguments string }

func newLink(t testing.TB, es *server.Server, principal string) *link {
	l := &link{t: t, principal: principal, es: es, taps: map[*serverConn]struct{}{}, pollers: map[pollKey][]fault{}}
	ctx, cancel := context.WithCancel(context.Background())
	l.ctx = ctx
	t.Cleanup(func() {
		l.redirect(nil)
		cancel()
		l.served.Wait()
	})
	return l
}

func (l *link) transport() mcp.Transport {
	return client.Dial(func(context.Context) (mcp.Transport, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.es == nil {
			return nil, &net.OpError{Op: "dial", Net: "eventstest", Err: syscall.ECONNREFUSED}
		}
		near, far := mcp.NewInMemoryTransports()
		conn, err := far.Connect(l.ctx)
		if err != nil {
			return nil, err
		}
		tap := &serverConn{Connection: conn, link: l, streams: map[string]*stream{}, polls: map[string]pollKey{}}
		l.taps[tap] = struct{}{}
		es := l.es
		l.served.Go(func() {
			_ = transport.Run(l.ctx, es, tap) // The test decides how a connection ends.
			tap.Close()
		})
		return near, nil
	})
}

// redirect routes new connections to es, or refuses them if es is nil. It closes existing connections.
func (l *link) redirect(es *server.Server) {
	l.mu.Lock()
	taps := l.taps
	l.es, l.taps = es, map[*serverConn]struct{}{}
	l.mu.Unlock()
	for tap := range taps {
		tap.Connection.Close()
	}
}

// inject simulates a fault in all subscriptions to an event type.
func (l *link) inject(event string, made fault) {
	l.t.Helper()
	l.mu.Lock()
	found := false
	for p := range l.pollers {
		if p.event == event {
			l.pollers[p] = append(l.pollers[p], made)
			found = true
		}
	}
	taps := make([]*serverConn, 0, len(l.taps))
	for tap := range l.taps {
		taps = append(taps, tap)
	}
	l.mu.Unlock()
	for _, tap := range taps {
		hit, err := tap.inject(event, made)
		if err != nil {
			l.t.Errorf("eventstest: telling subscriptions to %s: %v", event, err)
		}
		found = found || hit
	}
	if !found {
		l.t.Errorf("eventstest: nobody is subscribed to %s by push or poll", event)
	}
}

// A fault is a failure to simulate. Exactly one of its fields is set.
type fault struct {
	gap   bool
	event *wire.Occurrence
	end   *wire.ErrorObject
}

func wireOccurrence(o events.Occurrence) *wire.Occurrence {
	w := &wire.Occurrence{EventID: o.ID, Name: o.Name, Timestamp: o.Timestamp.String(), Data: o.Raw, Meta: o.Meta}
	if w.EventID == "" {
		w.EventID = "eventstest-" + rand.Text()
	}
	if o.Timestamp.IsZero() {
		w.Timestamp = events.NewTime(time.Now().UTC()).String()
	}
	if len(w.Data) == 0 {
		w.Data = json.RawMessage(`{}`)
	}
	if o.Cursor != "" {
		w.Cursor = &o.Cursor
	}
	return w
}

func wireError(e *events.Error) *wire.ErrorObject {
	message := e.Message
	if message == "" {
		message = e.Kind.String()
	}
	return &wire.ErrorObject{Code: wire.Sketch.Code(e.Kind), Message: message, Data: e.Data}
}

// A stream is an open events/stream request on a connection.
type stream struct {
	id     json.RawMessage
	event  string
	cursor json.RawMessage // the last one written; nil before the stream is active
}

// asNotification returns a notification that simulates the fault on a stream.
func (m fault) asNotification(s *stream) (method string, params any) {
	meta := map[string]any{wire.MetaSubscriptionID: s.id}
	switch {
	case m.gap:
		return wire.NotificationActive, map[string]any{"cursor": s.cursor, "truncated": true, "_meta": meta}
	case m.end != nil:
		return wire.NotificationTerminated, map[string]any{"error": m.end, "_meta": meta}
	}
	var own map[string]any
	if json.Unmarshal(m.event.Meta, &own) == nil {
		for name, v := range own {
			if _, taken := meta[name]; !taken {
				meta[name] = v
			}
		}
	}
	cursor := any(s.cursor)
	if m.event.Cursor != nil {
		cursor = m.event.Cursor
	}
	return wire.NotificationEvent, map[string]any{"eventId": m.event.EventID, "name": m.event.Name,
		"timestamp": m.event.Timestamp, "data": m.event.Data, "cursor": cursor, "_meta": meta}
}

// applyTo adds the fault to the response to a poll.
func (m fault) applyTo(r *jsonrpc.Response) error {
	if m.end != nil {
		r.Result, r.Error = nil, &jsonrpc.Error{Code: m.end.Code, Message: m.end.Message, Data: m.end.Data}
		return nil
	}
	var result map[string]json.RawMessage
	if err := json.Unmarshal(r.Result, &result); err != nil {
		return err
	}
	if m.gap {
		result["truncated"] = json.RawMessage("true")
	} else {
		var all []json.RawMessage
		if err := json.Unmarshal(result["events"], &all); err != nil {
			return err
		}
		o := *m.event
		o.Cursor = nil
		one, err := json.Marshal(o)
		if err != nil {
			return err
		}
		if result["events"], err = json.Marshal(append(all, one)); err != nil {
			return err
		}
	}
	var err error
	r.Result, err = json.Marshal(result)
	return err
}

// A serverConn is the server's end of a connection. It is also the transport from which the server obtains the
// connection.
type serverConn struct {
	mcp.Connection
	link *link

	mu      sync.Mutex
	streams map[string]*stream // by the id of the request
	polls   map[string]pollKey // unanswered, by the id of the request

	write sync.Mutex // held during each write, so that faults have a place in the order
}

func (c *serverConn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

func (c *serverConn) Close() error {
	c.link.mu.Lock()
	delete(c.link.taps, c)
	c.link.mu.Unlock()
	return c.Connection.Close()
}

// Read records new subscriptions and sets the principal of requests.
func (c *serverConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	r, ok := m.(*jsonrpc.Request)
	if err != nil || !ok {
		return m, err
	}
	if c.link.principal != "" {
		r.Extra = &mcp.RequestExtra{TokenInfo: &auth.TokenInfo{UserID: c.link.principal}}
	}
	id := string(rawID(r.ID))
	switch r.Method {
	case wire.MethodStream:
		if p, err := wire.DecodeStreamParams(r.Params); err == nil {
			c.mu.Lock()
			c.streams[id] = &stream{id: rawID(r.ID), event: p.Name}
			c.mu.Unlock()
		}
	case wire.MethodPoll:
		if p, err := wire.DecodePollParams(r.Params); err == nil {
			c.mu.Lock()
			c.polls[id] = pollKey{p.Name, string(p.Arguments)}
			c.mu.Unlock()
		}
	case "notifications/cancelled":
		var p struct {
			ID json.RawMessage `json:"requestId"`
		}
		if json.Unmarshal(r.Params, &p) == nil {
			c.mu.Lock()
			delete(c.streams, string(p.ID))
			delete(c.polls, string(p.ID))
			c.mu.Unlock()
		}
	}
	return m, nil
}

// Write tracks the cursors of streams and adds faults to the responses to polls.
func (c *serverConn) Write(ctx context.Context, m jsonrpc.Message) error {
	c.write.Lock()
	defer c.write.Unlock()
	switch r := m.(type) {
	case *jsonrpc.Request:
		if strings.HasPrefix(r.Method, wire.NotificationPrefix) {
			c.trackCursor(r)
		}
	case *jsonrpc.Response:
		changed, err := c.withFaults(r)
		if err != nil {
			return fmt.Errorf("eventstest: the answer to a poll: %w", err)
		}
		m = changed
	}
	return c.Connection.Write(ctx, m)
}

// trackCursor records the cursor of a stream.
func (c *serverConn) trackCursor(r *jsonrpc.Request) {
	var p struct {
		Cursor json.RawMessage            `json:"cursor"`
		Meta   map[string]json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(r.Params, &p) != nil || p.Cursor == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.streams[string(p.Meta[wire.MetaSubscriptionID])]; s != nil {
		s.cursor = p.Cursor
	}
}

// withFaults adds the pending faults to r.
func (c *serverConn) withFaults(r *jsonrpc.Response) (*jsonrpc.Response, error) {
	id := string(rawID(r.ID))
	c.mu.Lock()
	p, polled := c.polls[id]
	delete(c.polls, id)
	delete(c.streams, id)
	c.mu.Unlock()
	if !polled || r.Error != nil {
		return r, nil
	}
	c.link.mu.Lock()
	waiting := c.link.pollers[p]
	c.link.pollers[p] = nil // registered with its first response
	c.link.mu.Unlock()
	changed := *r
	for _, m := range waiting {
		if err := m.applyTo(&changed); err != nil {
			return nil, err
		}
		if m.end != nil {
			c.link.mu.Lock()
			delete(c.link.pollers, p) // faults after the end have no subscription
			c.link.mu.Unlock()
			break
		}
	}
	return &changed, nil
}

// inject simulates a fault on the streams of an event type, and reports whether there are such streams.
func (c *serverConn) inject(event string, made fault) (found bool, err error) {
	c.write.Lock()
	defer c.write.Unlock()
	c.mu.Lock()
	var streams []*stream
	for id, s := range c.streams {
		if s.event != event || s.cursor == nil {
			continue
		}
		streams = append(streams, s)
		if made.end != nil {
			delete(c.streams, id)
		}
	}
	c.mu.Unlock()
	for _, s := range streams {
		method, params := made.asNotification(s)
		raw, err := json.Marshal(params)
		if err != nil {
			return true, err
		}
		if err := c.Connection.Write(c.link.ctx, &jsonrpc.Request{Method: method, Params: raw}); err != nil {
			return true, err
		}
	}
	return len(streams) > 0, nil
}

func rawID(id jsonrpc.ID) json.RawMessage {
	b, err := json.Marshal(id.Raw())
	if err != nil {
		return nil
	}
	return b
}
