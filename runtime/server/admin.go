package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/verify"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// KeySetPath is where the handler of [Server.KeySet] belongs on the server's origin. See
// HOOK-10.
const KeySetPath = wire.PathKeySet

// KeySet serves the public keys of the server's webhook signatures as a JWK set; without an
// identity it answers 404. See HOOK-10.
func (s *Server) KeySet() http.Handler {
	if s.webhooks == nil || s.options.Webhook.Identity == nil {
		return http.NotFoundHandler()
	}
	return s.options.Webhook.Identity
}

// Admin is the operator's view of a server's subscriptions. It knows no principal: whoever can
// call it may do everything. Its methods are safe for concurrent use; an unknown subscription is
// events.ErrNotFound. See SRV-8.
type Admin struct {
	s *Server
}

// Admin returns the operator's view.
func (s *Server) Admin() *Admin { return &Admin{s} }

// A State is what becomes of the deliveries of a webhook subscription.
type State string

// The states.
const (
	StateActive    State = "active"
	StateSuspended State = "suspended" // until it is refreshed or resumed
	StatePaused    State = "paused"    // by an operator, until an operator lets it go on
	StateAbsent    State = "absent"
)

// A SubscriptionKey is what identifies a webhook subscription. See SUB-4.
type SubscriptionKey struct {
	Principal, URL, Event string
	// Arguments are JSON; nil is {}.
	Arguments json.RawMessage
}

// id is the derived id, or an error about the arguments.
func (k *SubscriptionKey) id() (string, error) {
	canonical, err := wire.Canonical(k.Arguments)
	if err != nil {
		return "", fault.InvalidArguments(err)
	}
	return wire.SubscriptionID(wire.ModeWebhook, k.Principal, k.URL, k.Event, canonical), nil
}

// A WebhookInfo describes a webhook subscription. It holds no secret.
type WebhookInfo struct {
	ID          string          `json:"id"`
	Principal   string          `json:"principal"`
	Event       string          `json:"event"`
	Arguments   json.RawMessage `json:"arguments"`
	URL         string          `json:"url"`
	State       State           `json:"state"`
	CreatedAt   time.Time       `json:"createdAt"`
	RefreshedAt time.Time       `json:"refreshedAt"`
	// ExpiresAt is zero for a subscription without expiry.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// Cursor is the watermark; nil for a type without replay, and until the subscription is
	// restored after a start. Of one that lives in another process it is what is stored, and nil in a
	// list.
	Cursor         *string   `json:"cursor"`
	LastDeliveryAt time.Time `json:"lastDeliveryAt,omitzero"`
	LastError      string    `json:"lastError,omitempty"`
	FailedSince    time.Time `json:"failedSince,omitzero"`
	Throttled      bool      `json:"throttled,omitempty"`
	// Behind is how many entries of the type's log are after its watermark; nil for a check, and until
	// the subscription is restored after a start.
	Behind *int64 `json:"behind,omitempty"`
	// Truncated tells of a gap that no subscribe response has reported yet.
	Truncated bool `json:"truncated,omitempty"`
}

// webhookInfo describes a record together with what its live subscription knows better.
func (s *Server) webhookInfo(r *store.Subscription) WebhookInfo {
	i := WebhookInfo{ID: r.ID, Principal: r.Principal, Event: r.Event, Arguments: r.Arguments, URL: r.URL, State: StateActive,
		CreatedAt: r.CreatedAt, RefreshedAt: r.RefreshedAt, ExpiresAt: r.ExpiresAt, Truncated: r.Truncated,
		LastDeliveryAt: r.Health.LastDeliveryAt, LastError: r.Health.LastError, FailedSince: r.Health.FailedSince}
	suspended := r.Health.Suspended
	if h := s.webhooks.Get(r.ID); h != nil && h.Generation == r.Generation {
		status := h.Handle.Status()
		i.Cursor, i.LastDeliveryAt, i.LastError = h.Handle.Watermark(), status.LastDeliveryAt, string(status.LastError)
		i.FailedSince, i.Throttled = status.FailedSince, status.Throttled
		i.Behind = h.Behind()
		suspended = !status.Active && !status.Paused
	}
	switch {
	case subscriber.Lapsed(r, s.webhooks.Now()):
		i.State = StateAbsent
	case !r.PausedAt.IsZero():
		i.State = StatePaused
	case suspended:
		i.State = StateSuspended
	}
	return i
}

