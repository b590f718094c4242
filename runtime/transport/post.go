package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
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

// Bounds of what a POST may ask for, beside HandlerOptions.
const (
	// maxBatch is how many messages a JSON-RPC batch may hold; the revisions that have batches set no
	// bound, and each call in one is a call of its own.
	maxBatch = 100
	// maxHeader is the longest value of a header of the protocol in bytes.
	maxHeader = 1 << 10
	// defaultReadTimeout is HandlerOptions.ReadTimeout when that is 0.
	defaultReadTimeout = 30 * time.Second
	// revisionUnbatched is the first revision without JSON-RPC batches.
	revisionUnbatched = "2025-06-18"
)

// boundedHeaders are those that decide where a request goes.
var boundedHeaders = []string{headerVersion, headerMethod, headerSession, headerLastEventID}

// A posted is the body of a POST that is JSON-RPC.
type posted struct {
	body  []byte
	env   envelope   // of the one message; empty for a batch
	batch []envelope // nil unless the body is one
	parts []json.RawMessage
}

// readPOST reads and judges the body of a POST. On false the request is answered: by the SDK where it
// refuses the request whatever the body says, or says that the body is too large, else with the
// JSON-RPC error of a malformed message, for every method alike (CAP-6).
func (h *handler) readPOST(w http.ResponseWriter, r *http.Request, sdk http.Handler, modern bool) (*posted, bool) {
	for _, name := range boundedHeaders {
		if v := r.Header.Get(name); len(v) > maxHeader {
			http.Error(w, name+" has "+strconv.Itoa(len(v))+" bytes, more than "+strconv.Itoa(maxHeader), http.StatusRequestHeaderFieldsTooLarge)
			return nil, false
		}
	}
	// Fetch-based libraries of event sources send it when they repeat a POST, which no revision resumes.
	r.Header.Del(headerLastEventID)
	body, err := h.readBody(w, r)
	switch {
	case err == nil:
	case isTimeout(err):
		w.Header().Set("Connection", "close")
		http.Error(w, "the request's body did not arrive within "+h.readTimeout.String(), http.StatusRequestTimeout)
		return nil, false
	default:
		sdk.ServeHTTP(w, r)
		return nil, false
	}
	if !acceptable(r, h.options) {
		setBody(r, body)
		sdk.ServeHTTP(w, r)
		return nil, false
	}
	p, bad := parsePosted(body, !modern && r.Header.Get(headerVersion) < revisionUnbatched, h.es.MaxParams())
	if bad != nil {
		refuseMalformed(w, bad, modern)
		return nil, false
	}
	return p, true
}

// refuseMalformed answers what is refused before the SDK sees it. Wrong params have in the older revisions the status
// of an answer.
func refuseMalformed(w http.ResponseWriter, bad *malformed, modern bool) {
	w.Header().Set("Content-Type", contentTypeJSON)
	if bad.code == jsonrpc.CodeInvalidParams && !modern {
		w.WriteHeader(http.StatusOK)
	} else {
		w.WriteHeader(http.StatusBadRequest)
	}
	_, _ = w.Write(bad.response())
}

// parsePosted judges a body: one message, or a batch where the revision has them. bound is that of params of the
// extension's methods.
func parsePosted(body []byte, batches bool, bound int) (*posted, *malformed) {
	p := &posted{body: body}
	var bad *malformed
	if isBatch(body) {
		p.parts, p.batch, bad = parseBatch(body, batches, bound)
	} else if p.env, bad = parseMessage(body, bound); bad == nil && p.env.method == "" && p.env.id == nil {
		bad = invalidRequest("the message is an error without an id")
	} else if bad == nil {
		bad = p.env.needsID()
	}
	return p, bad
}

// needsID refuses a call of the extension that has no id: HTTP wants an answer to it, and the SDK's would be plain text.
func (e envelope) needsID() *malformed {
	if e.id == nil && strings.HasPrefix(e.method, wire.MethodPrefix) {
		return invalidRequest("/id is missing: " + wire.Shown(e.method) + " is no notification")
	}
	return nil
}

// isBatch reports whether a text begins as an array.
func isBatch(data []byte) bool {
	data = bytes.TrimLeft(data, " \t\r\n")
	return len(data) > 0 && data[0] == '['
}

// parseBatch judges all messages of a batch. One that is malformed refuses the whole, so that nothing
// of it is done.
func parseBatch(data []byte, allowed bool, bound int) (parts []json.RawMessage, envs []envelope, bad *malformed) {
	if bad = checkText(data); bad != nil {
		return nil, nil, bad
	}
	w := newWalker(data)
	defer w.free()
	_, err := w.dec.ReadToken()
	count := 0
	for err == nil && w.dec.PeekKind() != ']' {
		part, ok := w.value()
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
			bad = env.needsID()
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
			bad.id = nil // of a part, and the whole is refused
			bad.reason = "message " + strconv.Itoa(i) + " of the batch: " + bad.reason
			return nil, nil, bad
		}
		envs = append(envs, env)
	}
	return parts, envs, nil
}

// forSDK returns the body with an alias for each id of a call that the SDK would not write as it was,
// and whether there is any.
func (p *posted) forSDK() (body []byte, aliased bool) {
	if p.batch == nil {
		return withAlias(p.body, p.env)
	}
	parts := make([]json.RawMessage, len(p.parts))
	for i, env := range p.batch {
		part, swapped := withAlias(p.parts[i], env)
		parts[i], aliased = part, aliased || swapped
	}
	if !aliased {
		return p.body, false
	}
	return joinBatch(parts), true
}

// withAlias gives the call of one message an alias if it needs one.
func withAlias(message []byte, env envelope) ([]byte, bool) {
	if !env.isCall() || survives(env.id) {
		return message, false
	}
	return splice(message, env.idAt, env.idAt+len(env.id), aliasValue(aliasOf(env.id, 0))), true
}

// toSDK passes a request on, with a writer that puts the ids back where that is needed. A
// notification has none: what the SDK refuses gets the null that an error without an id must have.
func (h *handler) toSDK(sdk http.Handler, w http.ResponseWriter, r *http.Request, p *posted) {
	if _, aliased := p.forSDK(); aliased || p.batch == nil && !p.env.isCall() {
		w = &restorer{ResponseWriter: w}
	}
	h.pass(sdk, w, r, p)
}

// readBody reads the request's body within the limit of size and the deadline that ServeHTTP has set. On any other error than that
// of time it leaves the body such that the SDK meets the same end and says so.
func (h *handler) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	limit := h.maxBody
	if limit < 0 {
		limit = math.MaxInt64 - 1
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 && r.ContentLength <= limit {
		buf.Grow(int(min(r.ContentLength, 64<<10)) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(io.LimitReader(r.Body, limit+1))
	body := buf.Bytes()
	if err == nil && int64(len(body)) > limit {
		err = errTooLong
	}
	if err != nil {
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), failing{err}), r.Body}
	}
	if !isTimeout(err) { // else the rest is not waited for either
		inbound.Lift(w)
	}
	return body, err
}

var errTooLong = errors.New("transport: the body is longer than the limit")

// failing fails as the body failed. A body that was too long gets past the SDK's own limit before.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &ne) && ne.Timeout()
}

// modern reports whether the one message says that it is of the stateless revision.
func (p *posted) modern() bool { return p.env.metaVersion() >= wire.RevisionStateless }

// initializes reports whether the message, or one of the batch, begins a session.
func (p *posted) initializes() bool {
	begins := func(e envelope) bool { return e.isCall() && e.method == methodInitialize }
	return begins(p.env) || slices.ContainsFunc(p.batch, begins)
}
