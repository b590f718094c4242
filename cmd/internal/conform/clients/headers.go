package clients

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Headers of Streamable HTTP.
const (
	headerAccept      = "Accept"
	headerContentType = "Content-Type"
	headerSession     = wire.HeaderSessionID
	headerVersion     = wire.HeaderProtocolVersion
	headerMethod      = wire.HeaderMethod
	headerName        = wire.HeaderName
)

// legacyRevisions are the protocol revisions that use initialize. From versionedFrom on, each request of a session
// names its revision.
var legacyRevisions = []string{"2024-11-05", "2025-03-26", versionedFrom, wire.RevisionLegacy}

const versionedFrom = "2025-06-18"

// codeHeaderMismatch is MCP's error code for a header that is missing or differs from the body.
const codeHeaderMismatch = -32020

// nameMembers maps a method to the params member that the Mcp-Name header repeats.
var nameMembers = map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

// A headerFault describes a header that is invalid in the request's revision, and the server's response.
type headerFault struct {
	name, got, reason string
	status            int
	// code is a JSON-RPC error code. If it is 0, the response is plain text.
	code int64
}

// refuse answers the request.
func (f *headerFault) refuse(w http.ResponseWriter, a *clientCall) {
	if f.code == 0 {
		http.Error(w, f.reason, f.status)
		return
	}
	id := a.id
	if id == nil {
		id = json.RawMessage("null")
	}
	w.Header().Set(headerContentType, "application/json")
	w.WriteHeader(f.status)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, f.code, f.reason)
}

// badVersion returns a fault if this project's servers do not support the revision, or nil.
func badVersion(h http.Header) *headerFault {
	version := h.Get(headerVersion)
	if version == "" || version >= wire.RevisionStateless || slices.Contains(legacyRevisions, version) {
		return nil
	}
	return &headerFault{name: headerVersion, got: sentHeader(h, headerVersion), status: http.StatusBadRequest,
		reason: "Bad Request: Unsupported protocol version (supported versions: " + strings.Join(legacyRevisions, ",") + ")"}
}

// badContent returns a fault if a POST request is not JSON or does not accept both JSON and event streams.
func badContent(h http.Header) *headerFault {
	if kind, _, err := mime.ParseMediaType(h.Get(headerContentType)); err != nil || kind != "application/json" {
		return &headerFault{name: headerContentType, got: sentHeader(h, headerContentType), status: http.StatusUnsupportedMediaType,
			reason: "Content-Type must be 'application/json'"}
	}
	if acceptsType(h, "application/json") && acceptsType(h, "text/event-stream") {
		return nil
	}
	return &headerFault{name: headerAccept, got: sentHeader(h, headerAccept), status: http.StatusBadRequest,
		reason: "Accept must contain both 'application/json' and 'text/event-stream'"}
}

// badAccept returns a fault if a GET request does not accept an event stream.
func badAccept(h http.Header) *headerFault {
	if acceptsType(h, "text/event-stream") {
		return nil
	}
	return &headerFault{name: headerAccept, got: sentHeader(h, headerAccept), status: http.StatusBadRequest,
		reason: "Accept must contain 'text/event-stream' for GET requests"}
}

