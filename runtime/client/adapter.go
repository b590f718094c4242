package client

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// A Carrier brings occurrences to a subscription by another protocol than events/*; see [Via]. For
// adapters.
type Carrier interface {
	// Mode is what [Subscription.Mode] returns.
	Mode() string
	// Carry receives over one session until ctx ends, and says why it ended; it is called again
	// after a loss. An error before [Intake.Accepted] is returned by Subscribe, a [TerminatedError]
	// ends the subscription, and after any other there is another try.
	Carry(ctx context.Context, in *Intake) error
}

// Via makes a subscription receive by c instead of poll, push or webhook. For adapters, which have
// options of their own that call it.
func Via(c Carrier) SubscribeOption { return func(o *subscribeOptions) { o.carrier = c } }

// An Intake takes what a [Carrier] receives. For adapters.
type Intake struct {
	s    *subscription
	sess *session
}

// Event is the name of the subscription's event type.
func (in *Intake) Event() string { return in.s.name }

// Arguments are the subscription's, nil for none.
func (in *Intake) Arguments() json.RawMessage {
	if string(in.s.args) == "{}" {
		return nil
	}
	return in.s.args
}

// Session is the SDK's session.
func (in *Intake) Session() *mcp.ClientSession { return in.sess.cs }

// Stateless tells that the session follows revision 2026-07-28 or later.
func (in *Intake) Stateless() bool { return in.sess.stateless }

// Accepted tells that the server has accepted the subscription; it reports whether it had before.
func (in *Intake) Accepted() (before bool) { return in.s.established() }

// Over reports whether the subscription itself has ended, and not only the session.
func (in *Intake) Over() bool { return in.s.ctx.Err() != nil }

// Take hands over one occurrence; it waits for room.
func (in *Intake) Take(ctx context.Context, o wire.Occurrence) error {
	in.s.progress()
	return in.s.take(ctx, &o, o.Cursor)
}

// Gap hands over that occurrences may be missing.
func (in *Intake) Gap(ctx context.Context) error { return in.s.gap(ctx, nil) }

// Note hands over an error that does not end the subscription.
func (in *Intake) Note(ctx context.Context, err error) error { return in.s.note(ctx, err) }

// runCarrier runs the subscription's carrier over one session.
func (s *subscription) runCarrier(ctx context.Context, sess *session) error {
	s.mu.Lock()
	s.modeName = s.opts.carrier.Mode()
	s.mu.Unlock()
	err := s.opts.carrier.Carry(ctx, &Intake{s, sess})
	if told := (*TerminatedError)(nil); ctx.Err() != nil && s.ctx.Err() == nil && !errors.As(err, &told) {
		return ErrSessionLost
	}
	if err == nil {
		err = errStreamEnded
	}
	return err
}

// observers hear of notifications that the SDK would drop.
type observers struct {
	mu   sync.Mutex
	last int
	all  map[int]observer
	ends map[int]func()
}

type observer struct {
	methods []string
	take    func(method string, params json.RawMessage)
}

// Observe calls take for every notification of one of the methods, on whatever carrier it comes,
// until stop is called. take runs on the session's reading path: it must not block. For adapters.
func (c *Client) Observe(methods []string, take func(method string, params json.RawMessage)) (stop func()) {
	o := &c.observers
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	id := o.last
	if o.all == nil {
		o.all = map[int]observer{}
	}
	o.all[id] = observer{methods, take}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.all, id)
	}
}

// observed gives a notification to whom it concerns.
func (o *observers) observed(method string, params json.RawMessage) {
	o.mu.Lock()
	var takes []func(string, json.RawMessage)
	for _, v := range o.all {
		if slices.Contains(v.methods, method) {
			takes = append(takes, v.take)
		}
	}
	o.mu.Unlock()
	for _, take := range takes {
		take(method, slices.Clone(params))
	}
}

// watching reports whether anybody observes anything.
func (o *observers) watching() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.all) > 0
}

// BeforeClose calls f when the client is about to close, while its session still works, until stop
// is called. Close waits for f. For adapters.
func (c *Client) BeforeClose(f func()) (stop func()) {
	o := &c.observers
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	id := o.last
	if o.ends == nil {
		o.ends = map[int]func(){}
	}
	o.ends[id] = f
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.ends, id)
	}
}

// closing calls what BeforeClose was given, all at a time.
func (o *observers) closing() {
	o.mu.Lock()
	ends := o.ends
	o.ends = nil
	o.mu.Unlock()
	var wg sync.WaitGroup
	for _, f := range ends {
		wg.Go(f)
	}
	wg.Wait()
}

// Live returns a working session of the SDK's, connecting again when the last one was lost, and
// whether it follows revision 2026-07-28 or later. For adapters.
func (c *Client) Live(ctx context.Context) (cs *mcp.ClientSession, stateless bool, err error) {
	s, err := c.live(ctx, false)
	if err != nil {
		return nil, false, err
	}
	return s.cs, s.stateless, nil
}

// Listen keeps a subscriptions/listen request open on the intake's session that asks, by key: true in
// its _meta, for the messages of a protocol, which [Client.Observe] then hears. It calls
// acknowledged when the server has agreed, and returns when the request is over. For adapters.
func (in *Intake) Listen(ctx context.Context, key string, acknowledged func()) error {
	s := in.sess
	// The SDK fills in _meta for calls through its own functions only: take it from one.
	own := newCall(nil)
	if _, err := s.cs.ListTools(withCall(ctx, own), nil); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := newCall(newInflow(s.board.shared))
	p := &listenParams{Notifications: map[string]bool{}}
	own.mu.Lock()
	p.Meta = own.meta
	own.mu.Unlock()
	if p.Meta == nil {
		p.Meta = mcp.Meta{}
	}
	p.Meta[key] = true
	in.s.c.background(func() {
		_, err := in.s.c.send(withCall(ctx, c), methodListen, &mcp.ClientRequest[*listenParams]{Session: s.cs, Params: p})
		if err != nil {
			c.end()
		}
	})
	answer := time.NewTimer(in.s.c.opts.CallTimeout)
	defer answer.Stop()
	for {
		select {
		case f := <-c.in.frames:
			c.in.took(f)
			if f.method != notificationListenAck {
				continue
			}
			var ack struct {
				Meta map[string]json.RawMessage `json:"_meta"`
			}
			if json.Unmarshal(f.params, &ack) != nil || string(ack.Meta[key]) != "true" {
				return events.NewError(wire.Unsupported, nil)
			}
			answer.Stop()
			acknowledged()
		case <-c.ended:
			return errStreamEnded
		case <-answer.C:
			return errTimeout(methodListen)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
