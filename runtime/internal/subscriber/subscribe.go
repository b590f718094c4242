package subscriber

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
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ring"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/verify"
	"github.com/mcpe-gen/mcpe-gen/runtime/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// A Request is one events/subscribe.
type Request struct {
	Type EventType
	Args Arguments
	Sub  Identity
	// URL is RawURL parsed. RawURL is what the subscription's key is made of (SUB-4).
	URL     *url.URL
	RawURL  string
	Secret  webhook.Secret
	Dialect wire.Dialect
	Replay  topic.Replay
	Head    store.Position // of the log when the request arrived
	// TTLMs is the wish for the time until the next refresh, nil for none; Forever asks for no expiry.
	TTLMs   *int64
	Forever bool
	// Reply calls f when the response has been written; false when nobody will tell. Nil: the carrier
	// never does.
	Reply func(f func()) bool
}

// secretReason is what a caller is told of its secret.
func secretReason(err error) string {
	var e *webhook.SecretError
	if errors.As(err, &e) {
		return e.Reason
	}
	return "is not valid"
}

// IdentityOf names a subscription by its key (SUB-4).
func IdentityOf(principal, url string, a Arguments) Identity {
	name := a.Def.Kernel().Name
	return Identity{ID: wire.SubscriptionID(wire.ModeWebhook, principal, url, name, a.Canonical()), Principal: principal, Event: name}
}

