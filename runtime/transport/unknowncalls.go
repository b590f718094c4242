package transport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Error texts of the SDK for a message that it refuses before it processes any part of the request. Either the server
// does not support the method, or the message lacks params or must not have an ID. Over HTTP, the SDK responds with the
// text and status 400. It uses both texts in older revisions and the second one in the stateless revision. This package
// answers calls with a JSON-RPC error instead.
const (
	sdkUnknownMethod  = "JSON RPC not handled: %q unsupported"
	sdkInvalidRequest = "invalid request: "
)

// forward passes a request to the SDK. If the SDK refuses it because of an unknown method, forward answers the calls to
// that method itself and passes the rest of a batch to the SDK.
func (h *handler) forward(sdk http.Handler, w http.ResponseWriter, r *http.Request, p *postBody) {
	var answers []unknownCall
	for {
		setBody(r, p.body)
		c := &refusalWriter{ResponseWriter: w, answers: answers}
		sdk.ServeHTTP(c, r)
		unknown, taken := p.removeUnknown(c.refusalText())
		answers = append(answers, unknown...)
		switch {
		case !taken || len(p.batch) == 0 && len(answers) == 0:
			c.finish(p)
			return
		case len(p.batch) == 0:
			w.Header().Del("X-Content-Type-Options") // set for the SDK's text
			writeAnswers(w, p, answers)
			return
		}
		w.Header().Del("X-Content-Type-Options")
	}
}

// An unknownCall is a call to a method that the server does not support.
type unknownCall struct {
	id    json.RawMessage
	value json.RawMessage // the error
}

// message returns the error response.
func (c unknownCall) message() json.RawMessage { return appendResponse(nil, c.id, "error", c.value) }

// removeUnknown removes from a batch the messages whose method the SDK refused, and returns the calls among them. For a
// single message, it reports whether the message is such a call.
func (p *postBody) removeUnknown(refusal string) (calls []unknownCall, taken bool) {
	if refusal == "" {
		return nil, false
	}
	unknown := func(e envelope) bool {
		return e.method != "" && refusal == fmt.Sprintf(sdkUnknownMethod, e.method)
	}
	for _, e := range append([]envelope{p.env}, p.batch...) {
		if e.isCall() && unknown(e) {
			value, _ := jsonv2.Marshal(&jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + wire.Shown(e.method)})
			calls = append(calls, unknownCall{e.id, value})
		}
	}
	if p.batch == nil {
		return calls, len(calls) > 0
	}
	before := len(p.batch)
	p.removeMessages(unknown)
	return calls, len(p.batch) < before
}

// writeAnswers writes the responses as JSON. For a batch, it writes an array.
func writeAnswers(w http.ResponseWriter, p *postBody, answers []unknownCall) {
	body := []byte(answers[0].message())
	if p.batch != nil {
		parts := make([]json.RawMessage, len(answers))
		for i, a := range answers {
			parts[i] = a.message()
		}
		body = joinBatch(parts)
	}
	w.Header().Set("Content-Type", contentTypeJSON)
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body)
}

// A refusalWriter withholds the SDK's refusal of a message, and adds further answers to the SDK's response.
type refusalWriter struct {
	http.ResponseWriter
	answers []unknownCall // for the same batch
	held    int           // a withheld status
	text    bytes.Buffer  // the refusal's
}

// Unwrap gives response controllers access to flushing and deadlines.
func (w *refusalWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader withholds a 400 response with plain text, and a 202 response if there are answers to add.
func (w *refusalWriter) WriteHeader(status int) {
	if status == http.StatusBadRequest && mediaType(w.Header().Get("Content-Type")) == "text/plain" || status == http.StatusAccepted && len(w.answers) > 0 {
		w.held = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *refusalWriter) Write(p []byte) (int, error) {
	if w.held != 0 {
		return w.text.Write(p)
	}
	if err := w.addAnswers(); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

// addAnswers writes the answers before the SDK's events.
func (w *refusalWriter) addAnswers() error {
	if len(w.answers) == 0 || mediaType(w.Header().Get("Content-Type")) != contentTypeEvents {
		return nil
	}
	var b []byte
	for _, answer := range w.answers {
		b = append(b, encodeSSE(answer.message())...)
	}
	w.answers = nil
	_, err := w.ResponseWriter.Write(b)
	return err
}

// refusalText returns the text of a withheld refusal.
func (w *refusalWriter) refusalText() string {
	if w.held != http.StatusBadRequest {
		return ""
	}
	return strings.TrimSpace(w.text.String())
}

// finish writes the withheld response and any answers that were not added to the SDK's events.
func (w *refusalWriter) finish(p *postBody) {
	reason, invalid := strings.CutPrefix(w.refusalText(), sdkInvalidRequest)
	switch {
	case invalid && (p.env.isCall() || p.batch != nil):
		bad := invalidRequest(reason)
		if p.batch == nil {
			bad.id = p.env.id
		}
		w.Header().Del("X-Content-Type-Options")
		refuseMalformed(w.ResponseWriter, bad, true)
	case w.held == http.StatusAccepted:
		writeAnswers(w.ResponseWriter, p, w.answers)
	case w.held != 0:
		w.ResponseWriter.WriteHeader(w.held)
		_, _ = w.ResponseWriter.Write(w.text.Bytes())
	default:
		_ = w.addAnswers()
	}
}
