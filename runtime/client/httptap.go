package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/useragent"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

const (
	sessionHeader = wire.HeaderSessionID
	typeJSON      = "application/json"
	typeSSE       = "text/event-stream"
	// maxRefusal bounds what is read of a refusal's body.
	maxRefusal = 64 << 10
)

// tapHTTP returns a copy of t whose requests go through a tap. The connection itself stays the
// SDK's: it keeps sessions, versions, OAuth and resumption.
func tapHTTP(t *mcp.StreamableClientTransport, b *board, p *presences, limit int64) *mcp.StreamableClientTransport {
	tapped := *t
	hc := http.Client{}
	if t.HTTPClient != nil {
		hc = *t.HTTPClient
	}
	base := hc.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	// http.Client.Timeout includes the body, and a stream has no end: the tap applies the timeout
	// to everything else.
	hc.Transport = &httpTap{board: b, presences: p, base: base, timeout: hc.Timeout, oauth: t.OAuthHandler != nil, limit: limit}
	hc.Timeout = 0
	tapped.HTTPClient = &hc
	return &tapped
}

// An httpTap takes the extension's notifications out of SSE bodies and makes refusals of events
// calls readable to the SDK, which otherwise ends the session at them.
type httpTap struct {
	board     *board
	presences *presences
	base      http.RoundTripper
	timeout   time.Duration
	oauth     bool
	limit     int64 // of one message
}

func (t *httpTap) RoundTrip(req *http.Request) (*http.Response, error) {
	own, asked := callFrom(req.Context()), headOf(req)
	if asked.ID == nil {
		own = nil // the SDK resuming an answer by itself, or telling that the call is cancelled
	}
	of := &t.presences.own
	if own != nil && own.presence != nil {
		of = own.presence
	}
	streaming := own != nil && own.in != nil
	if own != nil {
		own.again()
	}
	ctx, release := t.bound(req, own != nil)
	if streaming {
		t.board.route(ctx, string(asked.ID), own)
	}
	method := ""
	if own == nil && req.Method == http.MethodPost && t.board.observing() {
		if method = asked.Method; method == methodInitialize {
			if err := t.board.fallback(); err != nil {
				release()
				req.Body.Close()
				return nil, err
			}
		}
	}
	named := req.WithContext(ctx)
	named.Header = named.Header.Clone()
	useragent.Set(named.Header, useragent.Default())
	resp, gone, err := t.ask(named, of)
	if method != "" {
		t.board.handshake(method, gone)
	}
	if err != nil {
		release()
		if own != nil {
			own.fail(brokeOff("no connection", err))
			own.end()
		}
		return resp, err
	}
	if own != nil {
		own.dated(resp)
		t.translate(req, resp, own, string(asked.ID))
	} else if req.Method == http.MethodPost {
		t.notice(resp)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case kind == typeSSE && resp.StatusCode < 300:
		resp.Body = newSSEFilter(ctx, resp.Body, t.board, own, string(asked.ID), t.limit)
	case kind == typeJSON && own == nil && req.Method == http.MethodPost:
		if err := t.observe(resp); err != nil {
			release()
			return nil, err
		}
	}
	resp.Body = &releasing{ReadCloser: resp.Body, release: func() {
		release()
		if own != nil {
			own.end()
		}
	}}
	return resp, nil
}

