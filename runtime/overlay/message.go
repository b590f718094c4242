package overlay

import (
	"encoding/json"
	"net/http"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A message is a JSON-RPC message. The handler does not check more than its form, because the server that answers it
// also parses it.
type message struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
	Result jsontext.Value `json:"result"`
	Error  jsontext.Value `json:"error"`
}

// lenient accepts unpaired surrogates, which JavaScript produces.
var lenient = jsontext.AllowInvalidUTF8(true)

// parse parses a message. It returns false if data is not an object or a member is repeated.
func parse(data []byte) (m message, ok bool) {
	if len(data) == 0 || jsonv2.Unmarshal(data, &m, lenient) != nil || jsontext.Value(data).Kind() != '{' {
		return message{}, false
	}
	return m, true
}

// parseBatch returns the messages of a JSON-RPC batch, or nil if data is not a batch.
func parseBatch(data []byte) (all []message) {
	if jsontext.Value(data).Kind() != '[' || jsonv2.Unmarshal(data, &all, lenient) != nil {
		return nil
	}
	return all
}

// isCall reports whether the message is a call, as opposed to a notification or a response.
func (m message) isCall() bool { return m.Method != "" && m.ID != nil && m.ID.Kind() != 'n' }

// isResponse reports whether the message is a response.
func (m message) isResponse() bool { return m.Method == "" && (m.Result != nil || m.Error != nil) }

// response returns the response to the call with the ID. The kind is "result" or "error".
func response(id jsontext.Value, kind string, value jsontext.Value) []byte {
	if id == nil {
		id = jsontext.Value("null")
	}
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	b = append(b, `,"`+kind+`":`...)
	return append(append(b, value...), '}')
}

// params decodes the params into the value that v points to. Params that do not fit leave it unchanged in part.
func (m message) params(v any) {
	if len(m.Params) > 0 {
		_ = jsonv2.Unmarshal(m.Params, v, lenient)
	}
}

// toolName returns the name of the tool that a call calls.
func (m message) toolName() string {
	var p struct {
		Name string `json:"name"`
	}
	m.params(&p)
	return p.Name
}

// requestID returns the ID of the call that a cancel cancels.
func (m message) requestID() json.RawMessage {
	var p struct {
		ID json.RawMessage `json:"requestId"`
	}
	m.params(&p)
	return p.ID
}

// meta returns the _meta of the params, or nil if it is not an object.
func (m message) meta() jsontext.Value {
	var p struct {
		Meta jsontext.Value `json:"_meta"`
	}
	if m.params(&p); len(p.Meta) > 0 && p.Meta.Kind() == '{' {
		return p.Meta
	}
	return nil
}

// namesModern reports whether the _meta of the params names the stateless revision.
func (m message) namesModern() bool {
	var meta struct {
		Version string `json:"io.modelcontextprotocol/protocolVersion"`
	}
	message{Params: m.meta()}.params(&meta)
	return meta.Version >= wire.RevisionStateless
}

// filter returns the filter of a listen request.
func (m message) filter() map[string]jsontext.Value {
	var p struct {
		Notifications map[string]jsontext.Value `json:"notifications"`
	}
	m.params(&p)
	return p.Notifications
}

// asksForOwn reports whether a listen request asks for list_changed of event types (D8).
func (m message) asksForOwn() bool { return string(m.filter()[wire.ListenFilter]) == "true" }

// asksForOthers reports whether a listen request asks for notifications of next.
func (m message) asksForOthers() bool {
	for name, value := range m.filter() {
		if name != wire.ListenFilter && string(value) != "false" {
			return true
		}
	}
	return false
}

// declaresExtension reports whether an initialize request declares the extension (CAP-3).
func (m message) declaresExtension() bool {
	var p struct {
		Capabilities struct {
			Extensions map[string]jsontext.Value `json:"extensions"`
		} `json:"capabilities"`
	}
	m.params(&p)
	_, ok := p.Capabilities.Extensions[wire.ExtensionID]
	return ok
}

// refuseBatch refuses a batch that has a call of the event server.
func refuseBatch(w http.ResponseWriter) {
	writeError(w, http.StatusBadRequest, nil, jsonrpc.CodeInvalidRequest,
		"InvalidRequest: JSON-RPC batches are not supported for events: send each message separately")
}

// writeError answers a call with a JSON-RPC error.
func writeError(w http.ResponseWriter, status int, id jsontext.Value, code int64, text string) {
	w.Header().Set("Content-Type", contentTypeJSON)
	w.WriteHeader(status)
	_, _ = w.Write(response(id, "error", errorValue(code, text)))
}

// errorValue returns a JSON-RPC error object.
func errorValue(code int64, text string) jsontext.Value {
	value, _ := jsonv2.Marshal(&jsonrpc.Error{Code: code, Message: text})
	return value
}
