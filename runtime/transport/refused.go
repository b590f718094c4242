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

// Texts with which the SDK refuses a message, before it does anything of the request: that method is not one of the
// server's, or the message lacks params or has an id that it must not have. Over HTTP they are the whole answer, with
// status 400, in the older revisions both and in the stateless one the second. A call is answered with a JSON-RPC error.
const (
	sdkUnknownMethod  = "JSON RPC not handled: %q unsupported"
	sdkInvalidRequest = "invalid request: "
)

// pass gives a request to the SDK. If the SDK refuses it because of an unknown method, calls of that method are answered
// here, and the SDK gets the rest of a batch.
func (h *handler) pass(sdk http.Handler, w http.ResponseWriter, r *http.Request, p *posted) {
	var answers []unknownCall
	for {
		body, _ := p.forSDK()
		setBody(r, body)
		c := &refusalWriter{ResponseWriter: w, answers: answers}
		sdk.ServeHTTP(c, r)
		unknown, taken := p.takeUnknown(c.refusal())
		answers = append(answers, unknown...)
		switch {
		case !taken || len(p.batch) == 0 && len(answers) == 0:
			c.finish(p)
			return
		case len(p.batch) == 0:
			w.Header().Del("X-Content-Type-Options") // of the SDK's text
			writeAnswers(w, p, answers)
			return
		}
		w.Header().Del("X-Content-Type-Options")
	}
}

// An unknownCall is a call of a method that the server does not have.
type unknownCall struct {
	id    json.RawMessage
	value json.RawMessage // the error
}

// forSDK returns the answer as a [restorer] expects it.
func (c unknownCall) forSDK() json.RawMessage {
	return appendResponse(nil, idForSDK(c.id), "error", c.value)
}

// idForSDK returns the id that the SDK would write: that of a call, or its alias.
func idForSDK(id json.RawMessage) json.RawMessage {
	if survives(id) {
		return id
	}
	return aliasValue(aliasOf(id, 0))
}

// takeUnknown takes the messages with the method that the SDK refused out of a batch, or the one message that is not
// in a batch if it is a call. It returns the calls among them.
func (p *posted) takeUnknown(refusal string) (calls []unknownCall, taken bool) {
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
	p.drop(unknown)
	return calls, len(p.batch) < before
}

// writeAnswers writes answers as JSON, in an array if they are to a batch.
func writeAnswers(w http.ResponseWriter, p *posted, answers []unknownCall) {
	body := []byte(answers[0].forSDK())
	if p.batch != nil {
		parts := make([]json.RawMessage, len(answers))
		for i, a := range answers {
			parts[i] = appendResponse(nil, a.id, "error", a.value)
		}
		body = joinBatch(parts)
	}
	w.Header().Set("Content-Type", contentTypeJSON)
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body)
}

// A refusalWriter holds back the SDK's refusal of a message, and adds answers to its response.
type refusalWriter struct {
	http.ResponseWriter
	answers []unknownCall // of the same batch
	held    int           // a status that is not written yet
	text    bytes.Buffer  // of a refusal
}

// Unwrap gives response controllers flushing and deadlines.
func (w *refusalWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader holds back 400 with a text, and 202 if there is something to add.
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
	if err := w.add(); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

// add writes the answers before the SDK's events.
func (w *refusalWriter) add() error {
	if len(w.answers) == 0 || mediaType(w.Header().Get("Content-Type")) != contentTypeEvents {
		return nil
	}
	var b []byte
	for _, answer := range w.answers {
		b = append(b, asEvent(answer.forSDK())...)
	}
	w.answers = nil
	_, err := w.ResponseWriter.Write(b)
	return err
}

// refusal returns the text of a refusal that is held back.
func (w *refusalWriter) refusal() string {
	if w.held != http.StatusBadRequest {
		return ""
	}
	return strings.TrimSpace(w.text.String())
}

// finish writes what is held back, and the answers to which nothing was added.
func (w *refusalWriter) finish(p *posted) {
	reason, invalid := strings.CutPrefix(w.refusal(), sdkInvalidRequest)
	switch {
	case invalid && (p.env.isCall() || p.batch != nil):
		bad := invalidRequest(reason)
		if p.batch == nil {
			bad.id = idForSDK(p.env.id)
		}
		w.Header().Del("X-Content-Type-Options")
		refuseMalformed(w.ResponseWriter, bad, true)
	case w.held == http.StatusAccepted:
		writeAnswers(w.ResponseWriter, p, w.answers)
	case w.held != 0:
		w.ResponseWriter.WriteHeader(w.held)
		_, _ = w.ResponseWriter.Write(w.text.Bytes())
	default:
		_ = w.add()
	}
}
