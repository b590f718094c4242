package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
)

// A lineConn is a connection of newline-delimited JSON, as the SDK's stdio and io transports are.
// It exists beside them because it keeps what theirs gives up: the bytes of a request's id, which
// answers and notifications repeat unchanged (CAP-6, PUSH-2), whether a request came in a batch, and
// the connection when a line is none of JSON-RPC: Read returns that as a *lineError and can go on.
//
// Every call reaches the SDK under an alias of its own, so that calls whose ids differ for the client
// only, or follow each other, never meet there.
type lineConn struct {
	r     io.ReadCloser
	w     io.WriteCloser
	limit int // of a line in bytes; negative for none
	// maxParams bounds the params of the extension's methods, in bytes.
	maxParams int
	incoming  chan line
	closed    chan struct{}
	close     func() error

	queue []jsonrpc.Message // the rest of a batch; used by Read only

	mu       sync.Mutex
	revision string               // of a legacy session
	count    uint64               // of calls
	calls    map[string]*lineCall // open, by alias
	open     map[string]*lineCall // the same, by idKey
}

// A lineCall is an open call.
type lineCall struct {
	alias  string
	key    string
	raw    json.RawMessage
	listen bool // its notifications carry its id
	batch  *batch
	place  int // in the batch
}

type line struct {
	data    []byte
	tooLong bool
	err     error
}

// A batch collects the responses to the calls of a JSON-RPC batch, in order.
type batch struct {
	responses [][]byte
	missing   int
}

// A lineError is a line that is no message. The connection goes on after it.
type lineError struct{ *malformed }

// newLineConn reads from r and writes to w; limit bounds one message, 0 for the SDK's default, < 0
// for none.
func newLineConn(r io.ReadCloser, w io.WriteCloser, limit, maxParams int) *lineConn {
	c := makeLineConn(r, w, limit, maxParams)
	go c.readLines()
	return c
}

// makeLineConn makes a connection whose lines come some other way than from r.
func makeLineConn(r io.ReadCloser, w io.WriteCloser, limit, maxParams int) *lineConn {
	if limit == 0 {
		limit = mcp.DefaultMaxLineLength
	}
	c := &lineConn{r: r, w: w, limit: limit, maxParams: maxParams, incoming: make(chan line), closed: make(chan struct{}),
		calls: map[string]*lineCall{}, open: map[string]*lineCall{}}
	c.close = sync.OnceValue(func() error {
		err := errors.Join(r.Close(), w.Close())
		close(c.closed)
		return err
	})
	return c
}

// readLines runs apart from Read, since a read of standard input cannot be interrupted.
func (c *lineConn) readLines() {
	r := bufio.NewReader(c.r)
	for {
		l := c.nextLine(r)
		if len(bytes.Trim(l.data, " \t\r\n")) == 0 && !l.tooLong && l.err == nil {
			continue
		}
		select {
		case c.incoming <- l:
		case <-c.closed:
			return
		}
		if l.err != nil {
			return
		}
	}
}

// nextLine reads one line, of which nothing is kept when it is too long. A last line may lack its end.
func (c *lineConn) nextLine(r *bufio.Reader) (l line) {
	for {
		part, err := r.ReadSlice('\n')
		if l.tooLong = l.tooLong || c.limit >= 0 && len(l.data)+len(part) > c.limit; l.tooLong {
			l.data = nil
		} else {
			l.data = append(l.data, part...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && (l.tooLong || len(bytes.Trim(l.data, " \t\r\n")) > 0):
			return l // the next read ends the connection
		}
		l.err = err
		return l
	}
}

// SessionID is empty: a line connection is its own session.
func (c *lineConn) SessionID() string { return "" }

// Read returns the next message. After a *lineError there may be more.
func (c *lineConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		if len(c.queue) > 0 {
			next := c.queue[0]
			c.queue = c.queue[1:]
			return next, nil
		}
		var l line
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.closed:
			return nil, io.EOF
		case l = <-c.incoming:
		}
		if l.err != nil {
			return nil, l.err
		}
		if bad := c.take(l); bad != nil {
			return nil, &lineError{bad}
		}
	}
}