// bound makes the context of one request: it ends when the session is aborted, or when the HTTP
// client's timeout is over. Requests without an end have none, and events calls have their own.
func (t *httpTap) bound(req *http.Request, own bool) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(req.Context())
	stops := []func() bool{context.AfterFunc(t.board.aborted, func() { cancel(context.Canceled) })}
	if t.timeout > 0 && !own && req.Method != http.MethodGet {
		stops = append(stops, time.AfterFunc(t.timeout, func() { cancel(context.DeadlineExceeded) }).Stop)
	}
	if req.Method == http.MethodGet {
		stops = append(stops, context.AfterFunc(t.board.trust(), func() { cancel(errSilent) }))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// notice keeps a refusal, of which the SDK tells only the status text, and leaves the answer as it is.
func (t *httpTap) notice(resp *http.Response) {
	switch s := resp.StatusCode; {
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
	case !awayStatus(resp) && (s >= 500 || s == http.StatusTooManyRequests || s == http.StatusRequestTimeout || s == http.StatusTooEarly):
		t.board.refused(&waitError{&StatusError{Status: s}, retryAfter(resp)})
		return
	default:
		t.board.refused(nil)
		return
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		body = nil
	}
	replaceBody(resp, body)
	t.board.refused(&StatusError{Status: resp.StatusCode, text: clipped(body)})
}

// maxClipped is how much of a server's text goes into an error.
const maxClipped = 200

// clipped is the beginning of a server's text, for an error's text.
func clipped(body []byte) string {
	text := strings.TrimSpace(string(body))
	if len(text) > maxClipped {
		text = text[:maxClipped]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// observe reads a JSON answer to another call than ours, which the SDK would read without a bound, and
// shows the board those of the handshake.
func (t *httpTap) observe(resp *http.Response) error {
	body, err := readAnswer(resp, t.limit)
	resp.Body.Close()
	if err != nil {
		return err
	}
	if t.board.observing() {
		t.board.observe(resultOf(body))
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// readAnswer reads an answer's body of at most limit bytes.
func readAnswer(resp *http.Response, limit int64) ([]byte, error) {
	if resp.ContentLength > limit {
		return nil, errTooLarge("the body", limit)
	}
	return readBounded(resp.Body, limit)
}

// resultOf is the result in a message, nil for none.
func resultOf(message []byte) json.RawMessage {
	if m, err := decodeMessage(message); err == nil {
		if r, ok := m.(*jsonrpc.Response); ok {
			return r.Result
		}
	}
	return nil
}

// answered keeps the result of an events call and returns a message that has none in its place: what can
// be large is read once.
func (c *call) answered(r *jsonrpc.Response) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result = r.Result
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`, idText(r.ID.Raw()))
}

// translate turns what is no JSON-RPC answer to an events call into a JSON-RPC error of this call
// alone. Left as they are: OAuth challenges when the SDK handles them, and the 404 that says that
// the session is gone.
func (t *httpTap) translate(req *http.Request, resp *http.Response, own *call, id string) {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode < 300 {
		switch kind {
		case typeSSE:
		case typeJSON:
			t.check(resp, own, id)
		default:
			body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
			own.fail(&AnswerError{Method: own.method, Err: fmt.Errorf("the content type is %q, not %s or %s: %w",
				clipped([]byte(resp.Header.Get("Content-Type"))), typeJSON, typeSSE, &StatusError{resp.StatusCode, clipped(body)})})
			refuse(resp)
		}
		return
	}
	if t.oauth && (resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden) {
		return
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		body = nil
	}
	session := req.Header.Get(sessionHeader) != ""
	if m, err := decodeMessage(body); err == nil {
		if r, ok := m.(*jsonrpc.Response); ok && r.Error != nil && !uninitialized(resp, r, id, session) {
			// The SDK reads no body of statuses that it takes for passing ones.
			if resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests {
				own.mu.Lock()
				own.retryAfter = retryAfter(resp)
				own.mu.Unlock()
				resp.StatusCode = http.StatusBadRequest
			}
			replaceBody(resp, body)
			return
		}
	}
	if session && resp.StatusCode == http.StatusNotFound {
		replaceBody(resp, body)
		return
	}
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		// A server that was restarted knows neither the session nor, in other languages' SDKs, the
		// status for that; one of another release may not know the revision, or takes other headers.
		own.fail(&staleError{&StatusError{Status: resp.StatusCode, text: clipped(body)}})
		if session {
			resp.StatusCode = http.StatusNotFound
			replaceBody(resp, nil)
			return
		}
	}
	own.refused(resp, body)
	refuse(resp)
}

// codeServer is the code that servers use for whatever JSON-RPC has no code for.
const codeServer = -32000

// uninitialized reports whether a 400 is about the session and not about the call: it has the id of no
// request of ours, "" in C# and "server-error" in Python, or says that the server was not initialized.
func uninitialized(resp *http.Response, r *jsonrpc.Response, id string, session bool) bool {
	if resp.StatusCode != http.StatusBadRequest {
		return false
	}
	var rpc *jsonrpc.Error
	return idText(r.ID.Raw()) != id || session && errors.As(r.Error, &rpc) && rpc.Code == codeServer
}

// check reads a JSON answer before the SDK does, for which one that cannot be used is the end of the
// session.
func (t *httpTap) check(resp *http.Response, own *call, id string) {
	fail := func(err error) {
		own.fail(&AnswerError{Method: own.method, Err: err})
		refuse(resp)
	}
	body, err := readAnswer(resp, t.limit)
	if err != nil {
		if errors.Is(err, ErrTooLarge) {
			fail(err)
			return
		}
		own.fail(brokeOff("the answer broke off", err))
		refuse(resp)
		return
	}
	m, err := decodeMessage(body)
	r, ok := m.(*jsonrpc.Response)
	switch {
	case err != nil:
		fail(fmt.Errorf("no JSON-RPC message: %w: %s", err, clipped(body)))
	case !ok:
		fail(errors.New("a request, not a response"))
	case idText(r.ID.Raw()) != id:
		fail(errors.New("it answers another request"))
	case len(r.Result) > 0 && r.Error == nil:
		replaceBody(resp, own.answered(r))
	default:
		replaceBody(resp, body)
	}
}

// refuse replaces an answer by an error of this call alone; what it was, own knows.
func refuse(resp *http.Response) {
	answer := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"refused","error":{"code":%d,"message":"HTTP status %d"}}`,
		jsonrpc.CodeInternalError, resp.StatusCode)
	resp.StatusCode = http.StatusBadRequest
	resp.Header.Set("Content-Type", typeJSON)
	replaceBody(resp, answer)
}

func replaceBody(resp *http.Response, body []byte) {
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	resp.Header.Del("Content-Length")
}

// retryAfter reads Retry-After in either form (RFC 9110, section 10.2.3).
func retryAfter(resp *http.Response) time.Duration {
	v := resp.Header.Get("Retry-After")
	if v == "" {
		return 0
	}
	if s, err := strconv.Atoi(v); err == nil && s > 0 {
		return min(time.Duration(min(s, 1<<30))*time.Second, maxWait)
	}
	if at, err := http.ParseTime(v); err == nil {
		return min(max(time.Until(at), 0), maxWait)
	}
	return 0
}

// A releasing body frees its request's context when it is closed.
type releasing struct {
	io.ReadCloser
	once    sync.Once
	release func()
}

func (r *releasing) Close() error {
	err := r.ReadCloser.Close()
	r.once.Do(r.release)
	return err
}
