package subscriber

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/ring"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/verify"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// A Request is one events/subscribe request.
type Request struct {
	Type eventtype.Type
	Args eventtype.Arguments
	Sub  eventtype.Subscription
	// URL is the parsed RawURL.
	URL *url.URL
	// RawURL is part of the subscription's key (SUB-4).
	RawURL  string
	Secret  webhook.Secret
	Dialect wire.Dialect
	Replay  topic.Replay
	Head    store.Position // the log's head when the request arrived
	// Admitted is [Subscriptions.Position] before a hook was called for the request. A revocation that is requested
	// while the hooks decide therefore ends the new subscription.
	Admitted store.ControlPosition
	// TTLMs is the requested time until the next refresh in milliseconds, or nil. Forever requests a subscription
	// without expiry.
	TTLMs   *int64
	Forever bool
	// Expires limits the subscription's expiry. It is the expiry of the caller's token or an earlier time. A zero time
	// means no limit.
	Expires time.Time
	// Reply calls f after the response has been written. It returns false if it will not call f. Reply is nil if the
	// transport does not report when responses are written.
	Reply func(f func()) bool
}

// secretReason returns the reason for the rejection of a secret. The reason can be shown to the caller.
func secretReason(err error) string {
	var e *webhook.SecretError
	if errors.As(err, &e) {
		return e.Reason
	}
	return "is not valid"
}

