package transport

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
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
	meta   json.RawMessage // of the params
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
	var version json.RawMessage
	ok := walk(data, func(w *walker, name []byte) (ok bool) {
		var value json.RawMessage
		if string(name) == "params" && w.dec.PeekKind() == '{' {
			env.params, ok = w.object(func(w *walker, name []byte) (ok bool) {
				if value, ok = w.value(); string(name) == "_meta" {
					env.meta = value
				}
				return ok
			})
			return ok
		}
		if value, ok = w.value(); !ok {
			return false
		}
		switch string(name) {
		case "jsonrpc":
			version = value
		case "id":
			return env.setID(value)
		case "method":
			env.method = text(value)
			return value[0] == '"'
		case "params":
			env.params = value
		case "result":
			env.result = value
		case "error":
			env.error = value
		}
		return true
	})
	return env, ok && string(version) == `"2.0"`
}

// setID takes an id of the kinds that the SDK takes; null is none.
func (e *envelope) setID(value json.RawMessage) bool {
	switch jsontext.Value(value).Kind() {
	case '0':
		if _, err := strconv.ParseFloat(string(value), 64); err != nil {
			return false
		}
		e.id = value
	case '"':
		e.id = value
	case 'n':
	default:
		return false
	}
	return true
}

// A walker goes through one JSON text once. What it gives are parts of the text.
type walker struct {
	dec  *jsontext.Decoder
	buf  bytes.Buffer
	data []byte
}

var walkers = sync.Pool{New: func() any { return &walker{dec: jsontext.NewDecoder(new(bytes.Buffer))} }}

// walk calls f with the name of each member of the object in data; f takes its value. It reports
// false when data is no single valid object, has a member twice, or f says so.
func walk(data []byte, f func(w *walker, name []byte) bool) bool {
	w := walkers.Get().(*walker)
	w.data, w.buf = data, *bytes.NewBuffer(data)
	w.dec.Reset(&w.buf, jsontext.AllowDuplicateNames(true))
	_, ok := w.object(f)
	ok = ok && len(bytes.TrimSpace(data[w.dec.InputOffset():])) == 0
	w.data, w.buf = nil, bytes.Buffer{}
	w.dec.Reset(&w.buf)
	walkers.Put(w)
	return ok
}

// object takes an object apart and returns its text.
func (w *walker) object(f func(w *walker, name []byte) bool) (json.RawMessage, bool) {
	if tok, err := w.dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return nil, false
	}
	start := w.dec.InputOffset() - 1
	var few [8][]byte
	seen := few[:0]
	for w.dec.PeekKind() == '"' {
		quoted, ok := w.value()
		if !ok {
			return nil, false
		}
		name := []byte(quoted[1 : len(quoted)-1])
		if bytes.IndexByte(name, '\\') >= 0 {
			name = []byte(text(quoted))
		}
		for _, other := range seen {
			if bytes.Equal(other, name) {
				return nil, false
			}
		}
		if seen = append(seen, name); !f(w, name) {
			return nil, false
		}
	}
	if _, err := w.dec.ReadToken(); err != nil {
		return nil, false
	}
	end := w.dec.InputOffset()
	return w.data[start:end:end], true
}

// value takes the next value, whatever it is.
func (w *walker) value() (json.RawMessage, bool) {
	value, err := w.dec.ReadValue()
	if err != nil {
		return nil, false
	}
	end := w.dec.InputOffset()
	return w.data[end-int64(len(value)) : end : end], true
}

// eachMember calls f with each member of a JSON object; it reports false as walk does.
func eachMember(data []byte, f func(name string, value json.RawMessage) bool) bool {
	return walk(data, func(w *walker, name []byte) bool {
		value, ok := w.value()
		return ok && f(string(name), value)
	})
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
	out := object
	walk(object, func(w *walker, n []byte) bool {
		old, ok := w.value()
		if ok && string(n) == name {
			end := int(w.dec.InputOffset())
			out = slices.Concat(object[:end-len(old)], value, object[end:])
		}
		return ok
	})
	return out
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
func (e envelope) metaVersion() string { return text(member(e.meta, mcp.MetaKeyProtocolVersion)) }

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
