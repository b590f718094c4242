package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/verify"
	"github.com/mcpe-gen/mcpe-gen/runtime/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// A subscribeRequest is one events/subscribe after the checks that need nothing but the request.
type subscribeRequest struct {
	et      *eventType
	args    arguments
	sub     Subscription
	url     *url.URL
	rawURL  string
	secret  webhook.Secret
	dialect wire.Dialect
	replay  topic.Replay
	head    store.Position // of the log when the request arrived
	ttl     *int64
	forever bool
	reply   func(f func()) bool // see Request.AfterReply
}

// subscribe answers events/subscribe in the order of ERR-2 (SUB-1 to SUB-8).
func (s *Server) subscribe(ctx context.Context, r *port.Request) (json.RawMessage, error) {
	p, err := wire.DecodeSubscribeParams(r.Params)
	if err != nil {
		return nil, fault.InvalidParams(err)
	}
	if r.Principal == "" {
		return nil, events.Forbidden("")
	}
	ctx = hook.WithPrincipal(ctx, r.Principal)
	et, d, err := s.lookup(ctx, r.Principal, p.Name)
	if err != nil {
		return nil, err
	}
	if p.Delivery.Mode != wire.ModeWebhook || !d.webhooks() {
		return nil, fault.UnsupportedMode(p.Delivery.Mode)
	}
	if err := et.refuses(); err != nil {
		return nil, err
	}
	q := &subscribeRequest{et: et, rawURL: p.Delivery.URL, dialect: s.dialect(r.DeclaresExtension),
		replay: topic.ReplayOf(p.Cursor, p.MaxAgeMs), ttl: p.TTLMs, forever: p.NoExpiry, reply: r.AfterReply}
	q.head = et.head()
	if err := s.webhooks.read(ctx, q, d, &p); err != nil {
		return nil, err
	}
	if err := s.authorized(ctx, r.Principal, q.args); err != nil {
		return nil, err
	}
	q.sub = webhookSubscription(r.Principal, q.rawURL, q.args)
	res, err := s.webhooks.subscribe(ctx, q)
	if err != nil {
		return nil, err
	}
	if r.Stateless {
		res.ResultType = wire.ResultComplete
	}
	return marshalResult(res)
}

// webhookSubscription names a webhook subscription by its key (SUB-4).
// secretReason is what a caller is told of its secret.
func secretReason(err error) string {
	var e *webhook.SecretError
	if errors.As(err, &e) {
		return e.Reason
	}
	return "is not valid"
}

func webhookSubscription(principal, url string, a arguments) Subscription {
	name := a.def.info.Name
	return Subscription{ID: wire.SubscriptionID(wire.ModeWebhook, principal, url, name, a.Canonical()), Principal: principal, Event: name, Mode: wire.ModeWebhook}
}

// read checks arguments, url and secret, and reports all that is wrong with their form at once. The
// lookup of the url's host comes last (SUB-3).
func (w *webhooks) read(ctx context.Context, q *subscribeRequest, d *definition, p *wire.SubscribeParams) error {
	var faults []events.FieldError
	var err error
	if q.args, err = w.parse(hook.Principal(ctx), d, p); err != nil {
		var e *events.Error
		var data wire.FieldErrors
		if !errors.As(err, &e) || json.Unmarshal(e.Data, &data) != nil {
			return err
		}
		faults = append(faults, data.Errors...)
	}
	if q.url, err = w.guard.ParseURL(p.Delivery.URL); err != nil {
		faults = append(faults, urlFault(err))
	}
	if q.secret, err = webhook.ParseSecret(p.Delivery.Secret); err != nil {
		faults = append(faults, events.FieldError{Path: "/delivery/secret", Message: secretReason(err)})
	}
	if len(faults) > 0 {
		return events.Invalid(faults...)
	}
	if w.verifier.Allows(q.url) {
		return nil
	}
	if _, err := w.guard.CheckURL(ctx, p.Delivery.URL); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return events.Invalid(urlFault(err))
	}
	return nil
}

// parse reads the arguments of a subscribe. Those of a subscription that is there already were
// accepted before, and stay so when it is refreshed (CAP-5).
func (w *webhooks) parse(principal string, d *definition, p *wire.SubscribeParams) (arguments, error) {
	a, err := d.parse(p.Arguments)
	if err == nil {
		return a, nil
	}
	canonical, invalid := wire.Canonical(p.Arguments)
	if invalid != nil {
		return arguments{}, err
	}
	id := wire.SubscriptionID(wire.ModeWebhook, principal, p.Delivery.URL, p.Name, canonical)
	if w.get(id) == nil && !w.isPending(id) {
		return arguments{}, err
	}
	if a, invalid = d.reparse(p.Arguments); invalid != nil {
		return arguments{}, err
	}
	return a, nil
}

