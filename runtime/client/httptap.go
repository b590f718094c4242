package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
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
	// maxRefusal is the maximum number of bytes read from the body of an error response.
	maxRefusal = 64 << 10
)

// tapHTTP returns a copy of t with a tap around its HTTP client, and a poster. The poster sends requests that the SDK
// cannot send. The SDK still handles sessions, versions and calls.
func (c *Client) tapHTTP(t *mcp.StreamableClientTransport, b *tapState) (*mcp.StreamableClientTransport, *poster) {
	tapped := *t
	hc := http.Client{}
	if t.HTTPClient != nil {
		hc = *t.HTTPClient
	}
	base := cmp.Or(hc.Transport, http.DefaultTransport)
	// http.Client.Timeout includes the time to read the body and would therefore end streams. The tap applies the
	// timeout to all other requests instead.
	timeout := hc.Timeout
	hc.Timeout = 0
	hc.Transport = &repeater{base: base, availabilities: &c.availabilities}
	p := &poster{client: hc, endpoint: t.Endpoint, limit: c.opts.MaxMessage, timeout: c.opts.CallTimeout}
	if t.OAuthHandler != nil {
		p.oauth = &authorizer{t.OAuthHandler, c.authorizing}
		tapped.OAuthHandler = p.oauth
	}
	hc.Transport = &httpTap{board: b, next: hc.Transport, timeout: timeout, oauth: p.oauth != nil, limit: p.limit}
	tapped.HTTPClient = &hc
	return &tapped, p
}

// An httpTap reads responses before the SDK does. It rewrites error responses to events calls so that the SDK can
// decode them. Otherwise the SDK would end the session.
type httpTap struct {
	board   *tapState
	next    http.RoundTripper
	timeout time.Duration
	oauth   bool
	limit   int64 // of one message
}

func (t *httpTap) RoundTrip(req *http.Request) (*http.Response, error) {
	own, asked := callFrom(req.Context()), readRequestHead(req)
	if asked.ID == nil {
		own = nil // the SDK's cancellation of the call
	}
	if own != nil {
		own.reset()
	}
	shaking := own == nil && req.Method == http.MethodPost && t.board.inHandshake()
	if shaking && asked.Method == methodInitialize {
		if err := t.board.checkFallback(); err != nil {
			req.Body.Close()
			return nil, err
		}
	}
	ctx, release := t.requestContext(req, own != nil)
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if shaking {
		t.board.recordHandshake(asked.Method, newUnreachableError(resp, err))
	}
	if err != nil {
		release()
		if own != nil {
			own.fail(wrapConnectionError("no connection", err))
		}
		return resp, err
	}
	if own != nil {
		own.recordDate(resp)
	}
	if err := t.inspect(req, resp, own, string(asked.ID)); err != nil {
		release()
		return nil, err
	}
	resp.Body = &releasingBody{ReadCloser: resp.Body, release: release}
	return resp, nil
}

