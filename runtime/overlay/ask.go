package overlay

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sse"
)

// askTimeout is how long next may take to answer a question.
const askTimeout = 10 * time.Second

// A question is a request that the handler sends to next on behalf of a caller.
type question struct {
	id     jsontext.Value
	method string
	body   []byte
	modern bool
}

// newQuestion returns a question with the _meta of the caller's message. Its ID is not the ID of any call.
func newQuestion(method string, m message, modern bool) question {
	q := question{id: jsontext.Value(`"events ` + rand.Text() + `"`), method: method, modern: modern}
	params := []byte(`{}`)
	if meta := m.meta(); meta != nil && method != methodPing {
		params = slices.Concat([]byte(`{"_meta":`), meta, []byte(`}`))
	}
	q.body = slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), q.id, []byte(`,"method":"`+method+`","params":`), params, []byte(`}`))
	return q
}

// whetherAccepted returns the question whether next accepts the sender of m.
func (h *handler) whetherAccepted(m message, modern bool) question {
	method := methodPing
	switch {
	case h.ask == AskToolsList:
		method = methodToolsList
	case modern || m.namesModern():
		method = methodDiscover
	}
	return newQuestion(method, m, modern)
}

// request returns the question as a request with the headers of r.
func (q question) request(ctx context.Context, r *http.Request) *http.Request {
	c := r.Clone(ctx)
	c.Method = http.MethodPost
	c.Body, c.ContentLength, c.TransferEncoding = io.NopCloser(bytes.NewReader(q.body)), int64(len(q.body)), nil
	for name := range c.Header {
		switch {
		case name == "Accept-Encoding", name == "Content-Length", name == "Expect", name == headerLastEventID,
			name == wire.HeaderName, name == wire.HeaderMethod, strings.HasPrefix(name, "Mcp-Param-"):
			c.Header.Del(name)
		}
	}
	if q.modern {
		c.Header.Set(wire.HeaderMethod, q.method)
	}
	return c
}

// An answer is the answer to a question.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
	limit  int
	got    func() // called when the answer is complete
	isOver bool   // the body exceeds the limit

	message  message // the JSON-RPC response
	answered bool    // there is one
}

func (a *answer) Header() http.Header { return a.header }

// Flush implements [http.Flusher], which some servers require.
func (a *answer) Flush() {}

// WriteHeader records the first final status.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
}

// Write collects the body. In an event stream, it looks for the response, because the stream may stay open.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.isOver = a.isOver || a.body.Len()+len(p) > a.limit; a.isOver {
		return 0, errTooLong
	}
	a.body.Write(p)
	if mediaType(a.header) == sse.ContentType {
		a.readEvents()
	}
	return len(p), nil
}

// readEvents removes complete events from the body and looks for the response.
func (a *answer) readEvents() {
	for !a.answered {
		event, _, ok := sse.Cut(a.body.Bytes())
		if !ok {
			return
		}
		if m, ok := parse(sse.Data(event)); ok && m.isResponse() {
			a.message, a.answered = m, true
			a.got()
		}
		a.body.Next(len(event))
	}
}

var errTooLong = errors.New("the answer is too long")

// put asks a handler a question. It returns an error if the answer is neither a JSON-RPC response nor an HTTP error.
func (h *handler) put(ctx context.Context, to http.Handler, r *http.Request, q question) (a *answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	a = &answer{header: http.Header{}, limit: h.maxAnswer, got: cancel}
	defer func() {
		if v := recover(); v != nil && !a.answered { // httputil.ReverseProxy panics if its server disconnects
			err = fmt.Errorf("the handler panicked: %v", v)
		}
	}()
	to.ServeHTTP(a, q.request(ctx, r))
	switch {
	case a.answered:
	case a.isOver:
		return a, fmt.Errorf("%w: more than %d bytes", errTooLong, a.limit)
	case ctx.Err() != nil:
		return a, ctx.Err()
	default:
		a.message, a.answered = parse(a.body.Bytes())
		a.answered = a.answered && a.message.isResponse()
	}
	if !a.answered && a.status < http.StatusMultipleChoices {
		return a, fmt.Errorf("%s was answered with status %d, Content-Type %q and no JSON-RPC response", q.method, a.status, wire.Shown(a.header.Get("Content-Type")))
	}
	return a, nil
}

// consents reports whether next accepts the caller. A server that answers that it does not support ping has accepted the
// caller before.
func (a *answer) consents(q question) bool {
	if a.status >= http.StatusMultipleChoices || !a.answered {
		return false
	}
	if a.message.Result != nil {
		return true
	}
	return q.method == methodPing && errorCode(a.message.Error) == jsonrpc.CodeMethodNotFound
}

// errorCode returns the code of a JSON-RPC error.
func errorCode(value jsontext.Value) int64 {
	var e struct {
		Code int64 `json:"code"`
	}
	message{Params: value}.params(&e)
	return e.Code
}

// accepts reports whether next accepts the caller. If not, it has answered the call with next's refusal, or with an error
// if next did not give a usable answer.
func (h *handler) accepts(w http.ResponseWriter, r *http.Request, q question, call jsontext.Value) bool {
	a, err := h.put(r.Context(), h.next, r, q)
	switch {
	case r.Context().Err() != nil:
		return false // the caller has disconnected
	case err != nil:
		status, text := http.StatusBadGateway, "the MCP server next to events did not answer as one"
		if errors.Is(err, context.DeadlineExceeded) {
			status, text = http.StatusGatewayTimeout, "the MCP server next to events did not answer within "+askTimeout.String()
		}
		h.log.WarnContext(r.Context(), "overlay: asking whether a caller may use events", "method", q.method, "error", err)
		writeError(w, status, call, jsonrpc.CodeInternalError, "InternalError: "+text)
		return false
	case a.consents(q):
		return true
	}
	maps.Copy(w.Header(), a.header)
	w.Header().Del("Content-Length")
	body := a.body.Bytes()
	if a.answered && a.message.Error != nil {
		w.Header().Set("Content-Type", contentTypeJSON)
		id := a.message.ID
		if string(id) == string(q.id) {
			id = call
		}
		body = response(id, "error", a.message.Error)
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(body)
	return false
}
