package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// A lineConn is a connection of newline-delimited JSON, as the SDK's stdio and io transports are.
// It exists beside them because it keeps what theirs gives up: the bytes of a request's id, which
// answers and notifications repeat unchanged (PUSH-2), and whether a request came in a batch.
type lineConn struct {
	r        io.ReadCloser
	w        io.WriteCloser
	incoming chan line
	closed   chan struct{}
	close    func() error

	queue []jsonrpc.Message // the rest of a batch; used by Read only

	mu       sync.Mutex
	unbatch  bool                           // the revision allows no batches
	ids      map[jsonrpc.ID]json.RawMessage // of open calls whose id the SDK would write otherwise
	batches  map[jsonrpc.ID]*batch          // of open calls that came in one
	revision string
}

type line struct {
	data json.RawMessage
	err  error
}

// A batch collects the responses to the calls of a JSON-RPC batch, in order.
type batch struct {
	place     map[jsonrpc.ID]int
	responses [][]byte
	missing   int
}

var errLineTooLong = errors.New("transport: a message is longer than the connection allows")

// newLineConn reads from r and writes to w; limit bounds one message, 0 for the SDK's default, < 0
// for none.
func newLineConn(r io.ReadCloser, w io.WriteCloser, limit int) *lineConn {
	if limit == 0 {
		limit = mcp.DefaultMaxLineLength
	}
	c := &lineConn{r: r, w: w, incoming: make(chan line), closed: make(chan struct{}),
		ids: map[jsonrpc.ID]json.RawMessage{}, batches: map[jsonrpc.ID]*batch{}}
	c.close = sync.OnceValue(func() error {
		err := errors.Join(r.Close(), w.Close())
		close(c.closed)
		return err
	})
	go c.readLines(limit)
	return c
}

// readLines runs apart from Read, since a read of standard input cannot be interrupted.
func (c *lineConn) readLines(limit int) {
	bounded := &boundedReader{r: c.r, limit: limit}
	dec := json.NewDecoder(bounded)
	for {
		var l line
		l.err = dec.Decode(&l.data)
		select {
		case c.incoming <- l:
		case <-c.closed:
			return
		}
		if l.err != nil {
			return
		}
		bounded.read = 0
	}
}

// A boundedReader fails when more than limit bytes were read since read was last set to 0.
type boundedReader struct {
	r           io.Reader
	limit, read int
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.limit < 0 {
		return b.r.Read(p)
	}
	if b.read >= b.limit {
		return 0, errLineTooLong
	}
	n, err := b.r.Read(p[:min(len(p), b.limit-b.read)])
	b.read += n
	return n, err
}

// SessionID is empty: a line connection is its own session.
func (c *lineConn) SessionID() string { return "" }

// Read returns the next message.
func (c *lineConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	if len(c.queue) > 0 {
		next := c.queue[0]
		c.queue = c.queue[1:]
		return next, nil
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.closed:
		return nil, io.EOF
	case l := <-c.incoming:
		if l.err != nil {
			return nil, l.err
		}
		if data := bytes.TrimLeft(l.data, " \t\r\n"); len(data) > 0 && data[0] == '[' {
			return c.readBatch(data)
		}
		return c.decode(l.data)
	}
}

// decode decodes one message and keeps the bytes of a call's id where they would be lost.
func (c *lineConn) decode(data json.RawMessage) (jsonrpc.Message, error) {
	msg, err := jsonrpc.DecodeMessage(data)
	if err != nil {
		return nil, err
	}
	if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
		if env, ok := parseEnvelope(data); ok && env.id != nil && !bytes.Equal(env.id, encodeID(req.ID)) {
			c.mu.Lock()
			c.ids[req.ID] = env.id
			c.mu.Unlock()
		}
	}
	return msg, nil
}

func (c *lineConn) readBatch(data json.RawMessage) (jsonrpc.Message, error) {
	c.mu.Lock()
	refuse, revision := c.unbatch, c.revision
	c.mu.Unlock()
	if refuse {
		return nil, fmt.Errorf("transport: revision %s has no JSON-RPC batches", revision)
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, errors.New("transport: empty JSON-RPC batch")
	}
	b := &batch{place: map[jsonrpc.ID]int{}}
	var msgs []jsonrpc.Message
	for _, part := range parts {
		msg, err := c.decode(part)
		if err != nil {
			return nil, err
		}
		if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
			if _, twice := b.place[req.ID]; twice {
				return nil, fmt.Errorf("transport: id %v twice in a JSON-RPC batch", req.ID.Raw())
			}
			b.place[req.ID] = b.missing
			b.missing++
		}
		msgs = append(msgs, msg)
	}
	b.responses = make([][]byte, b.missing)
	c.mu.Lock()
	for id := range b.place {
		c.batches[id] = b
	}
	c.mu.Unlock()
	c.queue = msgs[1:]
	return msgs[0], nil
}

// idOf returns the bytes of an open call's id, and whether the call came in a batch.
func (c *lineConn) idOf(id jsonrpc.ID) (raw json.RawMessage, batched bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, batched = c.batches[id]
	if raw, ok := c.ids[id]; ok {
		return raw, batched
	}
	return encodeID(id), batched
}

// negotiated tells the connection which legacy revision its session has.
func (c *lineConn) negotiated(revision string) {
	c.mu.Lock()
	c.revision, c.unbatch = revision, revision >= "2025-06-18"
	c.mu.Unlock()
}

// Write writes one message.
func (c *lineConn) Write(_ context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	if resp, ok := msg.(*jsonrpc.Response); ok {
		if data = c.answer(resp.ID, data); data == nil {
			return nil
		}
	}
	_, err = c.w.Write(append(data, '\n'))
	return err
}

// answer gives a response the id of its call as it was received. It returns nil for a response
// that waits for the others of its batch.
func (c *lineConn) answer(id jsonrpc.ID, data []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if raw, ok := c.ids[id]; ok {
		delete(c.ids, id)
		data = replaceMember(data, "id", raw)
	}
	b := c.batches[id]
	if b == nil {
		return data
	}
	delete(c.batches, id)
	b.responses[b.place[id]] = data
	return b.settle()
}

// settle counts one call as settled and returns the responses once all are.
func (b *batch) settle() []byte {
	b.missing--
	given := slices.DeleteFunc(slices.Clone(b.responses), func(r []byte) bool { return r == nil })
	if b.missing > 0 || len(given) == 0 {
		return nil
	}
	all := append([]byte{'['}, bytes.Join(given, []byte{','})...)
	return append(all, ']')
}

// skip settles a call that gets no answer, which may complete its batch.
func (c *lineConn) skip(id jsonrpc.ID) error {
	c.mu.Lock()
	delete(c.ids, id)
	var data []byte
	if b := c.batches[id]; b != nil {
		delete(c.batches, id)
		data = b.settle()
	}
	c.mu.Unlock()
	if data == nil {
		return nil
	}
	_, err := c.w.Write(append(data, '\n'))
	return err
}

// joinFrames returns notifications as lines, for one write.
func joinFrames(frames []server.Frame) []byte {
	size := 0
	for _, f := range frames {
		size += len(f.Head) + len(f.Tail) + 1
	}
	b := make([]byte, 0, size)
	for _, f := range frames {
		b = append(b, f.Head...)
		b = append(b, f.Tail...)
		b = append(b, '\n')
	}
	return b
}

// Close closes both ends.
func (c *lineConn) Close() error { return c.close() }

// encodeID returns a JSON-RPC id as the SDK writes it.
func encodeID(id jsonrpc.ID) json.RawMessage {
	b, err := jsonv2.Marshal(id.Raw())
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}
