package transport

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Error texts of the SDK for a message that it refuses before it processes it. Either the server does not support the
// method, or the message lacks params or must not have an ID. Over HTTP, the SDK responds with the text and status 400.
// It uses both texts in older revisions and the second one in the stateless revision. This package answers calls with a
// JSON-RPC error instead.
const (
	sdkUnknownMethod  = "JSON RPC not handled: %q unsupported"
	sdkInvalidRequest = "invalid request: "
)

// A refusalWriter is the response to a call. It withholds the SDK's refusal.
type refusalWriter struct {
	http.ResponseWriter
	refused bool
	text    bytes.Buffer // of the refusal
}

// Unwrap gives response controllers access to flushing and deadlines.
func (w *refusalWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader withholds a 400 response with plain text.
func (w *refusalWriter) WriteHeader(status int) {
	if status == http.StatusBadRequest && mediaType(w.Header().Get("Content-Type")) == "text/plain" {
		w.refused = true
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *refusalWriter) Write(p []byte) (int, error) {
	if w.refused {
		return w.text.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

// answer writes a JSON-RPC error instead of the SDK's refusal of a call, or the refusal if it has another reason.
func (w *refusalWriter) answer(call envelope) {
	text := strings.TrimSpace(w.text.String())
	reason, invalid := strings.CutPrefix(text, sdkInvalidRequest)
	switch {
	case text == fmt.Sprintf(sdkUnknownMethod, call.method):
		value, _ := jsonv2.Marshal(&jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + wire.Shown(call.method)})
		w.Header().Del("X-Content-Type-Options") // set for the SDK's text
		w.Header().Set("Content-Type", contentTypeJSON)
		w.ResponseWriter.WriteHeader(http.StatusOK)
		_, _ = w.ResponseWriter.Write(appendResponse(nil, call.id, "error", value))
	case invalid:
		bad := invalidRequest(reason)
		bad.id = call.id
		w.Header().Del("X-Content-Type-Options")
		refuseMalformed(w.ResponseWriter, bad, true)
	default:
		w.ResponseWriter.WriteHeader(http.StatusBadRequest)
		_, _ = w.ResponseWriter.Write(w.text.Bytes())
	}
}
