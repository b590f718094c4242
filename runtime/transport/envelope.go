package transport

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// maxDepth is the SDK's limit on JSON nesting.
const maxDepth = 1000

// An envelope holds the top-level members of a JSON-RPC message as received.
type envelope struct {
	id     json.RawMessage // a number or string; nil if absent or null
	method string
	params json.RawMessage
	meta   json.RawMessage // of the params
	result json.RawMessage
	error  json.RawMessage
}

// isCall reports whether e is a call, as opposed to a notification or a response.
func (e envelope) isCall() bool { return e.id != nil && e.method != "" }

// A malformedError describes a message that is not valid JSON-RPC. The response contains the code and the reason, and
// the message's ID if it could be parsed (CAP-6).
type malformedError struct {
	code   int64
	reason string
	id     json.RawMessage
}

// checkLength returns an error if the params of an extension method exceed the bound. It is called before the params
// are decoded (CAP-5).
func (e envelope) checkLength(bound int) *malformedError {
	if len(e.params) <= bound || !strings.HasPrefix(e.method, wire.MethodPrefix) {
		return nil
	}
	return &malformedError{code: jsonrpc.CodeInvalidParams, id: e.id,
		reason: "have " + strconv.Itoa(len(e.params)) + " bytes of JSON, at most " + strconv.Itoa(bound)}
}

// Error returns the name of the code and the reason, in the same form as other errors of this module.
func (m *malformedError) Error() string {
	switch m.code {
	case jsonrpc.CodeParseError:
		return "ParseError: " + m.reason
	case jsonrpc.CodeInvalidParams:
		return "InvalidParams: " + m.reason
	}
	return "InvalidRequest: " + m.reason
}

// response returns the JSON-RPC response.
func (m *malformedError) response() []byte {
	id := m.id
	if id == nil {
		id = json.RawMessage(`null`)
	}
	e := &jsonrpc.Error{Code: m.code, Message: m.Error()}
	if m.code == jsonrpc.CodeInvalidParams {
		e.Data, _ = jsonv2.Marshal(wire.FieldErrors{Errors: []wire.FieldError{{Message: m.reason}}})
	}
	value, _ := jsonv2.Marshal(e)
	return appendResponse(nil, id, "error", value)
}

func parseError(reason string) *malformedError {
	return &malformedError{code: jsonrpc.CodeParseError, reason: reason}
}

func invalidRequest(reason string) *malformedError {
	return &malformedError{code: jsonrpc.CodeInvalidRequest, reason: reason}
}

// parseEnvelope is like parseMessage, but without a bound. It returns false if the message is malformed.
func parseEnvelope(data []byte) (envelope, bool) {
	env, bad := parseMessage(data, math.MaxInt)
	return env, bad == nil
}

// checkText checks that data is valid UTF-8 and not nested too deeply, which the JSON decoder does not check.
func checkText(data []byte) *malformedError {
	switch {
	case !utf8.Valid(data):
		return parseError("the message is not valid UTF-8")
	case codec.Deeper(data, maxDepth):
		return parseError("the message is nested deeper than " + strconv.Itoa(maxDepth) + " levels")
	}
	return nil
}

// parseMessage parses a message without decoding its params. It interprets messages as the SDK does. For every method,
// malformed messages are refused before they are processed. The bound for params applies only to the extension's
// methods.
func parseMessage(data []byte, bound int) (envelope, *malformedError) {
	if bad := checkText(data); bad != nil {
		return envelope{}, bad
	}
	w := newWalker(data)
	defer w.release()
	return w.readMessage(bound)
}

// readMessage parses the text as a single message. It refuses a JSON-RPC batch, which only revision 2025-03-26 has.
func (w *walker) readMessage(bound int) (env envelope, bad *malformedError) {
	if kind := w.dec.PeekKind(); kind != '{' {
		_, ok := w.readValue()
		switch {
		case !ok || !w.atEnd():
			return env, parseError("the message is not valid JSON")
		case kind == '[':
			return env, invalidRequest("JSON-RPC batches are not supported: send each message separately")
		}
		return env, invalidRequest("the message is not an object")
	}
	var seen nameSet
	var version json.RawMessage
	ids, method := 0, false
	fault := func(reason string) {
		if bad == nil {
			bad = invalidRequest(reason)
		}
	}
	_, ok := w.readObject(func(w *walker, name []byte) (ok bool) {
		if seen.add(name) {
			fault("member /" + wire.Shown(string(name)) + " is repeated")
		}
		var value json.RawMessage
		if string(name) == "params" && len(w.data) <= bound && w.dec.PeekKind() == '{' {
			env.params, env.meta, ok = w.readParams()
			return ok
		}
		if value, ok = w.readValue(); !ok {
			return false
		}
		switch string(name) {
		case "jsonrpc":
			version = value
		case "id":
			ids++
			switch kind := jsontext.Value(value).Kind(); {
			case kind == 'n':
			case kind != '0' && kind != '"':
				fault("/id is neither a string nor a number")
			case len(value) > maxID:
				fault("/id has " + strconv.Itoa(len(value)) + " bytes, more than " + strconv.Itoa(maxID))
			default:
				env.id = value
			}
		case "method":
			if value[0] != '"' {
				fault("/method is not a string")
			}
			env.method, method = unquote(value), true
		case "params":
			env.params = value
		case "result":
			env.result = value
		case "error":
			if value[0] != '{' {
				fault("/error is not an object")
			}
			env.error = value
		}
		return true
	})
	switch {
	case !ok:
		return envelope{}, parseError("the message is not valid JSON")
	case !w.atEnd():
		return envelope{}, parseError("the message is followed by something else")
	case bad == nil && string(version) != `"2.0"`:
		bad = invalidRequest(`/jsonrpc is not "2.0"`)
	case bad == nil && !method && env.error == nil && (env.id == nil || env.result == nil):
		bad = invalidRequest("the message is neither a request nor a response")
	case bad == nil && method && ids > 0 && env.id == nil:
		bad = invalidRequest("/id is null")
	case bad == nil:
		if bad = env.checkLength(bound); bad == nil && len(w.data) > bound && isObject(env.params) {
			env.meta = metaOf(env.params)
		}
		if bad != nil {
			return envelope{}, bad
		}
	}
	if bad != nil {
		if method && ids == 1 {
			bad.id = env.id
		}
		return envelope{}, bad
	}
	return env, nil
}