// Read fills in arguments, url and secret, and reports all that is wrong with their form at once. The
// lookup of the url's host comes last (SUB-3).
func (w *Subscriptions) Read(ctx context.Context, q *Request, d Definition, p *wire.SubscribeParams) error {
	var faults []events.FieldError
	var err error
	if q.Args, err = w.parse(ctx, hook.Principal(ctx), d, p); err != nil {
		var e *events.Error
		var data wire.FieldErrors
		if !errors.As(err, &e) || json.Unmarshal(e.Data, &data) != nil {
			return err
		}
		faults = append(faults, data.Errors...)
	}
	if q.URL, err = w.guard.ParseURL(p.Delivery.URL); err != nil {
		faults = append(faults, urlFault(err))
	}
	if q.Secret, err = webhook.ParseSecret(p.Delivery.Secret); err != nil {
		faults = append(faults, events.FieldError{Path: "/delivery/secret", Message: secretReason(err)})
	}
	if len(faults) > 0 {
		return events.Invalid(faults...)
	}
	if w.verifier.Allows(q.URL) {
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
func (w *Subscriptions) parse(ctx context.Context, principal string, d Definition, p *wire.SubscribeParams) (Arguments, error) {
	a, err := parse(d, p.Arguments)
	if err == nil {
		return a, nil
	}
	canonical, invalid := wire.Canonical(p.Arguments)
	if invalid != nil {
		return Arguments{}, err
	}
	id := wire.SubscriptionID(wire.ModeWebhook, principal, p.Delivery.URL, p.Name, canonical)
	if w.Get(id) == nil && !w.isPending(id) && !w.isStored(ctx, id) {
		return Arguments{}, err
	}
	if a, invalid = reparse(d, p.Arguments); invalid != nil {
		return Arguments{}, err
	}
	return a, nil
}

// isStored reports whether another process may have the subscription of the id.
func (w *Subscriptions) isStored(ctx context.Context, id string) bool {
	if w.sharing == nil {
		return false
	}
	r, ok, err := w.store.Subscription(ctx, id)
	return err == nil && ok && !Lapsed(&r, w.now())
}

func urlFault(err error) events.FieldError {
	reason := "cannot be used"
	var e *netguard.URLError
	if errors.As(err, &e) {
		reason = e.Reason
	}
	return events.FieldError{Path: "/delivery/url", Message: reason}
}

// A Result is the result of events/subscribe (SUB-1).
type Result struct {
	ResultType     string          `json:"resultType,omitempty"`
	ID             string          `json:"id"`
	RefreshBefore  *string         `json:"refreshBefore"`
	Cursor         *string         `json:"cursor"`
	Truncated      bool            `json:"truncated"`
	DeliveryStatus *DeliveryStatus `json:"deliveryStatus,omitempty"`
}

// A DeliveryStatus describes the state that a refresh found (HOOK-8).
type DeliveryStatus struct {
	Active         bool           `json:"active"`
	LastDeliveryAt *string        `json:"lastDeliveryAt"`
	LastError      *wire.Category `json:"lastError"`
	FailedSince    *string        `json:"failedSince,omitempty"`
	Throttled      bool           `json:"throttled,omitempty"`
	RetryAfterMs   int64          `json:"retryAfterMs,omitempty"`
}

func statusOf(s delivery.Status) *DeliveryStatus {
	d := &DeliveryStatus{Active: s.Active, LastDeliveryAt: instant(s.LastDeliveryAt), FailedSince: instant(s.FailedSince),
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

// Subscribe refreshes the subscription of the key or makes one. Whatever goes wrong leaves an
// existing one as it was, and nothing behind where there was none (ERR-2).
func (w *Subscriptions) Subscribe(ctx context.Context, q *Request) (*Result, error) {
	unlock, err := w.keys.Lock(ctx, q.Sub.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if w.sharing != nil {
		return w.subscribeShared(ctx, q)
	}
	h, err := w.find(ctx, q.Type, q.Sub.ID)
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
func (w *Subscriptions) find(ctx context.Context, et EventType, id string) (*Live, error) {
	if w.isPending(id) {
		if err := w.restoreOne(ctx, et, id); err != nil {
			return nil, fault.Typed(err)
		}
	}
	h := w.Get(id)
	if h == nil {
		return nil, nil
	}
	r, ok, err := w.store.Subscription(ctx, id)
	if err != nil {
		return nil, err
	}
	if !ok || Lapsed(&r, w.now()) {
		w.lapse(ctx, h)
		return nil, nil
	}
	return h, nil
}

// Lapsed reports whether the record's time is over (SUB-5).
func Lapsed(r *store.Subscription, now time.Time) bool {
	return !r.ExpiresAt.IsZero() && !now.Before(r.ExpiresAt)
}

// verifyRefresh asks for proof that the endpoint, with the keys as they will be, is the subscriber's (VER-2).
func (w *Subscriptions) verifyRefresh(ctx context.Context, q *Request, known *store.Subscription) error {
	keys, err := ring.Of(known.Secrets)
	if err != nil {
		return err
	}
	return w.verifier.Verify(ctx, &verify.Candidate{
		Pair: verify.Pair{Principal: q.Sub.Principal, URL: q.RawURL}, ID: q.Sub.ID, At: q.URL,
		Ring: keys.Rotate(q.Secret, w.now(), w.o.Grace), Live: func() bool { return true },
	})
}

// refresh prolongs a live subscription (SUB-5). The result is nil when it lapsed meanwhile.
func (w *Subscriptions) refresh(ctx context.Context, q *Request, h *Live) (*Result, error) {
	known, ok, err := w.store.Subscription(ctx, q.Sub.ID)
	if err != nil || !ok {
		return nil, err
	}
	if err := w.verifyRefresh(ctx, q, &known); err != nil {
		return nil, err
	}
	var truncated bool
	var unusable error
	r, err := w.change(ctx, q.Sub.ID, func(r *store.Subscription) bool {
		truncated = r.Truncated
		if unusable = w.renew(r, q); unusable != nil {
			return false
		}
		return !Lapsed(&known, w.now())
	})
	if err == nil {
		err = unusable
	}
	switch {
	case errors.Is(err, errGone):
		return nil, nil
	case err != nil:
		return nil, err
	}
	found, ok := h.Handle.Refresh(r, q.hold(w.now()))
	if !ok {
		return nil, nil
	}
	q.letGo(h, w.now)
	h.Handle.Truncated(true)
	w.mu.Lock()
	h.dialect = q.Dialect
	w.mu.Unlock()
	return &Result{ID: q.Sub.ID, RefreshBefore: instant(r.ExpiresAt), Cursor: h.Handle.Watermark(), Truncated: truncated, DeliveryStatus: statusOf(found)}, nil
}

// renew makes a record what a refresh asks for.
func (w *Subscriptions) renew(r *store.Subscription, q *Request) error {
	now := w.now()
	keys, err := ring.Of(r.Secrets)
	if err != nil {
		return err
	}
	r.Truncated = false
	r.Secrets = ring.Stored(keys.Rotate(q.Secret, now, w.o.Grace))
	r.Codes, r.RefreshedAt, r.ExpiresAt = int(q.Dialect), now, w.o.Terms.Until(q.TTLMs, q.Forever, now)
	r.NotBefore, r.Schema = now.Add(ReplyTime), q.Args.Def.Fingerprint()
	return nil
}

// begin makes a new subscription.
func (w *Subscriptions) begin(ctx context.Context, q *Request) (_ *Result, err error) {
	if err := w.reserve(q.Sub.Principal); err != nil {
		return nil, err
	}
	kept := false
	defer func() {
		if !kept {
			w.giveBack(q.Sub.Principal)
		}
	}()
	// Its charge until it is live and has one of its own, so that a refusal comes first (CAP-5).
	charge := w.charge(q.Args)
	if err := w.host.Take(q.Sub.Principal, charge); err != nil {
		return nil, err
	}
	defer w.host.Give(q.Sub.Principal, charge)
	at, err := w.place(ctx, q)
	if err != nil {
		return nil, err
	}
	keys := webhook.NewRing(q.Secret)
	p := verify.Pair{Principal: q.Sub.Principal, URL: q.RawURL}
	if err := w.verifier.Verify(ctx, &verify.Candidate{Pair: p, ID: q.Sub.ID, At: q.URL, Ring: keys, Live: func() bool { return w.isLive(p) }}); err != nil {
		return nil, err
	}
	if err := w.host.Join(ctx, q.Sub, q.Args); err != nil {
		return nil, fault.Typed(err)
	}
	now := w.now()
	r := store.Subscription{ID: q.Sub.ID, Principal: q.Sub.Principal, URL: q.RawURL, Event: q.Sub.Event, Arguments: q.Args.Canonical(),
		Secrets: ring.Stored(keys), Codes: int(q.Dialect), Generation: newGeneration(),
		CreatedAt: now, RefreshedAt: now, ExpiresAt: w.o.Terms.Until(q.TTLMs, q.Forever, now), Progress: at.progress,
		NotBefore: now.Add(ReplyTime)}
	h, again, err := w.start(ctx, q.Type, q.Args, r, at.cursor, seat{from: asked, hold: q.hold(w.now())})
	if err != nil {
		w.host.Leave(q.Sub, q.Args)
		return nil, err
	}
	q.letGo(h, w.now)
	kept = true
	return &Result{ID: q.Sub.ID, RefreshBefore: instant(r.ExpiresAt), Cursor: h.reader.Cursor(at.progress.Base), Truncated: at.truncated || again}, nil
}

// No delivery overtakes the response of the subscribe that it follows: a receiver that does not know
// the subscription's id yet would refuse it.
const (
	// ReplyTime is how long whoever delivers waits from when the record was stored. It is enough for
	// a response to be written and read where nobody tells when that is.
	ReplyTime = 500 * time.Millisecond
	// MaxReplyTime is how long a response that is still being written is waited for.
	MaxReplyTime = 10 * time.Second
	// SettleTime is what a subscriber has to take in a response that was written.
	SettleTime = 25 * time.Millisecond
)

// hold is until when deliveries wait for the response, if the carrier tells when it is written.
func (q *Request) hold(now time.Time) time.Time {
	if q.Reply == nil {
		return time.Time{}
	}
	return now.Add(MaxReplyTime)
}

// letGo lets deliveries begin when the response is written.
func (q *Request) letGo(h *Live, now func() time.Time) {
	if q.Reply == nil {
		return
	}
	soon := func() { h.Handle.HoldUntil(now().Add(SettleTime)) }
	if !q.Reply(soon) {
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
func (w *Subscriptions) place(ctx context.Context, q *Request) (b beginning, err error) {
	if q.Args.Def.Check() != nil {
		b.cursor, b.truncated, err = q.Type.Feeds().Fix(ctx, q.Args.Def.Check(), q.Args.Arguments, q.Sub.Principal, q.Head, q.Replay)
		b.progress.Upstream = b.cursor
		return b, err
	}
	from, err := q.Type.Topic().Start(ctx, q.Args.Def.Kernel(), q.Head, q.Replay)
	b.progress = store.Progress{Epoch: q.Type.Topic().Epoch(), Base: from.Position}
	b.truncated = from.Truncated
	return b, err
}

// isLive reports whether the pair has a live subscription. It looks through all, and is asked only
// when a verification has run out.
func (w *Subscriptions) isLive(p verify.Pair) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.byID {
		if h.Principal == p.Principal && h.URL == p.URL {
			return true
		}
	}
	return false
}
