package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// A lineConn is a connection with newline-delimited JSON, like the SDK's stdio and io transports. Unlike those, it
// preserves the bytes of a request's ID, which the extension's responses and notifications repeat unchanged (CAP-6,
// PUSH-2). It also records whether a request was part of a batch. A malformed line does not end the connection. Read
// returns a *lineError for it, and the next call continues with the next line.
type lineConn struct {
	r     io.ReadCloser
	w     io.WriteCloser
	limit int // limit of a line in bytes; negative for no limit
	// maxParams is the maximum size in bytes of the params of the extension's methods.
	maxParams int
	incoming  chan line
	closed    chan struct{}
	close     func() error

	queue []jsonrpc.Message // the rest of a batch; only Read uses it

	logging sync.Mutex
	log     io.Writer // logs messages of both directions in the form of [mcp.LoggingTransport]; may be nil

	mu       sync.Mutex
	revision string               // the legacy session's
	open     map[string]*lineCall // the open calls, by idKey
}

// A lineCall is an open call. For extension calls, it is stored in the request's Extra field.
type lineCall struct {
	key   string
	raw   json.RawMessage
	batch *batch // nil outside a batch
	place int    // in the batch
}

type line struct {
	data    []byte
	tooLong bool
	err     error
}

// A batch collects the responses to a JSON-RPC batch in the order of its calls.
type batch struct {
	responses [][]byte
	missing   int
}

// A lineError reports a line that is not a valid message. It does not end the connection.
type lineError struct{ *malformedError }

// newLineConn returns a connection that reads from r and writes to w. The limit is the maximum size of a line; 0 means
// the SDK's default, negative no limit.
func newLineConn(r io.ReadCloser, w io.WriteCloser, limit, maxParams int) *lineConn {
	c := makeLineConn(r, w, limit, maxParams)
	go c.readLines()
	return c
}

// makeLineConn is like newLineConn, but the connection does not read lines from r.
func makeLineConn(r io.ReadCloser, w io.WriteCloser, limit, maxParams int) *lineConn {
	if limit == 0 {
		limit = mcp.DefaultMaxLineLength
	}
	c := &lineConn{r: r, w: w, limit: limit, maxParams: maxParams, incoming: make(chan line), closed: make(chan struct{}),
		open: map[string]*lineCall{}}
	c.close = sync.OnceValue(func() error {
		err := errors.Join(r.Close(), w.Close())
		close(c.closed)
		return err
	})
	return c
}

// readLines reads lines until an error occurs or the connection is closed. It needs a separate goroutine, because a
// read from standard input cannot be interrupted.
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

// nextLine reads a line and discards its data if it is too long. The last line need not end with a newline.
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

// SessionID returns "", because a line connection has only one session.
func (c *lineConn) SessionID() string { return "" }

// Read returns the next message. It can be called again after it has returned a *lineError.
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
		c.logMessage("read", l.data)
		if bad := c.enqueue(l); bad != nil {
			return nil, &lineError{bad}
		}
	}
}

