package transport

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// carriesOut reports whether this package handles a notification: a cancel in a legacy session, which must mute the
// response before the SDK ends the call (D14), and a notification for an adapter, whose method the SDK knows as a
// request and would refuse (CONV-2).
func (h *handler) carriesOut(session string, env envelope) bool {
	return !env.isCall() && env.method != "" && (env.method == methodCancelled && session != "" || h.es.Awaits(env.method))
}

// serveNotification handles a notification if the SDK accepts a substitute.
func (h *handler) serveNotification(w http.ResponseWriter, r *http.Request, sdk http.Handler, session string, p *posted) {
	check := h.check(sdk, r, p.env)
	if check.accepted() {
		h.carryOut(r, session, p.body, p.env)
	}
	check.pass(&nullWriter{w})
}

// noCall is an ID that no call has.
var noCall = rand.Text()

// check tests whether the SDK would accept a notification. The SDK may refuse it because the session has ended or
// belongs to another user, or because a header is missing. check sends it a substitute with the request's headers and
// token: a cancel of a nonexistent call, which middleware does not see.
func (h *handler) check(sdk http.Handler, r *http.Request, env envelope) *recorder {
	b := []byte(`{"jsonrpc":"2.0","method":"` + methodCancelled + `","params":{"` + memberRequestID + `":"` + noCall + `"`)
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

// carryOut handles a notification. A cancel mutes its call's response; then the SDK ends the call if necessary.
func (h *handler) carryOut(r *http.Request, session string, message json.RawMessage, env envelope) {
	principal, _ := h.caller(r)
	if env.method != methodCancelled || session == "" {
		ctx := context.WithoutCancel(r.Context()) // the notification outlives its request
		h.es.Notified(ctx, port.Notification{Method: env.method, Params: env.params, Principal: principal, Session: session})
		return
	}
	id := member(env.params, memberRequestID)
	if isID(id) && h.calls.cancel(newCallKey(principal, session, id)) {
		h.legacy.ServeHTTP(newRecorder(), withBody(r, message))
	}
}
