package mcpe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// A runner runs handlers of a particular kind.
type runner interface {
	// check parses the members that are specific to the kind into h and rejects values that are not allowed.
	check(o object, h *mcpewire.Handler, local bool) *refusal
	// run handles one event or a batch. If it returns an error, the outcome is "failed".
	run(ctx context.Context, r *run) error
	// timeout returns the timeout of a run.
	timeout(h *mcpewire.Handler) time.Duration
}

// handlerTimeout returns the timeout that h asks for, or usual if it asks for none, but at most longest.
func handlerTimeout(h *mcpewire.Handler, usual, longest time.Duration) time.Duration {
	asked := time.Duration(h.Timeout) * time.Millisecond
	return min(cmp.Or(max(asked, 0), usual), longest)
}

// A run is one call of a handler.
type run struct {
	subscription string
	client       string
	handler      *mcpewire.Handler
	event        mcpewire.Event
	events       []mcpewire.Event // the events of a batch, or the single event
	session      *mcp.ServerSession
}

// A handlerCall is a queued call of a subscription's handler.
type handlerCall struct {
	events []mcpewire.Event
	batch  bool
}

// Outcomes of handler runs, as used in logs and metrics (MCPE-HAN-4).
const (
	outcomeDone    = "done"
	outcomeFailed  = "failed"
	outcomeTimeout = "timeout"
	outcomeStopped = "stopped" // by Shutdown, or because the client may no longer receive the events
)

// runners returns the runners of the enabled handler kinds.
func (a *Adapter) runners() (map[string]runner, error) {
	kinds := map[string]runner{}
	if o := a.o.Bash; o != nil {
		r, err := newBash(*o)
		if err != nil {
			return nil, err
		}
		kinds[wire.MCPEBash] = r
	}
	if o := a.o.Webhook; o != nil {
		r, err := newWebhook(*o)
		if err != nil {
			return nil, err
		}
		a.stops = append(a.stops, r.close)
		kinds[wire.MCPEWebhook] = r
	}
	if o := a.o.Agent; o != nil {
		r, err := newAgent(*o)
		if err != nil {
			return nil, err
		}
		kinds[wire.MCPEAgent] = r
	}
	return kinds, nil
}

// parseHandler parses a handler of an allowed kind (MCPE-TOOL-6).
func (a *Adapter) parseHandler(at string, raw json.RawMessage, local bool) (*mcpewire.Handler, *refusal) {
	o, err := parseObject(at, raw)
	if err != nil {
		return nil, err
	}
	h := &mcpewire.Handler{}
	if h.Type, err = o.text("type"); err != nil {
		return nil, err
	}
	k := a.kinds[h.Type]
	if k == nil {
		return nil, invalidField(o.path("type"), "handlers of kind %.32q are not allowed here", h.Type)
	}
	if h.Timeout, err = o.number("timeout", 0, 0, int64(24*time.Hour/time.Millisecond)); err != nil {
		return nil, err
	}
	if err := k.check(o, h, local); err != nil {
		return nil, err
	}
	h.Timeout = k.timeout(h).Milliseconds()
	return h, nil
}

// handleLocked queues events for the subscription's handler, which handles them in order in a background goroutine. The
// caller holds a.mu.
func (a *Adapter) handleLocked(s *subscription, h handlerCall) {
	if s.handler == nil || s.gone {
		return
	}
	q := &s.handling
	if len(q.jobs) >= a.o.MaxHandlerQueue {
		a.tell.drop(droppedHandler, len(h.events))
		return
	}
	q.jobs = append(q.jobs, h)
	if !q.busy {
		q.busy = true
		a.runInBackgroundLocked(func() { a.runHandlers(s) })
	}
}

// runHandlers runs the queued calls of a subscription's handler one by one. It releases its slot between calls.
func (a *Adapter) runHandlers(s *subscription) {
	for more := true; more; {
		release, err := a.handlers.Acquire(a.ctx, s.owner.key)
		if err != nil { // after Shutdown
			return
		}
		more = a.runNext(s)
		release()
	}
}

// runNext runs the first queued call. It returns false if the queue is empty.
func (a *Adapter) runNext(s *subscription) bool {
	a.mu.Lock()
	q := &s.handling
	k := runner(nil)
	if s.handler != nil {
		k = a.kinds[s.handler.Type] // nil if the kind is no longer allowed
	}
	if len(q.jobs) == 0 || a.ending || k == nil {
		q.busy, q.jobs = false, nil
		a.mu.Unlock()
		return false
	}
	next := q.jobs[0]
	q.jobs = q.jobs[1:]
	r := &run{subscription: s.id, client: s.owner.clientID, handler: s.handler, session: s.server}
	a.mu.Unlock()

	refused, err := a.refusedTypes(a.ctx, s, next.events)
	running, stop := context.WithCancelCause(a.ctx)
	a.mu.Lock()
	for i := range next.events {
		if event := next.events[i].Type; !refused[event] && !slices.Contains(s.withdrawn, event) {
			r.events = append(r.events, next.events[i])
		}
	}
	q.running, q.stop = r.events, stop
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		q.running = nil
		a.mu.Unlock()
		stop(nil)
	}()
	a.tell.drop(droppedRefused, len(next.events)-len(r.events))
	if len(r.events) == 0 {
		return true
	}
	if r.event = r.events[0]; next.batch {
		r.event = batchEvent(s.id, r.events)
	}
	ctx, cancel := context.WithTimeout(running, k.timeout(r.handler))
	begun := time.Now()
	if err == nil {
		err = recoverPanic(func() error { return k.run(ctx, r) })
	}
	outcome := outcomeDone
	switch {
	case err == nil:
	case running.Err() != nil:
		outcome = outcomeStopped
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		outcome = outcomeTimeout
	default:
		outcome = outcomeFailed
	}
	cancel()
	a.tell.handle(r.handler.Type, outcome)
	log := a.o.Logger.With("subscription", r.subscription, "kind", r.handler.Type, "outcome", outcome, "event", r.event.ID, "took", time.Since(begun))
	if err != nil {
		log.Warn("mcpe: handler", "error", err)
	} else {
		log.Debug("mcpe: handler")
	}
	return true
}

// recoverPanic calls f, a callback of the host, and converts a panic to an error.
func recoverPanic(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return f()
}

// batchEvent returns the event that represents a batch for a handler (MCPE-HAN-4). Its data contains the events. Its
// priority is the highest priority of the events, and its tags are the union of their tags.
func batchEvent(subscription string, batch []mcpewire.Event) mcpewire.Event {
	e := mcpewire.Event{ID: newID(), Type: wire.MCPEBatchType, Metadata: mcpewire.Metadata{Timestamp: stamp(time.Now()), Priority: wire.MCPELow}}
	for i := range batch {
		m := &batch[i].Metadata
		if slices.Index(priorities, m.Priority) > slices.Index(priorities, e.Metadata.Priority) {
			e.Metadata.Priority = m.Priority
		}
		for _, t := range m.Tags {
			if !slices.Contains(e.Metadata.Tags, t) {
				e.Metadata.Tags = append(e.Metadata.Tags, t)
			}
		}
	}
	e.Data = encode(struct {
		SubscriptionID string           `json:"subscriptionId"`
		Count          int              `json:"count"`
		Events         []mcpewire.Event `json:"events"`
	}{subscription, len(batch), batch})
	return e
}
