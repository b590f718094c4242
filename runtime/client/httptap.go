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

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

const (
	sessionHeader = wire.HeaderSessionID
	typeJSON      = "application/json"
	typeSSE       = "text/event-stream"
	// maxRefusal bounds how much of an error response's body is read.
	maxRefusal = 64 << 10
)

// tapHTTP returns a copy of t whose requests go through a tap, and a poster for the requests that the SDK cannot make.
// The SDK still handles sessions, versions and calls.
func (c *Client) tapHTTP(t *mcp.StreamableClientTransport, b *board) (*mcp.StreamableClientTransport, *poster) {
	tapped := *t
	hc := http.Client{}
	if t.HTTPClient != nil {
		hc = *t.HTTPClient
	}
	base := hc.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	// http.Client.Timeout includes the body, and a stream has no end, so the tap applies the timeout to all other
	// requests.
	timeout := hc.Timeout
	hc.Timeout = 0
	hc.Transport = &repeater{base: base, presences: &c.presences}
	p := &poster{client: hc, endpoint: t.Endpoint, limit: c.opts.MaxMessage, timeout: c.opts.CallTimeout}
	if t.OAuthHandler != nil {
		p.oauth = &authorizer{t.OAuthHandler, c.authorizing}
		tapped.OAuthHandler = p.oauth
	}
	hc.Transport = &httpTap{board: b, next: hc.Transport, timeout: timeout, oauth: p.oauth != nil, limit: p.limit}
	tapped.HTTPClient = &hc
	return &tapped, p
}

// An httpTap reads responses before the SDK does. It rewrites error responses to events calls into a form that the SDK
// can decode, since the SDK would otherwise end the session.
type httpTap struct {
	board   *board
	next    http.RoundTripper
	timeout time.Duration
	oauth   bool
	limit   int64 // of one message
}

func (t *httpTap) RoundTrip(req *http.Request) (*http.Response, error) {
	own, asked := callFrom(req.Context()), headOf(req)
	if asked.ID == nil {
		own = nil // the SDK's cancellation of the call
	}
	if own != nil {
		own.again()
	}
	shaking := own == nil && req.Method == http.MethodPost && t.board.observing()
	if shaking && asked.Method == methodInitialize {
		if err := t.board.fallback(); err != nil {
			req.Body.Close()
			return nil, err
		}
	}
	ctx, release := t.bound(req, own != nil)
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if shaking {
		t.board.handshake(asked.Method, away(resp, err))
	}
	if err != nil {
		release()
		if own != nil {
			own.fail(brokeOff("no connection", err))
		}
		return resp, err
	}
	if own != nil {
		own.dated(resp)
	}
	if err := t.read(req, resp, own, string(asked.ID)); err != nil {
		release()
		return nil, err
	}
	resp.Body = &releasing{ReadCloser: resp.Body, release: release}
	return resp, nil
}

// bound returns the context of one request: it ends when the session is aborted, or when the HTTP client's timeout
// expires. The timeout does not apply to streams and events calls; events calls have their own.
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

// read reads a response before the SDK does. The SDK reads without a limit, and ends the session at a response that it
// cannot decode.
func (t *httpTap) read(req *http.Request, resp *http.Response, own *call, id string) error {
	switch kind := mediaType(resp); {
	case resp.StatusCode < 300 && kind == typeSSE:
		resp.Body = &sseTap{Closer: resp.Body, blocks: newBlocks(resp.Body, t.limit), board: t.board, own: own, id: id}
	case own != nil:
		t.translate(req, resp, own, id)
	case req.Method == http.MethodPost:
		t.notice(resp)
		if kind == typeJSON {
			return t.observe(resp)
		}
	}
	return nil
}

// translate replaces the response to an events call by a response that does not end the session. It leaves challenges for the
// SDK's OAuth handler, and the 404 of a lost session.
func (t *httpTap) translate(req *http.Request, resp *http.Response, own *call, id string) {
	session := req.Header.Get(sessionHeader) != ""
	if t.oauth && challenge(resp) {
		return
	}
	result, err := own.read(resp, id, session, t.limit)
	if status := (*StatusError)(nil); session && errors.As(err, &status) && status.misdirected() {
		if status.Status != http.StatusNotFound {
			own.fail(err)
		}
		resp.StatusCode = http.StatusNotFound
		replaceBody(resp, nil)
		return
	}
	body := own.answered(result, id)
	if err != nil {
		own.fail(err)
		body = refusalBody(resp, id, err)
	}
	resp.StatusCode = http.StatusOK
	resp.Header.Set("Content-Type", typeJSON)
	replaceBody(resp, body)
}

// refusalBody returns a JSON-RPC message with an error, for the middleware above the SDK. The caller of the method gets
// err itself.
func refusalBody(resp *http.Response, id string, err error) []byte {
	rpc := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("HTTP status %d", resp.StatusCode)}
	if said := (*events.Error)(nil); errors.As(err, &said) {
		rpc = &jsonrpc.Error{Code: said.Code, Message: said.Message, Data: said.Data}
	}
	text, _ := json.Marshal(rpc) // its data was decoded from JSON, so this cannot fail
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":%s}`, id, text)
}

// notice records a refusal, because the SDK reports only its status text, and leaves the response unchanged.
func (t *httpTap) notice(resp *http.Response) {
	kind := mediaType(resp)
	switch s := resp.StatusCode; {
	case awayStatus(resp), s < 300 && (kind == typeJSON || kind == typeSSE):
		t.board.refused(nil)
		return
	case s >= 500, s == http.StatusTooManyRequests, s == http.StatusRequestTimeout, s == http.StatusTooEarly:
		t.board.refused(&waitError{&StatusError{Status: s}, retryAfter(resp)})
		return
	}
	body := readRefusal(resp)
	replaceBody(resp, body)
	if challenge(resp) {
		t.board.refused(statusOf(resp, body))
		return
	}
	t.board.refused(contentOf(resp, body))
}

// observe reads a JSON response outside events calls, and passes handshake responses to the board.
func (t *httpTap) observe(resp *http.Response) error {
	body, err := readAnswer(resp, t.limit)
	if err != nil {
		resp.Body.Close()
		return err
	}
	if t.board.observing() {
		if r := responseIn(body); r != nil {
			t.board.observe(r.Result)
		}
	}
	replaceBody(resp, body)
	return nil
}

// challenge reports whether resp rejects the caller's credentials.
func challenge(resp *http.Response) bool {
	return resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden
}

func mediaType(resp *http.Response) string {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind
}

func replaceBody(resp *http.Response, body []byte) {
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	resp.Header.Del("Content-Length")
}

// maxClipped is how many bytes of a server's text an error quotes.
const maxClipped = 200

// clipped returns the start of a server's text, for use in an error.
func clipped(body []byte) string {
	text := strings.TrimSpace(string(body))
	if len(text) > maxClipped {
		text = text[:maxClipped]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
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

// A releasing body cancels its request's context when it is closed.
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