var errNoWebhooks = errors.New("server: webhooks are not configured")

// List returns up to limit webhook subscriptions with ids above after, in order of id, from the
// store.
func (a *Admin) List(ctx context.Context, after string, limit int) ([]WebhookInfo, error) {
	w := a.s.webhooks
	if w == nil {
		return nil, nil
	}
	page, err := w.Store().Subscriptions(ctx, after, limit)
	if err != nil {
		return nil, fmt.Errorf("listing webhook subscriptions: %w", err)
	}
	infos := make([]WebhookInfo, len(page))
	for i := range page {
		infos[i] = a.s.webhookInfo(&page[i])
	}
	return infos, nil
}

// Get returns the webhook subscription of an id, as the store has it.
func (a *Admin) Get(ctx context.Context, id string) (WebhookInfo, error) {
	w := a.s.webhooks
	if w == nil {
		return WebhookInfo{}, fault.NotFound("subscription")
	}
	r, ok, err := w.Store().Subscription(ctx, id)
	if err != nil {
		return WebhookInfo{}, fmt.Errorf("reading webhook subscription %s: %w", id, err)
	}
	if !ok || subscriber.Lapsed(&r, w.Now()) {
		return WebhookInfo{}, fault.NotFound("subscription")
	}
	i := a.s.webhookInfo(&r)
	if i.Cursor == nil && w.Get(id) == nil {
		i.Cursor = w.Describe(ctx, &r)
	}
	return i, nil
}

// Lookup returns the webhook subscription of a key.
func (a *Admin) Lookup(ctx context.Context, k SubscriptionKey) (WebhookInfo, error) {
	id, err := k.id()
	if err != nil {
		return WebhookInfo{}, err
	}
	return a.Get(ctx, id)
}

// State tells the state of a webhook subscription; of an unknown one it is [StateAbsent].
func (a *Admin) State(ctx context.Context, id string) (State, error) {
	i, err := a.Get(ctx, id)
	if errors.Is(err, events.ErrNotFound) {
		return StateAbsent, nil
	}
	return i.State, err
}

// Resume reactivates a suspended webhook subscription as a refresh does. See HOOK-5.
func (a *Admin) Resume(ctx context.Context, id string) error {
	h, unlock, err := a.lock(ctx, id)
	if away, _ := a.away(ctx, id, err); away != nil {
		return a.s.ask(ctx, order{Kind: orderResume, Target: &Target{ID: id}})
	}
	if err != nil {
		return err
	}
	defer unlock()
	h.Handle.Resume()
	if !h.Ours() {
		return a.s.ask(ctx, order{Kind: orderResume, Target: &Target{ID: id}})
	}
	return nil
}

// Replay delivers again everything after the cursor, as far as the log or the upstream still has
// it; what it has not is signalled as a gap. What is unsettled before the cursor stays so. A check
// is waited for up to 10 s. A cursor that is malformed, of another type, of other arguments or
// beyond the head is events.ErrInvalidParams, a type without replay events.ErrUnsupported; after an
// error nothing was sent and the subscription goes on as before. Where only storing the new start
// failed, what it delivers again may already be on the way. See SRV-8.
func (a *Admin) Replay(ctx context.Context, id, cursor string) error {
	w := a.s.webhooks
	if w == nil {
		return fault.NotFound("subscription")
	}
	err := w.Replay(ctx, id, cursor)
	if r, awayErr := a.away(ctx, id, err); r != nil || awayErr != nil {
		if err = awayErr; err == nil {
			err = w.CheckReplay(ctx, r, cursor)
		}
		if err == nil {
			err = a.s.ask(ctx, order{Kind: orderReplay, Target: &Target{ID: id}, Cursor: cursor})
		}
	}
	if err != nil {
		return fmt.Errorf("replaying webhook subscription %s: %w", id, err)
	}
	return nil
}