// requestContext returns the context for one request. It is cancelled when the session is aborted, or when the HTTP
// client's timeout expires. The timeout does not apply to streams, or to events calls, which have their own timeout.
func (t *httpTap) requestContext(req *http.Request, own bool) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(req.Context())
	stops := []func() bool{context.AfterFunc(t.board.abortContext, func() { cancel(context.Canceled) })}
	if t.timeout > 0 && !own && req.Method != http.MethodGet {
		stops = append(stops, time.AfterFunc(t.timeout, func() { cancel(context.DeadlineExceeded) }).Stop)
	}
	if req.Method == http.MethodGet {
		stops = append(stops, context.AfterFunc(t.board.trustContext(), func() { cancel(errSilent) }))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// inspect reads a response before the SDK does. The SDK reads without a limit, and ends the session if it cannot decode
// a response.
func (t *httpTap) inspect(req *http.Request, resp *http.Response, own *call, id string) error {
	switch kind := mediaType(resp); {
	case resp.StatusCode < 300 && kind == typeSSE:
		resp.Body = &sseTap{Closer: resp.Body, blocks: newBlockReader(resp.Body, t.limit), board: t.board, own: own, id: id}
	case own != nil:
		t.translate(req, resp, own, id)
	case req.Method == http.MethodPost:
		t.recordRefusal(resp)
		if kind == typeJSON {
			return t.readJSON(resp)
		}
	}
	return nil
}

// translate replaces an error response to an events call with a response that does not end the session. It does not
// replace challenges, which the SDK's OAuth handler handles, or the 404 of a lost session.
func (t *httpTap) translate(req *http.Request, resp *http.Response, own *call, id string) {
	session := req.Header.Get(sessionHeader) != ""
	if t.oauth && isChallenge(resp) {
		return
	}
	result, err := own.readResult(resp, id, session, t.limit)
	if status := (*StatusError)(nil); session && errors.As(err, &status) && status.mayBeStale() {
		if status.Status != http.StatusNotFound {
			own.fail(err)
		}
		resp.StatusCode = http.StatusNotFound
		replaceBody(resp, nil)
		return
	}
	body := own.storeResult(result, id)
	if err != nil {
		own.fail(err)
		body = refusalBody(resp, id, err)
	}
	resp.StatusCode = http.StatusOK
	resp.Header.Set("Content-Type", typeJSON)
	replaceBody(resp, body)
}

// refusalBody returns a JSON-RPC error response for the SDK's middleware. The caller of the method receives err
// instead.
func refusalBody(resp *http.Response, id string, err error) []byte {
	rpc := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("HTTP status %d", resp.StatusCode)}
	if said := (*events.Error)(nil); errors.As(err, &said) {
		rpc = &jsonrpc.Error{Code: said.Code, Message: said.Message, Data: said.Data}
	}
	text, _ := json.Marshal(rpc) // its data was decoded from JSON, so this cannot fail
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":%s}`, id, text)
}

// recordRefusal records a refusal, because the SDK reports only its status text. It does not change the response.
func (t *httpTap) recordRefusal(resp *http.Response) {
	kind := mediaType(resp)
	switch s := resp.StatusCode; {
	case isUnreachableStatus(resp), s < 300 && (kind == typeJSON || kind == typeSSE):
		t.board.setRefusal(nil)
		return
	case s >= 500, s == http.StatusTooManyRequests, s == http.StatusRequestTimeout, s == http.StatusTooEarly:
		t.board.setRefusal(&waitError{&StatusError{Status: s}, retryAfter(resp)})
		return
	}
	body := readRefusal(resp)
	replaceBody(resp, body)
	if isChallenge(resp) {
		t.board.setRefusal(newStatusError(resp, body))
		return
	}
	t.board.setRefusal(checkContent(resp, body))
}

// readJSON reads a JSON response to a request other than an events call. It records the capabilities in handshake
// responses.
func (t *httpTap) readJSON(resp *http.Response) error {
	body, err := readAnswer(resp, t.limit)
	if err != nil {
		resp.Body.Close()
		return err
	}
	if t.board.inHandshake() {
		if r := parseResponse(body); r != nil {
			t.board.recordCapabilities(r.Result)
		}
	}
	replaceBody(resp, body)
	return nil
}

// isChallenge reports whether resp rejects the caller's credentials.
func isChallenge(resp *http.Response) bool {
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

// maxClipped is the maximum number of bytes of a server's text that an error quotes.
const maxClipped = 200

// clip returns the start of a server's text for use in an error.
func clip(body []byte) string {
	text := strings.TrimSpace(string(body))
	if len(text) > maxClipped {
		text = text[:maxClipped]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// retryAfter returns the wait that a Retry-After header requests, limited to maxWait.
func retryAfter(resp *http.Response) time.Duration {
	wait, _ := wire.RetryAfter(resp.Header.Get("Retry-After"), time.Now())
	return min(max(wait, 0), maxWait)
}

// A releasingBody is a response body that cancels the request's context when it is closed.
type releasingBody struct {
	io.ReadCloser
	once    sync.Once
	release func()
}

func (r *releasingBody) Close() error {
	err := r.ReadCloser.Close()
	r.once.Do(r.release)
	return err
}
