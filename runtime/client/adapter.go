package client

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/carry"
)

// init installs the hooks through which package carry accesses this package's internals.
func init() {
	carry.Via = func(c func() carry.Carrier) any {
		return SubscribeOption(func(o *subscribeOptions) { o.carrier = c() })
	}
	carry.Iterate = func(s any, yield func(v any, err error) bool) {
		s.(*Subscription).core.eachItem(func(it item, err error) bool {
			switch {
			case err != nil:
				return yield(nil, err)
			case it.carried != nil:
				return yield(it.carried.value, nil)
			case it.gap != nil:
				return yield(nil, it.gap)
			}
			return yield(nil, it.note)
		})
	}
	carry.Of = func(c any) carry.Client { return carryClient{c.(*Client)} }
	carry.Repeatable = withRepeatable
}

// A carryClient implements carry.Client for a Client.
type carryClient struct{ c *Client }

// An intake accepts a carrier's events for one subscription. It implements carry.Intake.
type intake struct {
	s    *subscription
	sess *session
}

func (in *intake) Event() string { return in.s.name }

func (in *intake) Arguments() json.RawMessage {
	if string(in.s.args) == "{}" {
		return nil
	}
	return in.s.args
}

func (in *intake) Session() *mcp.ClientSession { return in.sess.cs }

func (in *intake) Stateless() bool { return in.sess.stateless }

func (in *intake) Accepted() (before bool) { return in.s.recordAccepted() }

func (in *intake) Over() bool { return in.s.ctx.Err() != nil }

func (in *intake) Take(ctx context.Context, o wire.Occurrence) error {
	in.s.recordProgress()
	return in.s.queue(ctx, &o, o.Cursor)
}

func (in *intake) Allowed(ctx context.Context, o wire.Occurrence) bool {
	in.s.recordProgress()
	in.s.mu.Lock()
	in.s.status.Received++
	in.s.mu.Unlock()
	return in.s.allowed(ctx, &o)
}

func (in *intake) Put(ctx context.Context, v any, size int64) error {
	return in.s.inbox.put(ctx, item{carried: &carriedItem{v, size}})
}

func (in *intake) Gap(ctx context.Context) error { return in.s.queueGap(ctx, nil) }

// runCarrier runs the subscription's carrier over one session.
func (s *subscription) runCarrier(ctx context.Context, sess *session) error {
	s.mu.Lock()
	s.modeName = s.opts.carrier.Mode()
	s.mu.Unlock()
	err := s.opts.carrier.Carry(ctx, &intake{s, sess})
	if rpc := (*jsonrpc.Error)(nil); errors.As(err, &rpc) && staleCodes[rpc.Code] && !sess.board.shared {
		sess.requireHandshake()
		return &staleError{convertError(rpc.Code, rpc.Message, rpc.Data)}
	}
	if told := (*TerminatedError)(nil); ctx.Err() != nil && s.ctx.Err() == nil && !errors.As(err, &told) {
		return ErrSessionLost
	}
	if err == nil {
		err = errStreamEnded
	}
	return err
}

// observers holds the adapters' callbacks for Close and for notifications that the SDK would drop.
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

func (in carryClient) Observe(methods []string, take func(method string, params json.RawMessage)) (stop func()) {
	o := &in.c.observers
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

// notify passes a notification to the adapters that observe its method.
func (o *observers) notify(method string, params json.RawMessage) {
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

func (in carryClient) BeforeClose(f func()) (stop func()) {
	o := &in.c.observers
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

// callBeforeClose concurrently calls the functions registered with BeforeClose, then waits for them to return.
func (o *observers) callBeforeClose() {
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

func (in carryClient) Subscribe(ctx context.Context, about string, c carry.Carrier) (any, error) {
	s, err := in.c.subscribe(ctx, about, "", nil, []SubscribeOption{func(o *subscribeOptions) { o.carrier, o.foreign = c, true }})
	if err != nil {
		return nil, err
	}
	return &Subscription{s}, nil
}

func (in carryClient) Live(ctx context.Context) (cs *mcp.ClientSession, stateless bool, err error) {
	s, err := in.c.liveSession(ctx, false)
	if err != nil {
		return nil, false, err
	}
	return s.cs, s.stateless, nil
}

func (in *intake) Listen(ctx context.Context, key string, acknowledged func()) error {
	p := &methodParams{body: listenParams{Notifications: map[string]bool{}}}
	p.Meta = mcp.Meta{key: true}
	err := in.s.c.listen(ctx, in.sess, p, nil, func(ack wire.Members) bool {
		if string(wire.FirstMember(ack["_meta"], key)) != "true" {
			return false
		}
		acknowledged()
		return true
	})
	if err == errDeclined {
		return events.NewError(wire.Unsupported, nil)
	}
	return err
}
