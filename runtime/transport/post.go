package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Further limits for POST requests, and the default revision.
const (
	// maxHeader is the maximum length of a protocol header value in bytes.
	maxHeader = 1 << 10
	// defaultReadTimeout is the default for HandlerOptions.ReadTimeout.
	defaultReadTimeout = 30 * time.Second
	// defaultRevision is the revision of a sessionless request that does not specify one.
	defaultRevision = "2025-03-26"
)

// boundedHeaders are the routing headers, whose values must not exceed maxHeader bytes.
var boundedHeaders = []string{headerVersion, headerMethod, headerSession, headerLastEventID}

// A postBody is the body of a POST request with a valid JSON-RPC message.
type postBody struct {
	body []byte
	env  envelope
}

// readPOST reads and checks the body of a POST request. If it returns false, the request has already been answered. The
// SDK answers requests that it refuses regardless of the body. All others are answered by readPOST. For every method, a
// malformed body results in a JSON-RPC error (CAP-6).
func (h *handler) readPOST(w http.ResponseWriter, r *http.Request, sdk http.Handler, modern bool) (*postBody, bool) {
	for _, name := range boundedHeaders {
		if v := r.Header.Get(name); len(v) > maxHeader {
			http.Error(w, name+" has "+strconv.Itoa(len(v))+" bytes, more than "+strconv.Itoa(maxHeader), http.StatusRequestHeaderFieldsTooLarge)
			return nil, false
		}
	}
	// Fetch-based event source libraries send this header when they repeat a POST, but no revision can resume it.
	r.Header.Del(headerLastEventID)
	body, ok := readBody(w, r, h.maxBody, h.readTimeout)
	if !ok {
		return nil, false
	}
	if !passesSDKChecks(r, h.options) {
		setBody(r, body)
		sdk.ServeHTTP(w, r)
		return nil, false
	}
	p, bad := parsePostBody(body, h.es.MaxParams())
	if bad != nil {
		refuseMalformed(w, bad, modern)
		return nil, false
	}
	return p, true
}

// refuseMalformed answers a request that is refused before it reaches the SDK. In older revisions, the response to
// invalid params has status 200.
func refuseMalformed(w http.ResponseWriter, bad *malformedError, modern bool) {
	w.Header().Set("Content-Type", contentTypeJSON)
	if bad.code == jsonrpc.CodeInvalidParams && !modern {
		w.WriteHeader(http.StatusOK)
	} else {
		w.WriteHeader(http.StatusBadRequest)
	}
	_, _ = w.Write(bad.response())
}

// parsePostBody parses a body. The bound limits the size of params of the extension's methods.
func parsePostBody(body []byte, bound int) (*postBody, *malformedError) {
	p := &postBody{body: body}
	var bad *malformedError
	if p.env, bad = parseMessage(body, bound); bad == nil && p.env.method == "" && p.env.id == nil {
		bad = invalidRequest("the message is an error without an id")
	} else if bad == nil {
		bad = p.env.checkID()
	}
	return p, bad
}

// checkID returns an error for an extension call without an ID. HTTP requires a response, and the SDK's would be plain
// text.
func (e envelope) checkID() *malformedError {
	if e.id == nil && strings.HasPrefix(e.method, wire.MethodPrefix) {
		return invalidRequest("/id is missing: " + wire.Shown(e.method) + " is not a notification")
	}
	return nil
}

// A jsonrpcCall is a call that is encoded for the SDK.
type jsonrpcCall struct {
	Version string          `json:"jsonrpc"`
	ID      any             `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params,omitempty"`
}

// passToSDK passes a request to the SDK. If the SDK refuses a call with a text, passToSDK answers with a JSON-RPC error.
// If it refuses a notification, passToSDK adds the null ID that JSON-RPC requires to the error.
func (h *handler) passToSDK(sdk http.Handler, w http.ResponseWriter, r *http.Request, p *postBody) {
	setBody(r, p.body)
	switch {
	case !p.env.isCall():
		sdk.ServeHTTP(&nullWriter{w}, r)
	default:
		if !isPreservedID(p.env.id) {
			b, _ := jsonv2.Marshal(&jsonrpcCall{"2.0", sdkID(p.env.id).Raw(), p.env.method, p.env.params}) // its values are valid
			setBody(r, b)
			w = &aliasWriter{w}
		}
		c := &refusalWriter{ResponseWriter: w}
		sdk.ServeHTTP(c, r)
		if c.refused {
			c.answer(p.env)
		}
	}
}

// readBody reads up to limit bytes of the request's body, within the deadline set by ServeHTTP. A negative limit means
// no limit. If it returns false, the request has already been answered.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, timeout time.Duration) ([]byte, bool) {
	if limit < 0 {
		limit = math.MaxInt64 - 1
	}
	refuse := func(status int, reason string) ([]byte, bool) {
		w.Header().Set("Connection", "close") // do not wait for the rest
		http.Error(w, reason, status)
		return nil, false
	}
	tooLong := func() ([]byte, bool) {
		return refuse(http.StatusRequestEntityTooLarge, "request body exceeds "+strconv.FormatInt(limit, 10)+" bytes")
	}
	if reason := unsupportedContent(r); reason != "" {
		w.Header().Set("Accept-Encoding", "identity")
		return refuse(http.StatusUnsupportedMediaType, reason)
	}
	if r.ContentLength > limit { // before 100 Continue
		return tooLong()
	}
	body := make([]byte, 0, min(max(r.ContentLength, 0), 64<<10)+1)
	var err error
	for from := io.LimitReader(r.Body, limit+1); err == nil; {
		var n int
		n, err = from.Read(body[len(body):cap(body)])
		if body = body[:len(body)+n]; len(body) == cap(body) {
			body = slices.Grow(body, bytes.MinRead)
		}
	}
	switch {
	case isTimeout(err):
		return refuse(http.StatusRequestTimeout, "the request's body did not arrive within "+timeout.String())
	case err != io.EOF:
		return refuse(http.StatusBadRequest, "failed to read body")
	case int64(len(body)) > limit:
		return tooLong()
	}
	inbound.Lift(w)
	return body, true
}

// unsupportedContent returns the reason a body cannot be decoded, or "". It rejects compressed bodies and charsets
// other than UTF-8.
func unsupportedContent(r *http.Request) string {
	for _, coding := range r.Header["Content-Encoding"] {
		if !strings.EqualFold(strings.TrimSpace(coding), "identity") {
			return fmt.Sprintf("Content-Encoding %q is not supported: send the body uncompressed", coding)
		}
	}
	contentType := r.Header.Get("Content-Type")
	if contentType == contentTypeJSON {
		return ""
	}
	if _, params, err := mime.ParseMediaType(contentType); err == nil {
		if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
			return fmt.Sprintf("the charset %q is not supported: JSON is sent in UTF-8", charset)
		}
	}
	return ""
}

func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return errors.Is(err, os.ErrDeadlineExceeded) || ok && ne.Timeout()
}

// isStateless reports whether the message specifies a stateless revision.
func (p *postBody) isStateless() bool { return p.env.metaVersion() >= wire.RevisionStateless }
