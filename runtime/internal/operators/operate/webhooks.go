package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/verify"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

var errNoWebhooks = errors.New("server: webhooks are not configured")

// idOf returns the id derived from the key. It returns an error for invalid arguments.
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
	page, err := engine.List(ctx, w.Store(), after, limit, false)
	if err != nil {
		return nil, fmt.Errorf("listing webhook subscriptions: %w", err)
	}
	l, all := a.newQuery(ctx, operator.Filter{}), make([]subscriptionView, len(page))
	for i := range page {
		all[i] = l.viewOf(&page[i])
	}
	return l.addDetailsToAll(all)
}

func (a *Admin) Get(ctx context.Context, id string) (operator.WebhookInfo, error) {
	s, err := a.findWebhook(ctx, id)
	return s.WebhookInfo, err
}

// findWebhook returns the subscription with the id.
func (a *Admin) findWebhook(ctx context.Context, id string) (s subscriptionView, err error) {
	w := a.o.Webhooks
	if w == nil {
		return s, fault.NotFound("subscription")
	}
	l := a.newQuery(ctx, operator.Filter{})
	r, ok, err := a.readRecord(ctx, id)
	if err != nil {
		return s, err
	}
	if !ok || subscriber.Lapsed(&r.Subscription, w.Now()) {
		return s, fault.NotFound("subscription")
	}
	s = l.viewOf(&r)
	if err := l.addDetails(&s); err != nil {
		return subscriptionView{}, err
	}
	return s, nil
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

func (a *Admin) Failing(ctx context.Context, limit int) (f operator.Failures, err error) {
	l := a.newQuery(ctx, operator.Filter{Failing: true})
	all, _, total, err := l.longestFailing("", limit)
	if err == nil {
		f.Total = total
		f.Longest, err = l.addDetailsToAll(all)
	}
	return f, err
}

// request stores a request in the record of a webhook subscription and returns its number.
func (a *Admin) request(ctx context.Context, what, id string, kind store.RequestKind, q store.Request) (number uint64, err error) {
	if a.o.Webhooks == nil {
		return 0, fault.NotFound("subscription")
	}
	number, err = a.o.Webhooks.Ask(ctx, id, kind, q)
	return number, wrapError(what+" webhook subscription "+id, err)
}

func (a *Admin) Resume(ctx context.Context, id string) (number uint64, err error) {
	return a.request(ctx, "resuming", id, store.RequestResume, store.Request{})
}

func (a *Admin) End(ctx context.Context, id string, e *events.Error) (number uint64, err error) {
	reason, err := json.Marshal(fault.Stored(cmp.Or(e, fault.Revoked())))
	if err != nil {
		return 0, err
	}
	return a.request(ctx, "ending", id, store.RequestEnd, store.Request{Reason: reason})
}

func (a *Admin) Replay(ctx context.Context, id, cursor string, last store.Position) (number uint64, err error) {
	if err := a.checkReplay(ctx, id, cursor, last); err != nil {
		return 0, wrapError("replaying webhook subscription "+id, err)
	}
	return a.request(ctx, "replaying", id, store.RequestReplay, store.Request{Cursor: cursor, Last: last})
}

func (a *Admin) EndReplay(ctx context.Context, id string) (number uint64, err error) {
	return a.request(ctx, "ending a replay of", id, store.RequestReplay, store.Request{Ends: true})
}

// checkReplay returns an error for an invalid replay, before the request is stored.
func (a *Admin) checkReplay(ctx context.Context, id, cursor string, last store.Position) error {
	r, err := a.webhookByID(ctx, id)
	if err != nil {
		return err
	}
	return a.o.Webhooks.CheckReplay(ctx, &r, cursor, last)
}

// webhookByID returns the record of a webhook subscription that has not expired.
func (a *Admin) webhookByID(ctx context.Context, id string) (store.Subscription, error) {
	w := a.o.Webhooks
	if w == nil {
		return store.Subscription{}, fault.NotFound("subscription")
	}
	r, ok, err := w.Store().Subscription(ctx, id)
	switch {
	case err != nil:
		return r, err
	case !ok || subscriber.Lapsed(&r, w.Now()):
		return r, fault.NotFound("subscription")
	}
	return r, nil
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
		Forever: r.TTL < 0, Secret: webhook.NewSecret(), Admitted: w.Position()}
	if r.TTL > 0 {
		ms := r.TTL.Milliseconds()
		q.TTLMs = &ms
	}
	args, err := d.Kernel().Parse(r.Arguments)
	if err != nil {
		return fail(err)
	}
	q.Args = eventtype.Arguments{Arguments: args, Def: d}
	if q.Head, err = et.Topic().Now(ctx, args.Of, q.Head, q.Replay); err != nil {
		return fail(err)
	}
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
