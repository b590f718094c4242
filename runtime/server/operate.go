package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// Attempts returns the kept attempts to deliver to a webhook subscription, the latest first. Those of
// the last moments may not be stored yet. They are none where Options.Store keeps none.
func (a *Admin) Attempts(ctx context.Context, id string) ([]store.Attempt, error) {
	if _, err := a.Get(ctx, id); err != nil {
		return nil, err
	}
	attempts, n := a.s.attempts()
	if attempts == nil {
		return nil, nil
	}
	found, err := attempts.Attempts(ctx, id, n)
	if err != nil {
		return nil, fmt.Errorf("reading the attempts of subscription %s: %w", id, err)
	}
	return found, nil
}

// SendAgain makes one attempt at an occurrence of which attempts are kept, whatever became of them,
// and returns what it came to. The endpoint gets it under the same webhook-id; the subscription's
// watermark and state do not change. Without such an attempt, or when the log has the occurrence no
// more, it is events.ErrNotFound.
func (a *Admin) SendAgain(ctx context.Context, id, eventID string) (store.Attempt, error) {
	h, unlock, err := a.lock(ctx, id)
	if away, _ := a.away(ctx, id, err); away != nil {
		return a.sendAgainAway(ctx, id, eventID)
	}
	if err != nil {
		return store.Attempt{}, err
	}
	unlock() // whatever ends it meanwhile is not held up by an endpoint
	if err := a.s.webhooks.Flush(ctx); err != nil {
		return store.Attempt{}, fmt.Errorf("storing attempts: %w", err)
	}
	made, err := a.Attempts(ctx, id)
	if err != nil {
		return store.Attempt{}, err
	}
	i := slices.IndexFunc(made, func(m store.Attempt) bool { return m.EventID == eventID })
	if i < 0 {
		return store.Attempt{}, fmt.Errorf("no attempt at it is kept: %w", fault.NotFound("occurrence"))
	}
	again, err := h.Handle.SendAgain(ctx, made[i])
	switch {
	case errors.Is(err, delivery.ErrLost):
		return store.Attempt{}, fmt.Errorf("the log has it no more: %w", fault.NotFound("occurrence"))
	case errors.Is(err, delivery.ErrClosed):
		return store.Attempt{}, fault.NotFound("subscription")
	}
	return again, err
}

// A Connection is a stream, or a poller that may come again.
type Connection struct {
	// ID names the connection to [Admin.EndConnection] while it lasts.
	ID           string `json:"id"`
	Subscription string `json:"subscription"`
	Principal    string `json:"principal"`
	Event        string `json:"event"`
	// Mode is "push" or "poll".
	Mode  string    `json:"mode"`
	Since time.Time `json:"since"`
	// Behind is how many entries of the type's log it has not passed yet, a poller by its last poll; nil
	// for checks.
	Behind *int64 `json:"behind,omitempty"`
}

// Connections returns who is connected: open streams and pollers whose lease runs, in order of their
// ids.
func (a *Admin) Connections() []Connection {
	var all []Connection
	for _, st := range a.s.streamsOf(nil) {
		all = append(all, st.connection())
	}
	ls := &a.s.leases
	ls.mu.Lock()
	polled := map[*eventType]map[int]store.Position{} // by place in all
	for _, l := range ls.byID {
		if l.polled && l.et.topic != nil {
			if polled[l.et] == nil {
				polled[l.et] = map[int]store.Position{}
			}
			polled[l.et][len(all)] = l.passed
		}
		all = append(all, l.connection())
	}
	ls.mu.Unlock()
	for et, places := range polled {
		head := et.topic.Head()
		for i, passed := range places {
			n := max(int64(head)-int64(passed), 0)
			all[i].Behind = &n
		}
	}
	slices.SortFunc(all, func(a, b Connection) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func (st *pushStream) connection() Connection {
	c := Connection{ID: fmt.Sprintf("stream-%016d", st.number), Subscription: st.sub.ID, Principal: st.sub.Principal, Event: st.sub.Event,
		Mode: st.sub.Mode, Since: st.since}
	c.Behind = st.behind()
	return c
}

// behind is how many entries of the type's log the stream has not passed: what is being written counts as
// not passed. It is nil before the stream runs, and for what reads no log.
func (st *pushStream) behind() *int64 {
	st.mu.Lock()
	running := st.running
	st.mu.Unlock()
	src, ok := st.source.(*logSource)
	if !ok || !running {
		return nil
	}
	passed := src.Passed()
	if passed == 0 { // it does not wait
		passed = store.Position(st.written.Load())
	}
	_, head := st.et.topic.Bounds()
	n := max(int64(head)-int64(passed), 0)
	return &n
}

// wrote notes what the stream has passed. It is for the goroutine that reads.
func (st *pushStream) wrote() {
	if src, ok := st.source.(*logSource); ok {
		st.written.Store(uint64(src.Position()))
	}
}

func (l *lease) connection() Connection {
	return Connection{ID: "poll-" + l.sub.ID, Subscription: l.sub.ID, Principal: l.sub.Principal, Event: l.sub.Event, Mode: wire.ModePoll, Since: l.since}
}

// EndConnection ends a stream with the error, nil for Forbidden, or a poller's lease; the poller may
// come again. One that has ended is events.ErrNotFound.
func (a *Admin) EndConnection(id string, e *events.Error) error {
	if e == nil {
		e = events.Forbidden("ended by an operator")
	}
	for _, st := range a.s.streamsOf(nil) {
		if st.connection().ID == id {
			st.end(e)
			return nil
		}
	}
	found := false
	a.s.leases.endWhere(func(l *lease) bool {
		is := l.connection().ID == id
		found = found || is
		return is
	})
	if !found {
		return fault.NotFound("connection")
	}
	return nil
}

// RevokePrincipal is [Server.Revoke] for operators; it returns how many subscriptions there were in this
// process.
func (a *Admin) RevokePrincipal(ctx context.Context, principal string, names ...string) (int, error) {
	n := 0
	for _, sub := range a.s.Subscriptions() {
		if sub.Principal == principal && (len(names) == 0 || slices.Contains(names, sub.Event)) {
			n++
		}
	}
	return n, a.s.Revoke(ctx, principal, names...)
}

// Pause holds the deliveries of a webhook subscription back until [Admin.Unpause], over restarts and
// whatever the subscriber refreshes: only an operator ends it. Its expiry goes on, retries do not age,
// and deliveryStatus says that it is not active. Pausing what is paused changes nothing.
func (a *Admin) Pause(ctx context.Context, id string) error { return a.setPaused(ctx, id, true) }

// Unpause lets the deliveries go on where they stood; what the log has forgotten meanwhile is
// signalled as a gap. A suspension stays.
func (a *Admin) Unpause(ctx context.Context, id string) error { return a.setPaused(ctx, id, false) }

func (a *Admin) setPaused(ctx context.Context, id string, paused bool) error {
	if a.s.webhooks == nil {
		return fault.NotFound("subscription")
	}
	return a.s.webhooks.SetPaused(ctx, id, paused)
}
