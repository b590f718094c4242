package transport

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// maxDepth is how deeply the SDK lets JSON nest.
const maxDepth = 1000

// An envelope is the outside of one JSON-RPC message, each part as received.
type envelope struct {
	id     json.RawMessage // number or string; nil when absent or null
	method string
	params json.RawMessage
	result json.RawMessage
	error  json.RawMessage
}

// isCall tells a call from a notification and from a response.
func (e envelope) isCall() bool { return e.id != nil && e.method != "" }

// parseEnvelope splits a message without decoding its params. It is stricter than the SDK: on
// anything unusual it reports false, and its callers then leave the message to the SDK.
func parseEnvelope(data []byte) (envelope, bool) {
	var env envelope
	if !utf8.Valid(data) || bytes.Count(data, []byte{'{'})+bytes.Count(data, []byte{'['}) > maxDepth {
		return env, false
	}
	version := ""
	ok := eachMember(data, func(name string, value json.RawMessage) bool {
		switch name {
		case "jsonrpc":
			version = string(value)
		case "id":
			switch jsontext.Value(value).Kind() {
			case '"', '0':
				env.id = value
			case 'n':
			default:
				return false
			}
		case "method":
			method, err := jsontext.AppendUnquote(nil, value)
			if err != nil {
				return false
			}
			env.method = string(method)
		case "params":
			env.params = value
		case "result":
			env.result = value
		case "error":
			env.error = value
		}
		return true
	})
	return env, ok && version == `"2.0"`
}

// eachMember calls f with each member of a JSON object; the values are parts of data. It reports
// false when data is no single valid object, has a member twice, or f says so.
func eachMember(data []byte, f func(name string, value json.RawMessage) bool) bool {
	return scanMembers(data, func(name string, start, end int) bool { return f(name, data[start:end:end]) })
}

// scanMembers is eachMember with the place of each value.
func scanMembers(data []byte, f func(name string, start, end int) bool) bool {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return false
	}
	var few [8]string
	seen := few[:0]
	for dec.PeekKind() != '}' {
		tok, err := dec.ReadToken()
		if err != nil {
			return false
		}
		name := tok.String()
		if slices.Contains(seen, name) {
			return false
		}
		seen = append(seen, name)
		value, err := dec.ReadValue()
		if err != nil {
			return false
		}
		end := int(dec.InputOffset())
		if !f(name, end-len(value), end) {
			return false
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return false
	}
	return len(bytes.TrimSpace(data[dec.InputOffset():])) == 0
}

// member returns one member of a JSON object, or nil.
func member(object json.RawMessage, name string) json.RawMessage {
	var found json.RawMessage
	ok := eachMember(object, func(n string, value json.RawMessage) bool {
		if n == name {
			found = value
		}
		return true
	})
	if !ok {
		return nil
	}
	return found
}

// replaceMember returns object with another value of a member that it has, all else as it was.
func replaceMember(object json.RawMessage, name string, value json.RawMessage) json.RawMessage {
	from, to := -1, -1
	scanMembers(object, func(n string, start, end int) bool {
		if n == name {
			from, to = start, end
		}
		return true
	})
	if from < 0 {
		return object
	}
	return slices.Concat(object[:from], value, object[to:])
}

// text returns the Go string of a JSON string, or "".
func text(value json.RawMessage) string {
	if len(value) == 0 || value[0] != '"' {
		return ""
	}
	s, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return ""
	}
	return string(s)
}

// metaVersion returns the protocol version that a request of the stateless revision carries in its
// params, or "".
func metaVersion(params json.RawMessage) string {
	return text(member(member(params, "_meta"), mcp.MetaKeyProtocolVersion))
}

// concerns reports whether a legacy request has to be looked at: it may be a call of the extension
// (its name possibly written with escapes) or one of the stateless revision.
func concerns(body []byte) bool {
	return bytes.Contains(body, []byte(wire.MethodPrefix)) ||
		bytes.Contains(body, []byte(mcp.MetaKeyProtocolVersion)) ||
		bytes.IndexByte(body, '\\') >= 0
}

// readBody reads the request's body and leaves an equal one in its place. It reports false when the
// body could not be read within the limit; the SDK, which then meets the same end, says so.
func (h *handler) readBody(r *http.Request) ([]byte, bool) {
	if r.Body == nil {
		return nil, false
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
	if err != nil || int64(len(body)) > limit {
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
		return nil, false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, true
}

// withTicket returns a copy of r for the SDK that carries a ticket and a fresh body.
func withTicket(r *http.Request, ticket string, body []byte) *http.Request {
	c := withBody(r, body)
	c.Header.Set(server.TicketHeader, ticket)
	return c
}

// withBody returns a copy of r with another body.
func withBody(r *http.Request, body []byte) *http.Request {
	c := r.Clone(r.Context())
	c.Body = io.NopCloser(bytes.NewReader(body))
	c.ContentLength = int64(len(body))
	return c
}
