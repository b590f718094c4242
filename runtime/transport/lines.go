package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
// PUSH-2). A malformed line does not end the connection. Read returns a *lineError for it, and the next call continues
// with the next line.
type lineConn struct {
	r     io.ReadCloser
	w     io.WriteCloser
	limit int // limit of a line in bytes; negative for no limit
	// maxParams is the maximum size in bytes of the params of the extension's methods.
	maxParams int
	incoming  chan line
	closed    chan struct{}
	close     func() error

	logging sync.Mutex
	log     io.Writer // logs messages of both directions in the form of [mcp.LoggingTransport]; may be nil

	mu   sync.Mutex
	open map[string]json.RawMessage // the IDs of the open calls as received, by idKey
}

// A lineCall is stored in the Extra field of an extension call.
type lineCall struct {
	id    json.RawMessage // as received
	extra *mcp.RequestExtra
}

type line struct {
	data    []byte
	extra   *mcp.RequestExtra // of the POST over HTTP+SSE, otherwise nil
	tooLong bool
	err     error
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
		open: map[string]json.RawMessage{}}
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
		msg, bad := c.decode(l)
		if bad != nil {
			return nil, &lineError{bad}
		}
		if msg != nil {
			return msg, nil
		}
	}
}

// decode returns the message of a line, and opens it if it is a call. It returns nil if the line needs no answer.
func (c *lineConn) decode(l line) (jsonrpc.Message, *malformedError) {
	if l.tooLong {
		return nil, parseError("the line is longer than " + strconv.Itoa(c.limit) + " bytes")
	}
	p, bad := parsePostBody(l.data, c.maxParams)
	env := p.env
	switch {
	case bad != nil && env.error != nil && env.method == "":
		return nil, nil // an error response without an ID must not be answered
	case bad != nil:
		return nil, bad
	case env.isCall() && c.isOpen(env.id):
		// A response with this ID would answer the other call.
		return nil, invalidRequest("/id " + wire.Shown(string(env.id)) + " is in use by an unanswered request")
	case isEvents(env.method):
		id := bytes.Clone(env.id)
		c.openCall(id)
		return &jsonrpc.Request{ID: sdkID(id), Method: env.method, Params: env.params, Extra: &lineCall{id, l.extra}}, nil
	}
	var req *jsonrpc.Request
	if env.isCall() && !isPreservedID(env.id) {
		req = &jsonrpc.Request{ID: sdkID(env.id), Method: env.method, Params: env.params}
	} else {
		msg, err := jsonrpc.DecodeMessage(l.data)
		if err != nil {
			return nil, invalidRequest("the message is not valid JSON-RPC")
		}
		if req, _ = msg.(*jsonrpc.Request); req == nil {
			return msg, nil // a response
		}
	}
	if env.isCall() {
		c.openCall(bytes.Clone(env.id))
	}
	if l.extra != nil {
		req.Extra = l.extra
	}
	return req, nil
}

func (c *lineConn) isOpen(id json.RawMessage) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, open := c.open[idKey(id)]
	return open
}

func (c *lineConn) openCall(id json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[idKey(id)] = id
}

// received returns the ID of an open call as received, given an equal ID, or id if the call is not open.
func (c *lineConn) received(id json.RawMessage) json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if own := c.open[idKey(id)]; own != nil {
		return own
	}
	return id
}

// closeCall removes an answered call, or a call that will not be answered.
func (c *lineConn) closeCall(id json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, idKey(id))
}

// Write writes one message.
func (c *lineConn) Write(_ context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	if resp, ok := msg.(*jsonrpc.Response); ok && resp.ID.IsValid() {
		return c.writeResponse(encodeID(resp.ID), restoreIDs(data))
	}
	return c.write(restoreIDs(data))
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

// writeResponse writes the response to a call.
func (c *lineConn) writeResponse(id json.RawMessage, response []byte) error {
	c.closeCall(id)
	return c.write(response)
}

// joinFrames encodes notifications as lines for a single write.
func joinFrames(frames []frame.Frame) []byte {
	pieces := make([][]byte, 0, 5*len(frames))
	for i := range frames {
		pieces = append(append(pieces, frames[i][:]...), []byte("\n"))
	}
	return bytes.Join(pieces, nil)
}

// Close closes both ends.
func (c *lineConn) Close() error { return c.close() }

// encodeID returns a JSON-RPC ID as JSON, encoded as the SDK does. It replaces an alias by its ID.
func encodeID(id jsonrpc.ID) json.RawMessage {
	b, err := jsonv2.Marshal(id.Raw())
	if err != nil {
		return json.RawMessage("null")
	}
	return restoreIDs(b)
}
