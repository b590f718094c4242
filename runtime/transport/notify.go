package transport

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// A deed is what a notification does that a stand-in takes the place of.
type deed struct {
	do      func()
	cancels bool
}

// standIns puts another notification in the place of each that is carried out here: a cancel in a legacy session, which
// has to mute the response before the SDK ends the call (D14), and what an adapter awaits, which the SDK knows as a
// request and would refuse (CONV-2). The SDK judges the stand-in, with its checks of host, session, caller and revision;
// what the real ones do is returned, for when it has accepted.
func (h *handler) standIns(r *http.Request, session string, p *posted) (deeds []deed) {
	parts, envs := p.parts, p.batch
	if p.batch == nil {
		if p.env.isCall() {
			return nil
		}
		parts, envs = []json.RawMessage{p.body}, []envelope{p.env}
	}
	principal := ""
	for i, env := range envs {
		if env.isCall() || env.method == "" {
			continue
		}
		cancels := env.method == methodCancelled && session != ""
		if !cancels && !h.es.Awaits(env.method) {
			continue
		}
		if deeds == nil {
			principal, _ = h.caller(r)
		}
		do := func() {
			// The request is over; what comes of the notification is not.
			h.es.Notified(context.WithoutCancel(r.Context()), port.Notification{Method: env.method, Params: env.params, Principal: principal, Session: session})
		}
		if cancels {
			if do = h.cancelOf(r, principal, session, parts[i], env); do == nil {
				continue
			}
		}
		deeds = append(deeds, deed{do, cancels})
		parts[i] = standIn(env)
	}
	switch {
	case deeds == nil:
	case p.batch == nil:
		p.body, p.env = parts[0], envelope{method: methodCancelled, idAt: -1}
	default:
		p.body = joinBatch(parts)
	}
	return deeds
}

// standIn is a cancel of no call, of the revision of the notification that it stands for.
func standIn(env envelope) json.RawMessage {
	b := []byte(`{"jsonrpc":"2.0","method":"` + methodCancelled + `","params":{"` + memberRequestID + `":`)
	b = append(b, aliasValue(aliasOf(json.RawMessage(`0`), noCall))...)
	if meta := member(env.params, "_meta"); meta != nil {
		b = append(append(b, `,"_meta":`...), meta...)
	}
	return append(b, "}}"...)
}

// cancelOf is what a cancel does: it mutes the call's response, and then the SDK ends the call, where it has to, by the id
// under which it knows it. nil when the cancel names no id.
func (h *handler) cancelOf(r *http.Request, principal, session string, message json.RawMessage, env envelope) func() {
	start, end, ok := locate(env.params, memberRequestID)
	if !ok || !isID(env.params[start:end]) {
		return nil
	}
	id := env.params[start:end]
	body := []byte(message)
	if at, to, ok := locate(message, "params", memberRequestID); ok && !survives(id) {
		body = splice(body, at, to, aliasValue(aliasOf(id, 0)))
	}
	key := newCallKey(principal, session, id)
	return func() {
		if h.calls.cancel(key) {
			h.legacy.ServeHTTP(newRecorder(), withBody(r, body))
		}
	}
}

// An acceptance is the response to a POST with stand-ins. When the SDK accepts the POST the deeds are done, before the
// client hears of it.
type acceptance struct {
	http.ResponseWriter
	deeds []deed
}

// Unwrap gives the SDK's response controller flushing and deadlines.
func (w *acceptance) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader tells whether the SDK has accepted.
func (w *acceptance) WriteHeader(status int) {
	w.judged(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *acceptance) Write(b []byte) (int, error) {
	w.judged(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// judged does the deeds, once, or never when the SDK refused.
func (w *acceptance) judged(status int) {
	deeds := w.deeds
	w.deeds = nil
	if status >= http.StatusMultipleChoices {
		return
	}
	for _, d := range deeds {
		d.do()
	}
}

// cancelled does the cancels and no more, if allowed says so; without one it is not asked.
func (w *acceptance) cancelled(allowed func() bool) {
	cancels := func(d deed) bool { return d.cancels }
	if !slices.ContainsFunc(w.deeds, cancels) || !allowed() {
		return
	}
	for _, d := range w.deeds {
		if d.cancels {
			d.do()
		}
	}
	w.deeds = slices.DeleteFunc(w.deeds, cancels)
}
