package transport

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// handlesNotification reports whether this package handles a notification. It handles cancels in legacy sessions,
// because the response must be suppressed before the SDK ends the call (D14). It also handles notifications for
// adapters, because the SDK knows their methods only as requests and would refuse them (CONV-2).
func (h *handler) handlesNotification(session string, env envelope) bool {
	return !env.isCall() && env.method != "" && (env.method == methodCancelled && session != "" || h.es.Awaits(env.method))
}

// serveNotification handles a notification if the SDK accepts a substitute for it.
func (h *handler) serveNotification(w http.ResponseWriter, r *http.Request, sdk http.Handler, session string, p *postBody) {
	check := h.sendSubstitute(sdk, r, p.env)
	if check.isAccepted() {
		h.handleNotification(r, session, p.body, p.env)
	}
	check.writeTo(&nullWriter{w})
}

// A nullWriter is the response to a notification. If the SDK's response is an error without an ID, it adds the null ID.
type nullWriter struct{ http.ResponseWriter }

// Unwrap gives the SDK's response controller access to everything except writing.
func (w *nullWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *nullWriter) Write(p []byte) (int, error) {
	env, ok := envelope{}, false
	if mediaType(w.Header().Get("Content-Type")) == contentTypeJSON {
		env, ok = parseEnvelope(p)
	}
	if !ok || env.error == nil || env.id != nil {
		return w.ResponseWriter.Write(p)
	}
	if _, err := w.ResponseWriter.Write(appendResponse(nil, json.RawMessage(`null`), "error", env.error)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// unusedID is an ID that no call uses.
var unusedID = rand.Text()

// sendSubstitute sends the SDK a substitute for a notification and returns the response. The SDK may refuse it because
// the session has ended or belongs to another user, or because a header is missing. The substitute has the headers and
// token of the request. It cancels a nonexistent call and is not passed to middleware.
func (h *handler) sendSubstitute(sdk http.Handler, r *http.Request, env envelope) *recorder {
	b := []byte(`{"jsonrpc":"2.0","method":"` + methodCancelled + `","params":{"` + memberRequestID + `":"` + unusedID + `"`)
	if meta := member(env.params, "_meta"); meta != nil {
		b = append(append(b, `,"_meta":`...), meta...)
	}
	c := withBody(r, append(b, "}}"...))
	if c.Header.Get(headerMethod) != "" {
		c.Header.Set(headerMethod, methodCancelled)
	}
	answer := newRecorder()
	sdk.ServeHTTP(answer, c)
	return answer
}

// handleNotification handles a notification. For a cancel, it suppresses the response to the call and, if necessary,
// has the SDK end the call.
func (h *handler) handleNotification(r *http.Request, session string, message json.RawMessage, env envelope) {
	principal, _ := h.authenticate(r)
	if env.method != methodCancelled || session == "" {
		ctx := context.WithoutCancel(r.Context()) // the notification outlives its request
		h.es.Notified(ctx, port.Notification{Method: env.method, Params: env.params, Principal: principal, Session: session})
		return
	}
	id := member(env.params, memberRequestID)
	if !isID(id) {
		return
	}
	call := h.calls.cancel(newCallKey(principal, session, id))
	if call == nil {
		return
	}
	if !isPreservedID(call) {
		message = []byte(`{"jsonrpc":"2.0","method":"` + methodCancelled + `","params":` + string(cancelOfCall(env.params, call)) + `}`)
	}
	h.legacy.ServeHTTP(newRecorder(), withBody(r, message))
}
