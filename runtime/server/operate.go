package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

func (a *admin) Attempts(ctx context.Context, id string) ([]operator.Attempt, error) {
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

func (a *admin) SendAgain(ctx context.Context, id, eventID string) (operator.Attempt, error) {
	h, unlock, err := a.lock(ctx, id)
	if away, _ := a.away(ctx, id, err); away != nil {
		return a.sendAgainAway(ctx, id, eventID)
	}
	if err != nil {
		return operator.Attempt{}, err
	}
	unlock() // whatever ends it meanwhile is not held up by an endpoint
	if err := a.s.webhooks.Flush(ctx); err != nil {
		return operator.Attempt{}, fmt.Errorf("storing attempts: %w", err)
	}
	made, err := a.Attempts(ctx, id)
	if err != nil {
		return operator.Attempt{}, err
	}
	i := slices.IndexFunc(made, func(m operator.Attempt) bool { return m.EventID == eventID })
	if i < 0 {
		return operator.Attempt{}, fmt.Errorf("no delivery attempt of it is stored: %w", fault.NotFound("occurrence"))
	}
	again, err := h.Handle.SendAgain(ctx, made[i])
	switch {
	case errors.Is(err, delivery.ErrLost):
		return operator.Attempt{}, fmt.Errorf("it is no longer in the log: %w", fault.NotFound("occurrence"))
	case errors.Is(err, delivery.ErrClosed):
		return operator.Attempt{}, fault.NotFound("subscription")
	case errors.Is(err, delivery.ErrUnderWay):
		return operator.Attempt{}, fmt.Errorf("%w: an attempt at this occurrence", operator.ErrUnderWay)
	}
	return again, err
}

func (a *admin) Connections() []operator.Connection {
	var all []operator.Connection
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
	slices.SortFunc(all, func(a, b operator.Connection) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Prefixes of the ids of connections.
const (
	streamPrefix = "stream-"
	pollPrefix   = "poll-"
)

func streamID(number uint64) string { return fmt.Sprintf(streamPrefix+"%016d", number) }

// named is the connection without what is asked of its log.
func (st *pushStream) named() operator.Connection {
	return operator.Connection{ID: streamID(st.number), Subscription: st.sub.ID, Principal: st.sub.Principal, Event: st.sub.Event,
		Mode: st.sub.Mode, Since: st.since}
}

func (st *pushStream) connection() operator.Connection {
	c := st.named()
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

func (l *lease) connection() operator.Connection {
	return operator.Connection{ID: pollPrefix + l.sub.ID, Subscription: l.sub.ID, Principal: l.sub.Principal, Event: l.sub.Event, Mode: wire.ModePoll, Since: l.since}
}

// connected is the stream or the lease of an id, neither where there is none. No list is made.
func (a *admin) connected(id string) (*pushStream, *lease) {
	if sub, ok := strings.CutPrefix(id, pollPrefix); ok {
		a.s.leases.mu.Lock()
		defer a.s.leases.mu.Unlock()
		return nil, a.s.leases.byID[sub]
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(id, streamPrefix), 10, 64)
	if err != nil || id != streamID(n) {
		return nil, nil
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	for st := range a.s.streams {
		if st.number == n {
			return st, nil
		}
	}
	return nil, nil
}

func (a *admin) Connection(id string) (operator.Connection, error) {
	st, l := a.connected(id)
	switch {
	case st != nil:
		return st.named(), nil
	case l != nil:
		return l.connection(), nil
	}
	return operator.Connection{}, fault.NotFound("connection")
}

func (a *admin) EndConnection(id string, e *events.Error) error {
	if e == nil {
		e = events.Forbidden("ended by an operator")
	}
	st, l := a.connected(id)
	switch {
	case st != nil:
		st.end(e)
	case l != nil:
		a.s.leases.end(l)
	default:
		return fault.NotFound("connection")
	}
	return nil
}

func (a *admin) RevokePrincipal(ctx context.Context, principal string, names ...string) (int, error) {
	n := 0
	for _, sub := range a.s.Subscriptions() {
		if sub.Principal == principal && (len(names) == 0 || slices.Contains(names, sub.Event)) {
			n++
		}
	}
	return n, a.s.Revoke(ctx, principal, names...)
}

func (a *admin) Pause(ctx context.Context, id string) error { return a.setPaused(ctx, id, true) }

func (a *admin) Unpause(ctx context.Context, id string) error { return a.setPaused(ctx, id, false) }

func (a *admin) setPaused(ctx context.Context, id string, paused bool) error {
	if a.s.webhooks == nil {
		return fault.NotFound("subscription")
	}
	return a.s.webhooks.SetPaused(ctx, id, paused)
}