func urlFault(err error) events.FieldError {
	reason := "cannot be used"
	var e *netguard.URLError
	if errors.As(err, &e) {
		reason = e.Reason
	}
	return events.FieldError{Path: "/delivery/url", Message: reason}
}

// A subscribeResult is the result of events/subscribe (SUB-1).
type subscribeResult struct {
	ResultType     string          `json:"resultType,omitempty"`
	ID             string          `json:"id"`
	RefreshBefore  *string         `json:"refreshBefore"`
	Cursor         *string         `json:"cursor"`
	Truncated      bool            `json:"truncated"`
	DeliveryStatus *deliveryStatus `json:"deliveryStatus,omitempty"`
}

// A deliveryStatus describes the state that a refresh found (HOOK-8).
type deliveryStatus struct {
	Active         bool           `json:"active"`
	LastDeliveryAt *string        `json:"lastDeliveryAt"`
	LastError      *wire.Category `json:"lastError"`
	FailedSince    *string        `json:"failedSince,omitempty"`
	Throttled      bool           `json:"throttled,omitempty"`
	RetryAfterMs   int64          `json:"retryAfterMs,omitempty"`
}

func statusOf(s delivery.Status) *deliveryStatus {
	d := &deliveryStatus{Active: s.Active, LastDeliveryAt: instant(s.LastDeliveryAt), FailedSince: instant(s.FailedSince),
		Throttled: s.Throttled, RetryAfterMs: s.RetryAfter.Milliseconds()}
	if s.LastError != "" {
		d.LastError = &s.LastError
	}
	return d
}

// instant is a time on the wire; nil for none.
func instant(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := t.UTC().Format(time.RFC3339Nano)
	return &text
}

