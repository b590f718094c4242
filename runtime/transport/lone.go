package transport

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A lone is the connection of one request of the stateless revision with the SDK's server: it gives
// the request, takes the answer, and ends. The SDK's own HTTP handler makes a transport with streams
// that can be resumed, which this revision does not have; without it a call costs less than half.
// Receiving middleware sees the same session, params, extra, context values and cancellation.
type lone struct {
	w http.ResponseWriter
	r *http.Request
	// id is the request's, as the client wrote it. Between us and the SDK it has another one.
	id      json.RawMessage
	request *jsonrpc.Request // nil once it was read

	answered chan struct{} // closed by the answer, or when the connection is closed

	out    sync.Mutex // held while writing to the client, for as long as that takes
	opened bool       // the headers of events have been written; guarded by out

	mu     sync.Mutex
	over   bool              // answered is closed
	answer *jsonrpc.Response // nil without one
}

var loneID, _ = jsonrpc.MakeID("1")

// lonely reports whether the SDK would take a call of the extension as it is, so that [lone] may carry
// it. Others go to the SDK's handler, which says what is wrong.
func (h *handler) lonely(r *http.Request, env envelope) bool {
	switch env.method {
	case wire.MethodList, wire.MethodPoll, wire.MethodSubscribe, wire.MethodUnsubscribe:
	default:
		return false
	}
	if !env.isCall() || env.result != nil || env.error != nil {
		return false
	}
	who, ok := h.callers.look(env.meta)
	return ok && who.version == r.Header.Get(headerVersion)
}

// serveLone answers a call through the server and its receiving middleware. The request has passed
// [acceptable] and [handler.lonely].
func (h *handler) serveLone(w http.ResponseWriter, r *http.Request, env envelope) {
	c := &lone{w: w, r: r, id: env.id, answered: make(chan struct{})}
	c.request = &jsonrpc.Request{ID: loneID, Method: env.method, Params: env.params, Extra: &mcp.RequestExtra{
		TokenInfo: auth.TokenInfoFromContext(r.Context()), Header: r.Header,
		// The revision has no streams that a client could take up again.
		CloseSSEStream: func(mcp.CloseSSEStreamArgs) {},
	}}
	session, err := h.srv.Connect(r.Context(), c, nil)
	if err != nil {
		h.log.ErrorContext(r.Context(), "connecting a request to the server failed", "error", err)
		http.Error(w, "failed connection", http.StatusInternalServerError)
		return
	}
	defer session.Close() // waits for the handler, whose context is over when the client has gone
	select {
	case <-c.answered:
		c.finish()
	case <-r.Context().Done():
		_ = c.Close()
	}
}

// Connect makes it an [mcp.Transport].
func (c *lone) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID is empty: there is no session beyond the request.
func (c *lone) SessionID() string { return "" }

// Read returns the request, and then the end: once it is answered, or when the client has gone, which
// cancels the context of the handler.
func (c *lone) Read(ctx context.Context) (jsonrpc.Message, error) {
	if req := c.request; req != nil {
		c.request = nil // Read has one caller
		return req, nil
	}
	select {
	case <-c.answered:
	case <-c.r.Context().Done():
	case <-ctx.Done():
	}
	return nil, io.EOF
}

// Write takes the answer, or sends what a handler or middleware sends before it.
func (c *lone) Write(_ context.Context, msg jsonrpc.Message) error {
	if answer, ok := msg.(*jsonrpc.Response); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.over {
			return mcp.ErrConnectionClosed
		}
		c.answer, c.over = answer, true
		close(c.answered)
		return nil
	}
	c.out.Lock()
	defer c.out.Unlock()
	c.mu.Lock()
	over := c.over
	c.mu.Unlock()
	if over {
		return mcp.ErrConnectionClosed
	}
	b, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	if err := c.writeEvent(b); err != nil {
		return err
	}
	return http.NewResponseController(c.w).Flush()
}

// Close ends what still waits. It does not wait for the client.
func (c *lone) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.over = true
		close(c.answered)
	}
	return nil
}

// finish writes the answer as the SDK's handler does: as an event, or with a status of its own (ERR-3).
func (c *lone) finish() {
	c.mu.Lock()
	answer := c.answer
	c.mu.Unlock()
	c.out.Lock()
	defer c.out.Unlock()
	switch {
	case answer == nil: // closed
	case answer.Error == nil:
		_ = c.writeEvent(appendResponse(nil, c.id, "result", answer.Result))
	default:
		c.finishError(answer)
	}
}

func (c *lone) finishError(answer *jsonrpc.Response) {
	encoded, err := jsonrpc.EncodeMessage(answer)
	if err != nil {
		return // errors of the SDK can be encoded
	}
	msg := appendResponse(nil, c.id, "error", member(encoded, "error"))
	status := http.StatusOK
	if jerr := (*jsonrpc.Error)(nil); errors.As(answer.Error, &jerr) {
		status = statusOf(jerr.Code)
	}
	if status == http.StatusOK || c.opened {
		_ = c.writeEvent(msg)
		return
	}
	c.w.Header().Set("Cache-Control", "no-cache, no-transform")
	c.w.Header().Set("Content-Type", contentTypeJSON)
	c.w.WriteHeader(status)
	_, _ = c.w.Write(msg)
}

// writeEvent writes one message in the SDK's framing. c.out is held.
func (c *lone) writeEvent(msg []byte) error {
	if !c.opened {
		c.opened = true
		h := c.w.Header()
		h.Set("Content-Type", contentTypeEvents)
		h.Set("Cache-Control", "no-cache, no-transform")
		h.Set("Connection", "keep-alive")
		c.w.WriteHeader(http.StatusOK)
	}
	const head, tail = "event: message\ndata: ", "\n\n"
	b := make([]byte, 0, len(head)+len(msg)+len(tail))
	b = append(append(append(b, head...), msg...), tail...)
	_, err := c.w.Write(b)
	return err
}