// take queues the messages of a line, all or none.
func (c *lineConn) take(l line) *malformed {
	if l.tooLong {
		return parseError("the line is longer than " + strconv.Itoa(c.limit) + " bytes")
	}
	c.mu.Lock()
	batches := c.revision < revisionUnbatched
	c.mu.Unlock()
	p, bad := parsePosted(l.data, batches, c.maxParams)
	if bad != nil {
		if p.batch == nil && p.env.error != nil && p.env.method == "" {
			return nil // an error without an id: to answer it would answer an answer
		}
		return bad
	}
	parts, envs := p.parts, p.batch
	if envs == nil {
		parts, envs = []json.RawMessage{l.data}, []envelope{p.env}
	}
	var opened []*lineCall
	for _, env := range envs {
		if !env.isCall() {
			continue
		}
		opened = append(opened, &lineCall{key: idKey(env.id), raw: bytes.Clone(env.id), listen: env.method == methodListen})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range opened {
		if c.open[k.key] != nil {
			// To answer under that id would answer the other call.
			return invalidRequest("/id " + wire.Shown(string(k.raw)) + " is that of a request without an answer yet")
		}
	}
	var b *batch
	if p.batch != nil {
		b = &batch{responses: make([][]byte, len(opened)), missing: len(opened)}
	}
	var msgs []jsonrpc.Message
	next := opened
	for i, env := range envs {
		data := []byte(parts[i])
		switch {
		case env.isCall():
			k := next[0]
			k.batch, k.place, next = b, len(opened)-len(next), next[1:]
			c.count++
			k.alias = aliasOf(k.raw, c.count)
			data = splice(data, env.idAt, env.idAt+len(env.id), aliasValue(k.alias))
		case env.method == methodCancelled:
			data = c.aliasCancel(data)
		}
		msg, err := jsonrpc.DecodeMessage(data)
		if err != nil {
			return invalidRequest("the message is not as JSON-RPC has it")
		}
		msgs = append(msgs, msg)
	}
	for _, k := range opened {
		c.calls[k.alias], c.open[k.key] = k, k
	}
	c.queue = msgs
	return nil
}

// aliasCancel names the call that a cancel is about as the SDK knows it. c.mu is held.
func (c *lineConn) aliasCancel(data []byte) []byte {
	start, end, ok := locate(data, "params", memberRequestID)
	if !ok || !isID(data[start:end]) {
		return data
	}
	if k := c.open[idKey(data[start:end])]; k != nil {
		return splice(data, start, end, aliasValue(k.alias))
	}
	return data // of no open call: every open one has an alias
}

// callOf returns the open call that the SDK knows as id. c.mu is held.
func (c *lineConn) callOf(id jsonrpc.ID) *lineCall {
	alias, _ := id.Raw().(string)
	return c.calls[alias]
}

// idOf returns the bytes of an open call's id, and whether the call came in a batch.
func (c *lineConn) idOf(id jsonrpc.ID) (raw json.RawMessage, batched bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.callOf(id); k != nil {
		return k.raw, k.batch != nil
	}
	return rawOf(id), false
}

// negotiated tells the connection which legacy revision its session has.
func (c *lineConn) negotiated(revision string) {
	c.mu.Lock()
	c.revision = revision
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
	} else {
		data = restoreIDs(data)
	}
	_, err = c.w.Write(append(data, '\n'))
	return err
}

// answer gives a response the id of its call as it was received. It returns nil for a response
// that waits for the others of its batch.
func (c *lineConn) answer(id jsonrpc.ID, data []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.callOf(id)
	if k == nil {
		return restoreIDs(data)
	}
	head := responseHead(aliasValue(k.alias))
	if rest, ok := bytes.CutPrefix(data, head); ok && !k.listen {
		data = append(responseHead(k.raw), rest...)
	} else {
		data = restoreIDs(data)
	}
	c.forget(k)
	if k.batch == nil {
		return data
	}
	k.batch.responses[k.place] = data
	return k.batch.settle()
}

// responseHead is how a response begins as the SDK writes it.
func responseHead(id json.RawMessage) []byte {
	return append([]byte(`{"jsonrpc":"2.0","id":`), id...)
}

func (c *lineConn) forget(k *lineCall) {
	delete(c.calls, k.alias)
	if c.open[k.key] == k {
		delete(c.open, k.key)
	}
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
	var data []byte
	if k := c.callOf(id); k != nil {
		c.forget(k)
		if k.batch != nil {
			data = k.batch.settle()
		}
	}
	c.mu.Unlock()
	if data == nil {
		return nil
	}
	_, err := c.w.Write(append(data, '\n'))
	return err
}

// joinFrames returns notifications as lines, for one write.
func joinFrames(frames []frame.Frame) []byte {
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
