package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
)

// An httpBatch is a JSON-RPC batch over HTTP, which revision 2025-03-26 has. It is answered by one stream with an event
// for each response. A cancelled call has none, and the rest is answered as if it had not been there (D14).
type httpBatch struct {
	calls map[string]*liveCall // by idKey
	stop  context.CancelFunc   // ends the stream

	mu   sync.Mutex
	open map[*liveCall]struct{} // neither answered nor cancelled
}

// serveBatch serves a batch within a legacy session.
func (h *handler) serveBatch(w http.ResponseWriter, r *http.Request, p *posted, principal, session string, accepted *acceptance) {
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	r = r.WithContext(ctx)
	b := &httpBatch{calls: map[string]*liveCall{}, stop: stop, open: map[*liveCall]struct{}{}}
	var live []*liveCall
	for _, env := range p.batch {
		if env.isCall() {
			c := &liveCall{key: newCallKey(principal, session, env.id), sdk: true, stays: env.method == methodInitialize}
			c.stop = func() { b.settle(c) }
			b.open[c], b.calls[idKey(env.id)] = struct{}{}, c
			live = append(live, c)
		}
	}
	if !h.calls.begin(live) {
		refuseMalformed(w, idInUse(nil), false)
		return
	}
	defer h.calls.end(live)
	if len(live) > 0 {
		// The SDK tells with the first response that it accepts a batch. What a cancel ends, in this batch or elsewhere,
		// cannot wait for that: it is done when the SDK accepts one alone.
		accepted.cancelled(func() bool {
			alone := newRecorder()
			h.legacy.ServeHTTP(alone, withBody(r, standIn(envelope{})))
			return alone.status < http.StatusMultipleChoices
		})
	}
	p.drop(func(e envelope) bool { return e.isCall() && b.gone(e.id) })
	if len(p.parts) == 0 {
		unanswered(w)
		return
	}
	h.pass(h.legacy, &restorer{ResponseWriter: w, unwanted: b.answered}, r, p)
}

// settle ends the stream when no call waits any more, though the SDK may still be at one that was cancelled.
func (b *httpBatch) settle(c *liveCall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.open, c); len(b.open) == 0 {
		b.stop()
	}
}

// gone reports whether the call of an id was cancelled.
func (b *httpBatch) gone(id json.RawMessage) bool {
	c := b.calls[idKey(id)]
	return c != nil && c.gone.Load()
}

// answered takes the response to a call and reports whether the call was cancelled.
func (b *httpBatch) answered(id json.RawMessage) bool {
	if b.gone(id) {
		return true
	}
	if c := b.calls[idKey(id)]; c != nil {
		b.settle(c) // the SDK keeps the stream while it writes
	}
	return false
}

// drop takes messages out of a batch.
func (p *posted) drop(unwanted func(envelope) bool) {
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

// joinBatch is the text of a batch.
func joinBatch(parts []json.RawMessage) []byte {
	raw := make([][]byte, len(parts))
	for i, part := range parts {
		raw[i] = part
	}
	return append(append([]byte{'['}, bytes.Join(raw, []byte{','})...), ']')
}