// metaOf returns the _meta of params.
func metaOf(params json.RawMessage) (meta json.RawMessage) {
	w := newWalker(params)
	defer w.release()
	_, meta, _ = w.readParams()
	return meta
}

// A walker reads a JSON text in a single pass. The returned values share memory with the text.
type walker struct {
	dec  *codec.Reader
	data []byte
}

// newWalker returns a walker for data. It accepts unpaired surrogates, because JavaScript produces such strings. Each
// method decides whether a value may contain one.
func newWalker(data []byte) *walker {
	return &walker{codec.NewReader(data, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)), data}
}

// release releases the walker's memory. The values it has returned remain valid.
func (w *walker) release() { w.dec.Release() }

// atEnd reports whether only white space follows.
func (w *walker) atEnd() bool { return len(bytes.Trim(w.data[w.dec.InputOffset():], " \t\r\n")) == 0 }

// A nameSet is a set of member names of an object.
type nameSet struct {
	few  [8][]byte
	n    int
	many map[string]struct{} // the names after the first eight
}

// add adds name and reports whether it was already in the set.
func (s *nameSet) add(name []byte) bool {
	for _, other := range s.few[:s.n] {
		if bytes.Equal(other, name) {
			return true
		}
	}
	if s.n < len(s.few) {
		s.few[s.n] = name
		s.n++
		return false
	}
	if _, ok := s.many[string(name)]; ok {
		return true
	}
	if s.many == nil {
		s.many = map[string]struct{}{}
	}
	s.many[string(name)] = struct{}{}
	return false
}

// readObject reads an object, calls f for each member, and returns the object's text. It returns false if the text is
// invalid or f returns false.
func (w *walker) readObject(f func(w *walker, name []byte) bool) (json.RawMessage, bool) {
	if tok, err := w.dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return nil, false
	}
	start := w.dec.InputOffset() - 1
	for w.dec.PeekKind() == '"' {
		quoted, ok := w.readValue()
		if !ok {
			return nil, false
		}
		if name, _ := codec.Unquote(quoted); !f(w, name) {
			return nil, false
		}
	}
	if _, err := w.dec.ReadToken(); err != nil {
		return nil, false
	}
	end := w.dec.InputOffset()
	return w.data[start:end:end], true
}

// readValue reads the next value of any type.
func (w *walker) readValue() (json.RawMessage, bool) {
	value, err := w.dec.ReadValue()
	if err != nil {
		return nil, false
	}
	end := w.dec.InputOffset()
	return w.data[end-int64(len(value)) : end : end], true
}

// readParams reads an object and returns its text and its member _meta.
func (w *walker) readParams() (params, meta json.RawMessage, ok bool) {
	params, ok = w.readObject(func(w *walker, name []byte) bool {
		value, ok := w.readValue()
		if string(name) == "_meta" {
			meta = value
		}
		return ok
	})
	return params, meta, ok
}

// eachMember calls f with each member of the object in data. It returns false if data is not a single valid object, if a
// member is repeated, or if f returns false.
func eachMember(data []byte, f func(name string, value json.RawMessage) bool) bool {
	w := newWalker(data)
	defer w.release()
	var seen nameSet
	_, ok := w.readObject(func(w *walker, name []byte) bool {
		value, ok := w.readValue()
		return ok && !seen.add(name) && f(string(name), value)
	})
	return ok && w.atEnd()
}

// member returns the named member of a JSON object, or nil if it does not exist.
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

// unquote returns the value of a JSON string, or "" for any other JSON value. An unpaired surrogate becomes U+FFFD.
func unquote(value json.RawMessage) string {
	if len(value) == 0 || value[0] != '"' {
		return ""
	}
	text, _ := codec.Unquote(value) // the value is otherwise known to be valid
	return string(text)
}

// metaVersion returns the protocol version in the params of a stateless request, or "".
func (e envelope) metaVersion() string { return unquote(member(e.meta, mcp.MetaKeyProtocolVersion)) }

// setBody replaces the body of r.
func setBody(r *http.Request, body []byte) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
}

// withBody returns a copy of r with the given body.
func withBody(r *http.Request, body []byte) *http.Request {
	c := r.Clone(r.Context())
	setBody(c, body)
	return c
}
