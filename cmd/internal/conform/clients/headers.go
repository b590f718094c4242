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

const headerAccept, headerContentType = "Accept", "Content-Type"

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
	name, got string
	status    int
	// code is a JSON-RPC error code. If it is 0, the response is plain text.
	code int64
}

// newHeaderFault returns a fault of the named header.
func newHeaderFault(h http.Header, name string, status int, code int64) *headerFault {
	got := "no " + name
	if values := h.Values(name); len(values) > 0 {
		got = name + ": " + strings.Join(values, ", ")
	}
	return &headerFault{name: name, got: got, status: status, code: code}
}

// refuse answers the request.
func (f *headerFault) refuse(w http.ResponseWriter, a *clientCall) {
	if f.code == 0 {
		http.Error(w, "invalid header: "+f.got, f.status)
		return
	}
	id := a.id
	if id == nil {
		id = json.RawMessage("null")
	}
	w.Header().Set(headerContentType, "application/json")
	w.WriteHeader(f.status)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, f.code, "invalid header: "+f.got)
}

// badVersion returns a fault if this project's servers do not support the revision, or nil.
func badVersion(h http.Header) *headerFault {
	version := h.Get(wire.HeaderProtocolVersion)
	if version == "" || version >= wire.RevisionStateless || slices.Contains(legacyRevisions, version) {
		return nil
	}
	return newHeaderFault(h, wire.HeaderProtocolVersion, http.StatusBadRequest, 0)
}

// badContent returns a fault if a POST request is not JSON or does not accept both JSON and event streams.
func badContent(h http.Header) *headerFault {
	if kind, _, err := mime.ParseMediaType(h.Get(headerContentType)); err != nil || kind != "application/json" {
		return newHeaderFault(h, headerContentType, http.StatusUnsupportedMediaType, 0)
	}
	if acceptsType(h, "application/json") && acceptsType(h, "text/event-stream") {
		return nil
	}
	return newHeaderFault(h, headerAccept, http.StatusBadRequest, 0)
}

// badStateless returns a fault if a header of the stateless revision is missing or differs from the message.
func badStateless(h http.Header, a *clientCall) *headerFault {
	var meta map[string]json.RawMessage
	_ = json.Unmarshal(a.params["_meta"], &meta)
	var version, name string
	_ = json.Unmarshal(meta[wire.MetaProtocolVersion], &version)
	header := h.Get(wire.HeaderProtocolVersion)
	member, isNamed := nameMembers[a.method]
	_ = json.Unmarshal(a.params[member], &name)
	switch {
	case version != "" && version != header:
		return newHeaderFault(h, wire.HeaderProtocolVersion, http.StatusBadRequest, codeHeaderMismatch)
	case header < wire.RevisionStateless || a.method == "":
		return nil
	case version == "" && a.id != nil:
		f := newHeaderFault(h, wire.HeaderProtocolVersion, http.StatusBadRequest, wire.Sketch.Code(wire.InvalidParams))
		f.got += fmt.Sprintf(", and no %q in _meta", wire.MetaProtocolVersion)
		return f
	case h.Get(wire.HeaderMethod) != a.method:
		return newHeaderFault(h, wire.HeaderMethod, http.StatusBadRequest, codeHeaderMismatch)
	case isNamed && (h.Get(wire.HeaderName) == "" || h.Get(wire.HeaderName) != name):
		return newHeaderFault(h, wire.HeaderName, http.StatusBadRequest, codeHeaderMismatch)
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

// readPost reads a POST request and rejects faulty headers as this project's servers do. It returns nil if it rejects
// the request.
func (s *stage) readPost(w http.ResponseWriter, r *http.Request) *clientCall {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
	a, bad := s.parse(body, err)
	a.legacy = r.Header.Get(wire.HeaderProtocolVersion) < wire.RevisionStateless
	fault := cmp.Or(badVersion(r.Header), badContent(r.Header))
	if fault == nil && !bad {
		fault = badStateless(r.Header, a)
	}
	s.record(a, bad, fault)
	switch {
	case fault != nil:
		fault.refuse(w, a)
		return nil
	case bad:
		w.Header().Set(headerContentType, "application/json")
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"ParseError"}}`)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[r.Header.Get(wire.HeaderSessionID)] >= versionedFrom && r.Header.Get(wire.HeaderProtocolVersion) == "" {
		s.noteOddity(wire.HeaderProtocolVersion, "no "+wire.HeaderProtocolVersion, a) // which servers answer all the same
	}
	return a
}
