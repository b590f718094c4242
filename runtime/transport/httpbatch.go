package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
)

// An httpBatch is a JSON-RPC batch over HTTP, as in revision 2025-03-26. The response is a stream with an event for
// each response to a call. It has no event for a cancelled call, as if the call were not in the batch (D14).
type httpBatch struct {
	calls map[string]*liveCall // by idKey
	stop  context.CancelFunc   // ends the stream

	mu   sync.Mutex
	open map[*liveCall]struct{} // neither answered nor cancelled
}

// serveBatch serves a batch of a legacy revision. It handles some notifications itself and passes the rest to the SDK.
func (h *handler) serveBatch(w http.ResponseWriter, r *http.Request, p *postBody, principal, session string) {
	if bad := p.checkIDs(); bad != nil { // nothing of it is executed
		refuseMalformed(w, bad, true)
		return
	}
	ours := func(e envelope) bool { return h.handlesNotification(session, e) }
	if slices.ContainsFunc(p.batch, ours) {
		if check := h.sendSubstitute(h.legacy, r, envelope{}); !check.isAccepted() {
			check.writeTo(w)
			return
		}
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	r = r.WithContext(ctx)
	b := &httpBatch{calls: map[string]*liveCall{}, stop: stop, open: map[*liveCall]struct{}{}}
	live := b.newCalls(p, principal, session)
	if !h.calls.register(live) {
		refuseMalformed(w, idInUse(nil), false)
		return
	}
	defer h.calls.unregister(live)
	var rest []func() // to run once the SDK has accepted the batch
	for i, env := range p.batch {
		if part := p.parts[i]; env.method == methodCancelled && ours(env) { // cancels cannot wait for that
			h.handleNotification(r, session, part, env)
		} else if ours(env) {
			rest = append(rest, func() { h.handleNotification(r, session, part, env) })
		}
	}
	accepted := &batchWriter{ResponseWriter: w, rest: rest}
	defer accepted.judged(http.StatusOK) // if nothing is written
	w = accepted
	p.removeMessages(func(e envelope) bool { return ours(e) || e.isCall() && b.isCancelled(e.id) })
	switch {
	case len(p.parts) == 0 && len(live) == 0:
		w.WriteHeader(http.StatusAccepted)
	case len(p.parts) == 0:
		writeEmptyStream(w)
	case session == "":
		h.serveLegacy(w, r, p, nil)
	default:
		h.passToSDK(h.legacy, &cancelFilter{ResponseWriter: w, unwanted: b.settleResponse}, r, p)
	}
}

// A batchWriter is the response to a batch. If the SDK accepts the batch, the writer handles the deferred notifications
// before it writes the response.
type batchWriter struct {
	http.ResponseWriter
	rest []func()
}

// Unwrap gives the SDK's response controller access to flushing and deadlines.
func (w *batchWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader handles the deferred notifications, unless the SDK refused the batch.
func (w *batchWriter) WriteHeader(status int) {
	w.judged(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *batchWriter) Write(b []byte) (int, error) {
	w.judged(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

func (w *batchWriter) judged(status int) {
	rest := w.rest
	w.rest = nil
	if status >= http.StatusMultipleChoices {
		return
	}
	for _, do := range rest {
		do()
	}
}

// newCalls creates the calls of a batch in a session.
func (b *httpBatch) newCalls(p *postBody, principal, session string) (live []*liveCall) {
	for _, env := range p.batch {
		if session == "" || !env.isCall() {
			continue
		}
		c := &liveCall{key: newCallKey(principal, session, env.id), sdk: true, stays: env.method == methodInitialize}
		c.stop = func() { b.removeCall(c) }
		b.open[c], b.calls[idKey(env.id)] = struct{}{}, c
		live = append(live, c)
	}
	return live
}

// removeCall removes a call from the open calls. It ends the stream after the last call, even if the SDK is still
// processing a cancelled call.
func (b *httpBatch) removeCall(c *liveCall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.open, c); len(b.open) == 0 {
		b.stop()
	}
}

// isCancelled reports whether the call with the given ID was cancelled.
func (b *httpBatch) isCancelled(id json.RawMessage) bool {
	c := b.calls[idKey(id)]
	return c != nil && c.gone.Load()
}

// settleResponse removes the call with the given ID from the open calls and reports whether the call was cancelled.
func (b *httpBatch) settleResponse(id json.RawMessage) bool {
	if b.isCancelled(id) {
		return true
	}
	if c := b.calls[idKey(id)]; c != nil {
		b.removeCall(c) // the SDK keeps the stream open while it writes
	}
	return false
}

// removeMessages removes the unwanted messages from a batch.
func (p *postBody) removeMessages(unwanted func(envelope) bool) {
	parts, batch := []json.RawMessage{}, []envelope{}
	for i, env := range p.batch {
		if !unwanted(env) {
			parts, batch = append(parts, p.parts[i]), append(batch, env)
		}
	}
	if len(parts) < len(p.parts) {
		p.parts, p.batch, p.body = parts, batch, joinBatch(parts)
	}
}

// joinBatch encodes messages as a batch.
func joinBatch(parts []json.RawMessage) []byte {
	raw := make([][]byte, len(parts))
	for i, part := range parts {
		raw[i] = part
	}
	return append(append([]byte{'['}, bytes.Join(raw, []byte{','})...), ']')
}
