package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/actor"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/verify"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

var errNoWebhooks = errors.New("server: webhooks are not configured")

// idOf is the derived id, or an error about the arguments.
func idOf(k operator.SubscriptionKey) (string, error) {
	canonical, err := wire.Canonical(k.Arguments)
	if err != nil {
		return "", fault.InvalidArguments(err)
	}
	return wire.SubscriptionID(wire.ModeWebhook, k.Principal, k.URL, k.Event, canonical), nil
}

func (a *Admin) List(ctx context.Context, after string, limit int) ([]operator.WebhookInfo, error) {
	w := a.o.Webhooks
	if w == nil {
		return nil, nil
	}
	page, err := engine.List(ctx, w.Store(), after, limit, func(string) bool { return false })
	if err != nil {
		return nil, fmt.Errorf("listing webhook subscriptions: %w", err)
	}
	l, all := a.look(ctx), make([]sight, len(page))
	for i := range page {
		all[i] = a.recorded(&page[i])
		all[i].wait()
		if err := l.replayed(&all[i]); err != nil {
			return nil, err
		}
	}
	return l.wholes(all)
}

func (a *Admin) Get(ctx context.Context, id string) (operator.WebhookInfo, error) {
	w := a.o.Webhooks
	if w == nil {
		return operator.WebhookInfo{}, fault.NotFound("subscription")
	}
	l := a.look(ctx)
	r, ok, err := l.record(id)
	if err != nil {
		return operator.WebhookInfo{}, err
	}
	if !ok || subscriber.Lapsed(&r.Subscription, w.Now()) {
		return operator.WebhookInfo{}, fault.NotFound("subscription")
	}
	s := a.recorded(&r)
	s.wait()
	if err := l.replayed(&s); err != nil {
		return operator.WebhookInfo{}, err
	}
	if _, err := l.whole(&s); err != nil {
		return operator.WebhookInfo{}, err
	}
	if s.Cursor == nil && s.live == nil && s.Unreadable == "" {
		s.Cursor = w.Describe(ctx, &r.Subscription)
	}
	return s.WebhookInfo, nil
}

func (a *Admin) Lookup(ctx context.Context, k operator.SubscriptionKey) (operator.WebhookInfo, error) {
	id, err := idOf(k)
	if err != nil {
		return operator.WebhookInfo{}, err
	}
	return a.Get(ctx, id)
}

func (a *Admin) State(ctx context.Context, id string) (operator.State, error) {
	i, err := a.Get(ctx, id)
	if errors.Is(err, events.ErrNotFound) {
		return operator.StateAbsent, nil
	}
	return i.State, err
}

func (a *Admin) Failing(ctx context.Context, limit int) (found []operator.WebhookInfo, total int, err error) {
	if a.o.Webhooks == nil {
		return nil, 0, nil
	}
	ids, total := a.o.Webhooks.Failing(limit)
	for _, id := range ids {
		i, err := a.Get(ctx, id)
		switch {
		case errors.Is(err, events.ErrNotFound): // it ended meanwhile
		case err != nil:
			return nil, 0, err
		default:
			found = append(found, i)
		}
	}
	return found, total, nil
}

// lock is [subscriber.Subscriptions.Lock].
func (a *Admin) lock(ctx context.Context, id string) (h *subscriber.Live, unlock func(), err error) {
	if a.o.Webhooks == nil {
		return nil, nil, fault.NotFound("subscription")
	}
	return a.o.Webhooks.Lock(ctx, id)
}

// away returns the record of a webhook subscription that another process delivers to, where err says
// that it is not live in this one; nil for none.
func (a *Admin) away(ctx context.Context, id string, err error) (*store.Subscription, error) {
	w := a.o.Webhooks
	if w == nil || err == nil || w.Get(id) != nil {
		return nil, nil
	}
	r, ok, err := w.Store().Subscription(ctx, id)
	if err != nil {
		return nil, err
	}
	if !ok || subscriber.Lapsed(&r, w.Now()) {
		return nil, nil
	}
	return &r, nil
}

// doOrAsk does an order to the live subscription that it is about, and asks for it where another process delivers to that
// one, or may do so by now.
func (a *Admin) doOrAsk(ctx context.Context, o orders.Order, do func(*subscriber.Live)) error {
	asks, err := a.doHere(ctx, o.Of(), do)
	if asks {
		return a.ask(ctx, o, err)
	}
	return err
}

// ask asks for what was not done here. Where there is nobody to ask, why it was not done is what went wrong.
func (a *Admin) ask(ctx context.Context, o orders.Order, why error) error {
	err := a.o.Processes.Ask(ctx, o)
	if errors.Is(err, events.ErrNotFound) {
		return cmp.Or(why, err)
	}
	return err
}

// doHere does something to the live subscription of an id; asks tells that another process delivers to it, or may do so by now.
func (a *Admin) doHere(ctx context.Context, id string, do func(*subscriber.Live)) (asks bool, err error) {
	h, unlock, err := a.lock(ctx, id)
	if away, _ := a.away(ctx, id, err); away != nil {
		return true, err
	}
	if err != nil {
		return false, err
	}
	defer unlock()
	do(h)
	return !h.Ours(), nil
}