// subscribe refreshes the subscription of the key or makes one. Whatever goes wrong leaves an
// existing one as it was, and nothing behind where there was none (ERR-2).
func (w *webhooks) subscribe(ctx context.Context, q *subscribeRequest) (*subscribeResult, error) {
	unlock, err := w.keys.Lock(ctx, q.sub.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	h, err := w.find(ctx, q.et, q.sub.ID)
	if err != nil {
		return nil, err
	}
	if h != nil {
		res, err := w.refresh(ctx, q, h)
		if err != nil || res != nil {
			return res, err
		}
		w.lapse(ctx, h) // at this moment
	}
	return w.begin(ctx, q)
}

// find returns the live subscription of the id; nil when there is none or its time is over. One
// whose restoring is still to come is restored now. The caller holds the key.
func (w *webhooks) find(ctx context.Context, et *eventType, id string) (*subscription, error) {
	if w.isPending(id) {
		if err := w.restoreOne(ctx, et, id); err != nil {
			return nil, asRefusal(err)
		}
	}
	h := w.get(id)
	if h == nil {
		return nil, nil
	}
	r, ok, err := w.store.Subscription(ctx, id)
	if err != nil {
		return nil, err
	}
	if !ok || lapsed(&r, time.Now()) {
		w.lapse(ctx, h)
		return nil, nil
	}
	return h, nil
}

// lapsed reports whether the record's time is over (SUB-5).
func lapsed(r *store.Subscription, now time.Time) bool {
	return !r.ExpiresAt.IsZero() && !now.Before(r.ExpiresAt)
}

// refresh prolongs a live subscription (SUB-5). The result is nil when it lapsed meanwhile.
func (w *webhooks) refresh(ctx context.Context, q *subscribeRequest, h *subscription) (*subscribeResult, error) {
	known, ok, err := w.store.Subscription(ctx, q.sub.ID)
	if err != nil || !ok {
		return nil, err
	}
	ring := ringOf(known.Secrets).Rotate(q.secret, time.Now(), w.o.Grace)
	if err := w.verifier.Verify(ctx, &verify.Candidate{Pair: verify.Pair{Principal: q.sub.Principal, URL: q.rawURL}, ID: q.sub.ID, At: q.url, Ring: ring, Live: func() bool { return true }}); err != nil {
		return nil, err
	}
	var truncated bool
	r, err := w.change(ctx, q.sub.ID, func(r *store.Subscription) bool {
		now := time.Now()
		truncated = r.Truncated
		r.Truncated = false
		r.Secrets = secretsOf(ringOf(r.Secrets).Rotate(q.secret, now, w.o.Grace))
		r.Codes, r.RefreshedAt, r.ExpiresAt = int(q.dialect), now, w.o.grantTTL(q.ttl, q.forever, now)
		r.NotBefore = now.Add(replyTime)
		return !lapsed(&known, now)
	})
	switch {
	case errors.Is(err, errGone):
		return nil, nil
	case err != nil:
		return nil, err
	}
	found, ok := h.handle.Refresh(r, q.hold())
	if !ok {
		return nil, nil
	}
	q.letGo(h)
	h.handle.Truncated(true)
	w.mu.Lock()
	h.dialect = q.dialect
	w.mu.Unlock()
	return &subscribeResult{ID: q.sub.ID, RefreshBefore: instant(r.ExpiresAt), Cursor: h.handle.Watermark(), Truncated: truncated, DeliveryStatus: statusOf(found)}, nil
}

// begin makes a new subscription.
func (w *webhooks) begin(ctx context.Context, q *subscribeRequest) (_ *subscribeResult, err error) {
	if err := w.reserve(q.sub.Principal); err != nil {
		return nil, err
	}
	kept := false
	defer func() {
		if !kept {
			w.giveBack(q.sub.Principal)
		}
	}()
	// Its charge until it is live and has one of its own, so that a refusal comes first (CAP-5).
	charge := w.charge(q.args)
	if err := w.server.holdings.take(q.sub.Principal, charge); err != nil {
		return nil, err
	}
	defer w.server.holdings.give(q.sub.Principal, charge)
	at, err := w.place(ctx, q)
	if err != nil {
		return nil, err
	}
	ring := webhook.NewRing(q.secret)
	p := verify.Pair{Principal: q.sub.Principal, URL: q.rawURL}
	if err := w.verifier.Verify(ctx, &verify.Candidate{Pair: p, ID: q.sub.ID, At: q.url, Ring: ring, Live: func() bool { return w.isLive(p) }}); err != nil {
		return nil, err
	}
	if err := w.server.members.join(ctx, q.sub, q.args); err != nil {
		return nil, asRefusal(err)
	}
	now := time.Now()
	r := store.Subscription{ID: q.sub.ID, Principal: q.sub.Principal, URL: q.rawURL, Event: q.sub.Event, Arguments: q.args.Canonical(),
		Secrets: secretsOf(ring), Codes: int(q.dialect), Generation: newGeneration(),
		CreatedAt: now, RefreshedAt: now, ExpiresAt: w.o.grantTTL(q.ttl, q.forever, now), Progress: at.progress,
		NotBefore: now.Add(replyTime)}
	h, again, err := w.start(ctx, q.et, q.args, r, at.cursor, asked, q.hold())
	if err != nil {
		w.server.members.leave(q.sub, q.args)
		return nil, err
	}
	q.letGo(h)
	kept = true
	return &subscribeResult{ID: q.sub.ID, RefreshBefore: instant(r.ExpiresAt), Cursor: h.reader.Cursor(at.progress.Base), Truncated: at.truncated || again}, nil
}

// No delivery overtakes the response of the subscribe that it follows: a receiver that does not know
// the subscription's id yet would refuse it.
const (
	// replyTime is how long whoever delivers waits from when the record was stored. It is enough for
	// a response to be written and read where nobody tells when that is.
	replyTime = 500 * time.Millisecond
	// maxReplyTime is how long a response that is still being written is waited for.
	maxReplyTime = 10 * time.Second
	// settleTime is what a subscriber has to take in a response that was written.
	settleTime = 25 * time.Millisecond
)

// hold is until when deliveries wait for the response, if the carrier tells when it is written.
func (q *subscribeRequest) hold() time.Time {
	if q.reply == nil {
		return time.Time{}
	}
	return time.Now().Add(maxReplyTime)
}

// letGo lets deliveries begin when the response is written.
func (q *subscribeRequest) letGo(h *subscription) {
	if q.reply == nil {
		return
	}
	soon := func() { h.handle.HoldUntil(time.Now().Add(settleTime)) }
	if !q.reply(soon) {
		soon()
	}
}

// A beginning is where a new subscription starts: a position of the log, or a cursor of a feed.
type beginning struct {
	progress  store.Progress
	cursor    string
	truncated bool
}

// place fixes the start as of the request's arrival (SUB-1).
func (w *webhooks) place(ctx context.Context, q *subscribeRequest) (b beginning, err error) {
	if q.args.def.check != nil {
		b.cursor, b.truncated, err = q.et.feeds.Fix(ctx, q.args.def.check, q.args.Arguments, q.sub.Principal, q.head, q.replay)
		b.progress.Upstream = b.cursor
		return b, err
	}
	from, err := q.et.topic.Start(ctx, &q.args.def.Type, q.head, q.replay)
	b.progress = store.Progress{Epoch: q.et.topic.Epoch(), Base: from.Position}
	b.truncated = from.Truncated
	return b, err
}

// isLive reports whether the pair has a live subscription. It looks through all, and is asked only
// when a verification has run out.
func (w *webhooks) isLive(p verify.Pair) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.byID {
		if h.principal == p.Principal && h.url == p.URL {
			return true
		}
	}
	return false
}