// enqueue queues either all messages of a line or none.
func (c *lineConn) enqueue(l line) *malformedError {
	if l.tooLong {
		return parseError("the line is longer than " + strconv.Itoa(c.limit) + " bytes")
	}
	c.mu.Lock()
	batches := c.revision < revisionUnbatched
	c.mu.Unlock()
	p, bad := parsePostBody(l.data, batches, c.maxParams)
	if bad != nil {
		if p.batch == nil && p.env.error != nil && p.env.method == "" {
			return nil // an error response without an ID must not be answered
		}
		return bad
	}
	parts, envs := p.parts, p.batch
	if envs == nil {
		parts, envs = []json.RawMessage{l.data}, []envelope{p.env}
	}
	var opened []*lineCall
	var b *batch
	if p.batch != nil {
		b = &batch{}
	}
	var msgs []jsonrpc.Message
	var unfit *malformedError
	for i, env := range envs {
		msg := &jsonrpc.Request{Method: env.method, Params: env.params}
		if env.isCall() {
			k := &lineCall{key: idKey(env.id), raw: bytes.Clone(env.id), batch: b, place: len(opened)}
			opened = append(opened, k)
			msg.ID, msg.Extra = sdkID(env.id), k
		}
		if isEvents(env.method) && env.isCall() {
			msgs = append(msgs, msg)
			continue
		}
		if env.isCall() && !isPreservedID(env.id) {
			unfit = invalidIDError(env.id)
			continue
		}
		decoded, err := jsonrpc.DecodeMessage(parts[i])
		if err != nil {
			return invalidRequest("the message is not valid JSON-RPC")
		}
		msgs = append(msgs, decoded)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range opened {
		if c.open[k.key] != nil {
			// A response with this ID would answer the other call.
			return invalidRequest("/id " + wire.Shown(string(k.raw)) + " is in use by an unanswered request")
		}
	}
	if unfit != nil {
		if b != nil {
			unfit.id = nil // the ID of one part; the whole batch is refused
		}
		return unfit
	}
	for _, k := range opened {
		c.open[k.key] = k
	}
	if b != nil {
		b.responses, b.missing = make([][]byte, len(opened)), len(opened)
	}
	c.queue = msgs
	return nil
}

// isBatched reports whether an open call is part of a batch.
func (c *lineConn) isBatched(id jsonrpc.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.open[idKey(encodeID(id))]
	return k != nil && k.batch != nil
}

// setRevision sets the revision of the legacy session.
func (c *lineConn) setRevision(revision string) {
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
	if resp, ok := msg.(*jsonrpc.Response); ok && resp.ID.IsValid() {
		return c.writeResponse(idKey(encodeID(resp.ID)), data)
	}
	return c.write(data)
}

// write writes lines. The last line need not end with a newline.
func (c *lineConn) write(lines []byte) error {
	lines = append(bytes.TrimSuffix(lines, []byte("\n")), '\n')
	for line := range bytes.Lines(lines) {
		c.logMessage("write", line)
	}
	_, err := c.w.Write(lines)
	return err
}

// logMessage logs a line that was read or written.
func (c *lineConn) logMessage(what string, line []byte) {
	if c.log != nil {
		c.logging.Lock()
		defer c.logging.Unlock()
		_, _ = fmt.Fprintf(c.log, "%s: %s\n", what, bytes.TrimRight(line, "\r\n"))
	}
}

// writeResponse writes the response to a call. If the call is part of a batch, it instead writes all responses once the
// batch is complete.
func (c *lineConn) writeResponse(key string, response []byte) error {
	c.mu.Lock()
	if k := c.open[key]; k != nil {
		delete(c.open, key)
		if k.batch != nil {
			k.batch.responses[k.place] = response
			response = k.batch.settleCall()
		}
	}
	c.mu.Unlock()
	if response == nil {
		return nil
	}
	return c.write(response)
}

// settleCall records that a call is settled. After the last call, it returns the response to the batch.
func (b *batch) settleCall() []byte {
	b.missing--
	given := slices.DeleteFunc(slices.Clone(b.responses), func(r []byte) bool { return r == nil })
	if b.missing > 0 || len(given) == 0 {
		return nil
	}
	all := append([]byte{'['}, bytes.Join(given, []byte{','})...)
	return append(all, ']')
}

// skipResponse settles a call without a response, which may complete its batch.
func (c *lineConn) skipResponse(key string) error {
	c.mu.Lock()
	k := c.open[key]
	delete(c.open, key)
	var data []byte
	if k != nil && k.batch != nil {
		data = k.batch.settleCall()
	}
	c.mu.Unlock()
	if data == nil {
		return nil
	}
	return c.write(data)
}

// joinFrames encodes notifications as lines for a single write.
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

// encodeID returns a JSON-RPC ID as JSON, encoded as the SDK does.
func encodeID(id jsonrpc.ID) json.RawMessage {
	b, err := jsonv2.Marshal(id.Raw())
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}