// lock returns the live subscription of an id, which nobody else begins, refreshes or ends by
// request until unlock.
func (a *Admin) lock(ctx context.Context, id string) (h *subscriber.Live, unlock func(), err error) {
	if a.s.webhooks == nil {
		return nil, nil, fault.NotFound("subscription")
	}
	return a.s.webhooks.Lock(ctx, id)
}

// End ends one webhook subscription with a terminated envelope; nil for Forbidden. For all of a
// principal see [Server.Revoke].
func (a *Admin) End(ctx context.Context, id string, e *events.Error) error {
	if e == nil {
		e = events.Forbidden("access revoked")
	}
	h, unlock, err := a.lock(ctx, id)
	if away, _ := a.away(ctx, id, err); away != nil {
		return a.s.ask(ctx, Target{ID: id}.order(orderTerminate, e))
	}
	if err != nil {
		return err
	}
	defer unlock()
	if a.s.webhooks.End(h, e); !h.Ours() {
		return a.s.ask(ctx, Target{ID: id}.order(orderTerminate, e))
	}
	return nil
}

// AllowOrigin allows callbacks on one exact origin, such as http://127.0.0.1:9000, until revoke is
// called: its address is not judged and it need not be https. Verification stays (SRV-8). Anything
// but scheme, host and port is refused.
func (a *Admin) AllowOrigin(origin string) (revoke func(), err error) {
	if a.s.webhooks == nil {
		return nil, errNoWebhooks
	}
	return a.s.webhooks.Guard().AllowOrigin(origin)
}

// A Registration is a webhook subscription that an operator makes for a principal.
type Registration struct {
	SubscriptionKey
	// Secret signs the deliveries, in its text form whsec_…; when empty one is generated that
	// nobody knows, which the subscriber replaces by a refresh.
	Secret string
	// TTL is the time until it must be refreshed, within the server's bounds; 0 is the default and
	// negative asks for no expiry.
	TTL time.Duration
	// Cursor is where it starts; nil is now.
	Cursor *string
}

// Register makes or refreshes a subscription whose callback has been verified by other means,
// which is recorded: no handshake takes place, now or later. The URL's form, the arguments and
// quotas are checked, authorization and visibility are not. It returns the id. See VER-1.
func (a *Admin) Register(ctx context.Context, r Registration) (id string, err error) {
	w := a.s.webhooks
	if w == nil {
		return "", errNoWebhooks
	}
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("registering a webhook subscription to %s: %w", r.Event, err)
	}
	a.s.mu.Lock()
	et := a.s.types[r.Event]
	a.s.mu.Unlock()
	if et == nil || et.current() == nil {
		return fail(fault.NotFound("event"))
	}
	d := et.current()
	if !d.Webhooks() {
		return fail(fault.UnsupportedMode(wire.ModeWebhook))
	}
	if r.Principal == "" {
		return fail(errors.New("it has no principal"))
	}
	q := &subscriber.Request{Type: et, RawURL: r.URL, Dialect: a.s.dialect(false), Replay: topic.Replay{Cursor: r.Cursor}, Head: et.Head(),
		Forever: r.TTL < 0, Secret: webhook.NewSecret()}
	if r.TTL > 0 {
		ms := r.TTL.Milliseconds()
		q.TTLMs = &ms
	}
	args, err := d.parse(r.Arguments)
	if err != nil {
		return fail(err)
	}
	q.Args = args.subscriber()
	if q.URL, err = w.Guard().ParseURL(r.URL); err != nil {
		return fail(err)
	}
	if r.Secret != "" {
		if q.Secret, err = webhook.ParseSecret(r.Secret); err != nil {
			return fail(err)
		}
	}
	q.Sub = subscriber.IdentityOf(r.Principal, r.URL, q.Args)
	if err := w.Store().PutVerification(ctx, store.Verification{Principal: r.Principal, URL: r.URL, Method: verify.ByRecord, At: w.Now()}); err != nil {
		return fail(err)
	}
	if _, err := w.Subscribe(hook.WithPrincipal(ctx, r.Principal), q); err != nil {
		return fail(err)
	}
	return q.Sub.ID, nil
}