// Read sets the arguments, URL and secret of q. It returns all of their errors together and resolves the URL's host
// last (SUB-3).
func (w *Subscriptions) Read(ctx context.Context, q *Request, d eventtype.Definition, p *wire.SubscribeParams) error {
	var faults []events.FieldError
	var err error
	if q.Args, err = w.parseArguments(ctx, hook.Principal(ctx), d, p); err != nil {
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

// parseArguments parses the arguments of a subscribe request. When an existing subscription is refreshed, newer limits
// do not apply to its arguments (CAP-5).
func (w *Subscriptions) parseArguments(ctx context.Context, principal string, d eventtype.Definition, p *wire.SubscribeParams) (eventtype.Arguments, error) {
	a, err := eventtype.Parse(d, p.Arguments)
	if err == nil {
		return a, nil
	}
	canonical, invalid := wire.Canonical(p.Arguments)
	if invalid != nil {
		return eventtype.Arguments{}, err
	}
	id := wire.SubscriptionID(wire.ModeWebhook, principal, p.Delivery.URL, p.Name, canonical)
	if w.Get(id) == nil && !w.isStored(ctx, id) {
		return eventtype.Arguments{}, err
	}
	if a, invalid = eventtype.Reparse(d, p.Arguments); invalid != nil {
		return eventtype.Arguments{}, err
	}
	return a, nil
}

// isStored reports whether a subscription with the id exists, in this or another process.
func (w *Subscriptions) isStored(ctx context.Context, id string) bool {
	r, ok, err := w.store.Subscription(ctx, id)
	return err == nil && ok && !Lapsed(&r, w.Now())
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

// A DeliveryStatus describes the state of deliveries before a refresh (HOOK-8).
type DeliveryStatus struct {
	Active         bool           `json:"active"`
	LastDeliveryAt *string        `json:"lastDeliveryAt"`
	LastError      *wire.Category `json:"lastError"`
	FailedSince    *string        `json:"failedSince,omitempty"`
	Throttled      bool           `json:"throttled,omitempty"`
	RetryAfterMs   int64          `json:"retryAfterMs,omitempty"`
}

func statusOf(s delivery.Status) *DeliveryStatus {
	d := &DeliveryStatus{Active: s.Active, LastDeliveryAt: formatTime(s.LastDeliveryAt), FailedSince: formatTime(s.FailedSince),
		Throttled: s.Throttled, RetryAfterMs: s.RetryAfter.Milliseconds()}
	if e := s.LastError.ForSubscriber(); e != "" {
		d.LastError = &e
	}
	return d
}

// formatTime formats a time for a response. It returns nil for the zero time.
func formatTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := t.UTC().Format(time.RFC3339Nano)
	return &text
}

// Lapsed reports whether the record has expired (SUB-5).
func Lapsed(r *store.Subscription, now time.Time) bool {
	return !r.ExpiresAt.IsZero() && !now.Before(r.ExpiresAt)
}

// verifyRefresh verifies that the endpoint belongs to the subscriber. It uses the keys that are valid after the refresh
// (VER-2).
func (w *Subscriptions) verifyRefresh(ctx context.Context, q *Request, known *store.Subscription) error {
	keys, err := ring.Of(known.Secrets)
	if err != nil {
		return err
	}
	_, err = w.verifier.Verify(ctx, &verify.Candidate{
		Pair: verify.Pair{Principal: q.Sub.Principal, URL: q.RawURL}, ID: q.Sub.ID, At: q.URL,
		Ring: keys.Rotate(q.Secret, w.Now(), w.o.Grace), Live: func() bool { return true },
	})
	return err
}

// hasLostPosition reports whether the cursor of a refresh belongs to a different life of the log. The subscription
// continues at its stored position, but the log might lack entries that the subscriber has already read (CUR-8).
func hasLostPosition(ctx context.Context, q *Request) (bool, error) {
	t := q.Type.Topic()
	if q.Replay.Cursor == nil || t == nil {
		return false, nil
	}
	stands, err := t.Stands(ctx, q.Args.Def.Kernel(), *q.Replay.Cursor)
	return !stands, err
}

// applyRefresh applies a refresh to a record.
func (w *Subscriptions) applyRefresh(r *store.Subscription, q *Request) error {
	now := w.Now()
	keys, err := ring.Of(r.Secrets)
	if err != nil {
		return err
	}
	r.Truncated = false
	r.Secrets = ring.Stored(keys.Rotate(q.Secret, now, w.o.Grace))
	r.Codes, r.RefreshedAt, r.ExpiresAt = int(q.Dialect), nextRefresh(r.RefreshedAt, now), w.grantExpiry(q, now)
	r.NotBefore, r.Schema = now.Add(ReplyTime), q.Args.Def.Fingerprint()
	return nil
}

// nextRefresh returns the RefreshedAt of a refresh. It is later than that of the last refresh even if another process,
// whose clock is ahead, stored that one. Owners therefore detect every refresh.
func nextRefresh(last, now time.Time) time.Time {
	if now.After(last) {
		return now
	}
	return last.Add(time.Nanosecond)
}

// Deliveries wait for the subscribe response, because a receiver might reject a delivery before it knows the
// subscription's id.
const (
	// ReplyTime is the time that an owner waits before the first delivery after the record is stored. It allows the
	// response to be written and read if the transport does not report when the response is written.
	ReplyTime = 500 * time.Millisecond
	// MaxReplyTime is the maximum wait for a response that is still being written.
	MaxReplyTime = 10 * time.Second
	// SettleTime is the time available to a subscriber to process a response after it is written.
	SettleTime = 25 * time.Millisecond
)

// limitHold returns the earlier of t and ReplyTime from now. The time t, until which deliveries wait for a response, was
// stored by a process whose clock may be ahead, or before the clock was set back.
func (w *Subscriptions) limitHold(t time.Time) time.Time {
	if latest := w.Now().Add(ReplyTime); t.After(latest) {
		return latest
	}
	return t
}

// holdDeliveries lets deliveries start after the response has been written. If the transport does not report when that
// happens, holdDeliveries does nothing, and deliveries start at the record's NotBefore.
func (q *Request) holdDeliveries(h *Live, now func() time.Time) {
	if q.Reply == nil {
		return
	}
	h.Handle.HoldUntil(now().Add(MaxReplyTime))
	soon := func() { h.Handle.HoldUntil(now().Add(SettleTime)) }
	if !q.Reply(soon) {
		soon()
	}
}

// A startPosition is the start of a new subscription, either a position in the log or a cursor of a feed.
type startPosition struct {
	progress  store.Progress
	cursor    string
	truncated bool
}

// startPoint determines the start of a subscription, based on the time at which the request arrived (SUB-1).
func (w *Subscriptions) startPoint(ctx context.Context, q *Request) (b startPosition, err error) {
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

// isLive reports whether the pair has a live subscription. It scans all subscriptions. The scan is acceptable because
// isLive is only called if a verification has expired.
func (w *Subscriptions) isLive(p verify.Pair) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.byID {
		if h.Principal() == p.Principal && h.Handle.URL() == p.URL {
			return true
		}
	}
	return false
}
