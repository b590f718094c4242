package conform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A request is a JSON-RPC request to send.
type request struct {
	id     json.RawMessage
	method string
	params map[string]any
	// omitsExtension omits the extension from the client's capabilities (CAP-3).
	omitsExtension bool
	// omitsToken sends no token (SUB-2). otherCaller sends the token of another caller (SUB-10).
	omitsToken, otherCaller bool
	// escapes writes the name with an escaped letter, and the method with an escaped slash.
	escapes bool
	// within is how long the response may take. It is 0 for a stream.
	within time.Duration
}

// extensionCapabilities contains the capabilities of a client that supports the extension (CAP-3).
var extensionCapabilities = map[string]any{"extensions": map[string]any{wire.ExtensionID: map[string]any{}}}

// clientInfo identifies this client to the server.
var clientInfo = map[string]any{"name": "mcpe-conform", "version": "1"}

// encode returns the request's bytes. A request without an id is a notification.
func (q request) encode(revision string) []byte {
	params := maps.Clone(q.params)
	if params == nil {
		params = map[string]any{}
	}
	if revision >= wire.RevisionStateless {
		capabilities := extensionCapabilities
		if q.omitsExtension {
			capabilities = map[string]any{}
		}
		// These members replace the handshake.
		params["_meta"] = map[string]any{wire.MetaProtocolVersion: revision,
			"io.modelcontextprotocol/clientCapabilities": capabilities, "io.modelcontextprotocol/clientInfo": clientInfo}
	}
	text := verdict.Encode(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id,omitempty"`
		Method  string          `json:"method"`
		Params  map[string]any  `json:"params"`
	}{"2.0", q.id, q.method, params})
	if q.escapes {
		text = bytes.ReplaceAll(text, []byte(`"name":`), []byte(`"n\u0061me":`))
		text = bytes.ReplaceAll(text, []byte(q.method), []byte(strings.ReplaceAll(q.method, "/", `\/`)))
	}
	return text
}

// notification returns the JSON encoding of a notification.
func notification(method string, params map[string]any) []byte {
	return request{method: method, params: params}.encode("")
}

// A message is a response or a stream notification from the server.
type message struct {
	raw    json.RawMessage
	id     json.RawMessage
	method string
	params json.RawMessage
	result json.RawMessage
	err    *wire.ErrorObject
}

// parse parses a message. It returns an error that describes any fault.
func parse(raw []byte) (message, error) {
	var m struct {
		JSONRPC string            `json:"jsonrpc"`
		ID      json.RawMessage   `json:"id"`
		Method  string            `json:"method"`
		Params  json.RawMessage   `json:"params"`
		Result  json.RawMessage   `json:"result"`
		Error   *wire.ErrorObject `json:"error"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return message{}, fmt.Errorf("not a JSON-RPC message: %w", err)
	}
	switch response := m.Result != nil || m.Error != nil; {
	case m.JSONRPC != "2.0":
		return message{}, fmt.Errorf("jsonrpc is %q, not \"2.0\"", wire.Shown(m.JSONRPC))
	case response == (m.Method != ""), m.Result != nil && m.Error != nil:
		return message{}, fmt.Errorf("neither a response nor a request")
	}
	return message{raw: raw, id: m.ID, method: m.Method, params: m.Params, result: m.Result, err: m.Error}, nil
}

// isResponse reports whether the message is a response rather than a notification.
func (m message) isResponse() bool { return m.method == "" }

// subscription returns the subscription ID of a stream notification (PUSH-2).
func (m message) subscription() json.RawMessage {
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	_ = json.Unmarshal(m.params, &p)
	return p.Meta[wire.MetaSubscriptionID]
}

// An exchange is a request and the response to it.
type exchange struct {
	request []byte
	// answer is the response. Its raw field is nil if none arrived.
	answer message
	// status, contentType and date are from the HTTP response. They are zero over stdio.
	status      int
	contentType string
	date        time.Time
	// took is how long the server took to respond.
	took time.Duration
	// refusal is the reason to skip a check that needs a result, if the server may always refuse the request.
	refusal error
}

// result decodes the answer's result.
func (x *exchange) result(to any) error {
	if err := x.refused("a result"); err != nil {
		return err
	}
	if err := json.Unmarshal(x.answer.result, to); err != nil {
		return x.violation("a result of the method's form", "%v", err)
	}
	return nil
}

// violation returns a violation that shows the exchange.
func (x *exchange) violation(expected, got string, args ...any) *verdict.Violation {
	return &verdict.Violation{Request: x.request, Answer: x.answer.raw, Expected: expected, Got: fmt.Sprintf(got, args...)}
}
