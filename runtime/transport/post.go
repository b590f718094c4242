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

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Further limits for POST requests, and protocol revisions.
const (
	// maxBatch is the maximum number of messages in a JSON-RPC batch. The protocol does not limit the number, and each
	// message may be a call.
	maxBatch = 100
	// maxHeader is the maximum length of a protocol header value in bytes.
	maxHeader = 1 << 10
	// defaultReadTimeout is the default for HandlerOptions.ReadTimeout.
	defaultReadTimeout = 30 * time.Second
	// revisionUnbatched is the first revision without JSON-RPC batches.
	revisionUnbatched = "2025-06-18"
	// defaultRevision is the revision of a sessionless request that does not specify one.
	defaultRevision = "2025-03-26"
)

// boundedHeaders are the routing headers, whose values must not exceed maxHeader bytes.
var boundedHeaders = []string{headerVersion, headerMethod, headerSession, headerLastEventID}

// A postBody is the body of a POST request with valid JSON-RPC.
type postBody struct {
	body  []byte
	env   envelope   // the single message; empty for a batch
	batch []envelope // nil unless the body is a batch
	parts []json.RawMessage
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
	p, bad := parsePostBody(body, !modern && r.Header.Get(headerVersion) < revisionUnbatched, h.es.MaxParams())
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

// parsePostBody parses a body, which is a single message or, if the revision supports it, a batch. The bound limits the
// size of params of the extension's methods.
func parsePostBody(body []byte, batches bool, bound int) (*postBody, *malformedError) {
	p := &postBody{body: body}
	var bad *malformedError
	if isBatch(body) {
		p.parts, p.batch, bad = parseBatch(body, batches, bound)
	} else if p.env, bad = parseMessage(body, bound); bad == nil && p.env.method == "" && p.env.id == nil {
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

// isBatch reports whether data starts with an array.
func isBatch(data []byte) bool {
	data = bytes.TrimLeft(data, " \t\r\n")
	return len(data) > 0 && data[0] == '['
}

// parseBatch parses and checks all messages of a batch. If one message is malformed, it rejects the whole batch, so no
// part of it is executed.
func parseBatch(data []byte, allowed bool, bound int) (parts []json.RawMessage, envs []envelope, bad *malformedError) {
	if bad = checkText(data); bad != nil {
		return nil, nil, bad
	}
	w := newWalker(data)
	defer w.release()
	_, err := w.dec.ReadToken()
	count := 0
	for err == nil && w.dec.PeekKind() != ']' {
		part, ok := w.readValue()
		if !ok {
			err = io.ErrUnexpectedEOF
		} else if count++; count <= maxBatch {
			parts = append(parts, part)
		}
	}
	if err == nil {
		_, err = w.dec.ReadToken()
	}
	switch {
	case err != nil:
		return nil, nil, parseError("the message is not valid JSON")
	case !w.atEnd():
		return nil, nil, parseError("the message is followed by something else")
	case count == 0:
		return nil, nil, invalidRequest("the batch is empty")
	case !allowed:
		return nil, nil, invalidRequest("the protocol revision has no batches")
	case count > maxBatch:
		return nil, nil, invalidRequest("the batch holds " + strconv.Itoa(count) + " messages, more than " + strconv.Itoa(maxBatch))
	}
	seen := map[string]bool{}
	for i, part := range parts {
		env, bad := parseMessage(part, bound)
		if bad == nil {
			bad = env.checkID()
		}
		if bad == nil && env.metaVersion() >= revisionUnbatched {
			bad = invalidRequest("the protocol revision has no batches")
		}
		if bad == nil && env.isCall() {
			if key := idKey(env.id); seen[key] {
				bad = invalidRequest("/id is that of another message of the batch")
			} else {
				seen[key] = true
			}
		}
		if bad != nil {
			bad.id = nil // the ID of one part; the whole batch is refused
			bad.reason = "message " + strconv.Itoa(i) + " of the batch: " + bad.reason
			return nil, nil, bad
		}
		envs = append(envs, env)
	}
	return parts, envs, nil
}

// checkIDs returns an error if the SDK would alter the ID of a call in the request.
func (p *postBody) checkIDs() *malformedError {
	for _, env := range append([]envelope{p.env}, p.batch...) {
		if env.isCall() && !isPreservedID(env.id) {
			bad := invalidIDError(env.id)
			if p.batch != nil {
				bad.id = nil // the ID of one part; the whole batch is refused
			}
			return bad
		}
	}
	return nil
}

// passToSDK passes a request to the SDK. If the SDK refuses a notification, passToSDK adds the null ID that JSON-RPC
// requires to the error.
func (h *handler) passToSDK(sdk http.Handler, w http.ResponseWriter, r *http.Request, p *postBody) {
	if bad := p.checkIDs(); bad != nil {
		refuseMalformed(w, bad, true)
		return
	}
	if p.batch == nil && !p.env.isCall() {
		w = &nullWriter{w}
	}
	h.forward(sdk, w, r, p)
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
	tooLong := "request body exceeds " + strconv.FormatInt(limit, 10) + " bytes"
	if reason := unsupportedContent(r); reason != "" {
		w.Header().Set("Accept-Encoding", "identity")
		return refuse(http.StatusUnsupportedMediaType, reason)
	}
	if r.ContentLength > limit { // before 100 Continue
		return refuse(http.StatusRequestEntityTooLarge, tooLong)
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(min(r.ContentLength, 64<<10)) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(io.LimitReader(r.Body, limit+1))
	switch {
	case isTimeout(err):
		return refuse(http.StatusRequestTimeout, "the request's body did not arrive within "+timeout.String())
	case err != nil:
		return refuse(http.StatusBadRequest, "failed to read body")
	case int64(buf.Len()) > limit:
		return refuse(http.StatusRequestEntityTooLarge, tooLong)
	}
	inbound.Lift(w)
	return buf.Bytes(), true
}

// unsupportedContent returns the reason a body cannot be decoded, or "". It rejects compressed bodies and charsets
// other than UTF-8.
func unsupportedContent(r *http.Request) string {
	for _, coding := range r.Header["Content-Encoding"] {
		if !strings.EqualFold(strings.TrimSpace(coding), "identity") {
			return fmt.Sprintf("Content-Encoding %q is not supported: send the body uncompressed", coding)
		}
	}
	if _, params, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil {
		if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
			return fmt.Sprintf("the charset %q is not supported: JSON is sent in UTF-8", charset)
		}
	}
	return ""
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &ne) && ne.Timeout()
}

// isStateless reports whether the body is a single message that specifies a stateless revision.
func (p *postBody) isStateless() bool { return p.env.metaVersion() >= wire.RevisionStateless }

// hasInitialize reports whether the body contains an initialize request.
func (p *postBody) hasInitialize() bool {
	begins := func(e envelope) bool { return e.isCall() && e.method == methodInitialize }
	return begins(p.env) || slices.ContainsFunc(p.batch, begins)
}