func (a *Admin) Resume(ctx context.Context, id string) error {
	return a.doOrAsk(ctx, orders.To(operator.Target{ID: id}, orders.Resume, nil), func(h *subscriber.Live) { h.Handle.Resume() })
}

func (a *Admin) End(ctx context.Context, id string, e *events.Error) error {
	e = cmp.Or(e, orders.Revoked())
	return a.doOrAsk(ctx, orders.To(operator.Target{ID: id}, orders.Terminate, e), func(h *subscriber.Live) { a.o.Webhooks.End(h, e) })
}

func (a *Admin) Replay(ctx context.Context, id, cursor string, last store.Position) error {
	w := a.o.Webhooks
	if w == nil {
		return fault.NotFound("subscription")
	}
	err := a.replayHere(ctx, id, cursor, last)
	if r, awayErr := a.away(ctx, id, err); r != nil || awayErr != nil {
		why := err
		if err = awayErr; err == nil {
			err = w.CheckReplay(ctx, r, cursor, last)
		}
		if err == nil {
			err = a.ask(ctx, orders.Order{Kind: orders.Replay, Target: &operator.Target{ID: id}, Cursor: cursor, Last: last, Actor: actor.Of(ctx)}, why)
		}
	}
	if err != nil {
		return fmt.Errorf("replaying webhook subscription %s: %w", id, err)
	}
	return nil
}

func (a *Admin) EndReplay(ctx context.Context, id string) error {
	var ended error
	asks, err := a.doHere(ctx, id, func(h *subscriber.Live) { ended = h.Handle.EndReplay(ctx) })
	if err = cmp.Or(err, ended); asks { // what this process knows does not count
		var answer string
		if answer, err = a.askAndWait(ctx, orders.To(operator.Target{ID: id}, orders.EndReplay, nil)); answer == answerNone {
			err = delivery.ErrNoReplay
		}
	}
	if errors.Is(err, delivery.ErrNoReplay) {
		return fault.NotFound("replay")
	}
	return wrapped("ending a replay of webhook subscription "+id, err)
}

func (a *Admin) Pause(ctx context.Context, id string) error { return a.setPaused(ctx, id, true) }

func (a *Admin) Unpause(ctx context.Context, id string) error { return a.setPaused(ctx, id, false) }

func (a *Admin) setPaused(ctx context.Context, id string, paused bool) error {
	if a.o.Webhooks == nil {
		return fault.NotFound("subscription")
	}
	return a.o.Webhooks.SetPaused(ctx, id, paused)
}

func (a *Admin) AllowOrigin(origin string) (revoke func(), err error) {
	if a.o.Webhooks == nil {
		return nil, errNoWebhooks
	}
	return a.o.Webhooks.Guard().AllowOrigin(origin)
}

func (a *Admin) Subscribe(ctx context.Context, r operator.SubscribeRequest) (id string, err error) {
	w := a.o.Webhooks
	if w == nil {
		return "", errNoWebhooks
	}
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("registering a webhook subscription to %s: %w", r.Event, err)
	}
	et := a.o.Host.EventType(r.Event)
	if et == nil {
		return fail(fault.NotFound("event"))
	}
	d := et.Current()
	if d == nil {
		return fail(fault.NotFound("event"))
	}
	if !d.Webhooks() {
		return fail(fault.UnsupportedMode(wire.ModeWebhook))
	}
	if r.Principal == "" {
		return fail(errors.New("it has no principal"))
	}
	q := &subscriber.Request{Type: et, RawURL: r.URL, Dialect: a.o.Dialect, Replay: topic.Replay{Cursor: r.Cursor}, Head: et.Head(),
		Forever: r.TTL < 0, Secret: webhook.NewSecret()}
	if r.TTL > 0 {
		ms := r.TTL.Milliseconds()
		q.TTLMs = &ms
	}
	args, err := d.Kernel().Parse(r.Arguments)
	if err != nil {
		return fail(err)
	}
	q.Args = eventtype.Arguments{Arguments: args, Def: d}
	if q.URL, err = w.Guard().ParseURL(r.URL); err != nil {
		return fail(err)
	}
	if r.Secret != "" {
		if q.Secret, err = webhook.ParseSecret(r.Secret); err != nil {
			return fail(err)
		}
	}
	q.Sub = eventtype.Identify(wire.ModeWebhook, r.Principal, r.URL, q.Args)
	if err := w.Store().PutVerification(ctx, store.Verification{Principal: r.Principal, URL: r.URL, Method: verify.ByRecord, At: w.Now()}); err != nil {
		return fail(err)
	}
	if _, err := w.Subscribe(hook.WithPrincipal(ctx, r.Principal), q); err != nil {
		return fail(err)
	}
	return q.Sub.ID, nil
}