// badStateless returns a fault if a header of the stateless revision is missing or differs from the message.
func badStateless(h http.Header, a *clientCall) *headerFault {
	var meta map[string]json.RawMessage
	_ = json.Unmarshal(a.params["_meta"], &meta)
	var version string
	_ = json.Unmarshal(meta[wire.MetaProtocolVersion], &version)
	mismatch := func(name, reason string, args ...any) *headerFault {
		return &headerFault{name: name, got: sentHeader(h, name), status: http.StatusBadRequest, code: codeHeaderMismatch, reason: fmt.Sprintf(reason, args...)}
	}
	header := h.Get(headerVersion)
	switch {
	case version >= wire.RevisionStateless && header == "":
		return mismatch(headerVersion, "%s header is required for requests carrying %q", headerVersion, wire.MetaProtocolVersion)
	case version != "" && version != header:
		return mismatch(headerVersion, "%s header %q does not match request %s %q", headerVersion, header, wire.MetaProtocolVersion, version)
	case header < wire.RevisionStateless || a.method == "":
		return nil
	case version == "" && a.id != nil:
		return &headerFault{name: headerVersion, got: fmt.Sprintf("%s, and no %q in _meta", sentHeader(h, headerVersion), wire.MetaProtocolVersion),
			status: http.StatusBadRequest, code: wire.Sketch.Code(wire.InvalidParams), reason: fmt.Sprintf("missing or invalid _meta field %q", wire.MetaProtocolVersion)}
	case h.Get(headerMethod) == "":
		return mismatch(headerMethod, "missing required Mcp-Method header")
	case h.Get(headerMethod) != a.method:
		return mismatch(headerMethod, "header mismatch: Mcp-Method header value %q does not match body value %q", h.Get(headerMethod), a.method)
	}
	member, named := nameMembers[a.method]
	if !named {
		return nil
	}
	var name string
	_ = json.Unmarshal(a.params[member], &name)
	switch {
	case h.Get(headerName) == "":
		return mismatch(headerName, "missing required Mcp-Name header for method %q", a.method)
	case h.Get(headerName) != name:
		return mismatch(headerName, "header mismatch: Mcp-Name header value %q does not match body value %q", h.Get(headerName), name)
	}
	return nil
}

// acceptsType reports whether the request accepts the media type.
func acceptsType(h http.Header, mediaType string) bool {
	all, _, _ := strings.Cut(mediaType, "/")
	for _, value := range h.Values(headerAccept) {
		for part := range strings.SplitSeq(value, ",") {
			base, _, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(base)) {
			case mediaType, all + "/*", "*/*":
				return true
			}
		}
	}
	return false
}

// sentHeader returns a header as it was sent, for use in a report.
func sentHeader(h http.Header, name string) string {
	if values := h.Values(name); len(values) > 0 {
		return name + ": " + strings.Join(values, ", ")
	}
	return "no " + name
}

// noteHeader records the first request with a given header fault.
func (s *stage) noteHeader(f *headerFault, a *clientCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.headers[f.name] == nil {
		s.headers[f.name] = &badRequest{a, f.got}
	}
}

// A badRequest is a request with a faulty header.
type badRequest struct {
	ask *clientCall
	got string
}

// missingVersion returns a fault if a request of a session does not name its protocol revision. Servers answer such a
// request.
func (s *stage) missingVersion(h http.Header) *headerFault {
	s.mu.Lock()
	version := s.sessions[h.Get(headerSession)]
	s.mu.Unlock()
	if version < versionedFrom || h.Get(headerVersion) != "" {
		return nil
	}
	return &headerFault{name: headerVersion, got: sentHeader(h, headerVersion)}
}

// readPost reads a POST request and rejects faulty headers as this project's servers do. If it rejects the request, a
// is nil.
func (s *stage) readPost(w http.ResponseWriter, r *http.Request) (a *clientCall, body []byte) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
	a, bad := s.parse(body, err)
	a.legacy = r.Header.Get(headerVersion) < wire.RevisionStateless
	fault := cmp.Or(badVersion(r.Header), badContent(r.Header))
	if fault == nil && !bad {
		fault = badStateless(r.Header, a)
	}
	s.record(a, bad, fault != nil)
	switch {
	case fault != nil:
		s.noteHeader(fault, a)
		fault.refuse(w, a)
		return nil, nil
	case bad:
		w.Header().Set(headerContentType, "application/json")
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"ParseError"}}`)
		return nil, nil
	}
	if fault := s.missingVersion(r.Header); fault != nil {
		s.noteHeader(fault, a)
	}
	return a, body
}

// expectHeader returns a check that the named header was valid in every request.
func expectHeader(name, expected string) func(s *stage) error {
	return func(s *stage) error {
		s.mu.Lock()
		bad := s.headers[name]
		s.mu.Unlock()
		if bad == nil {
			return nil
		}
		return newViolation(bad.ask, expected, "%s", bad.got)
	}
}
