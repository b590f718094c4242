// Package durable implements the parts of a server: webhooks, the processes on its store, and operators. It connects the
// packages subscriber, cluster and operate with one another and with the server. The package makes no compatibility
// promise.
package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/evolve"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/cluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/operators/operate"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/part"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/verify"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// Options configures the parts of a server.
type Options struct {
	// Webhooks configures webhook delivery. It is nil without webhook delivery.
	Webhooks *Webhooks
	// Name is the process's name in logs. The default consists of the host name and the process id.
	Name string
	// Lease is that of [cluster.Options].
	Lease time.Duration
	// Operators reports whether operators can use the server.
	Operators bool
}

// A value implements [part.Part].
type value struct {
	shared part.Value
	apply  func(core *part.Core, o *Options) error
}

func (v *value) Value() *part.Value { return &v.shared }

// NewPart returns a part. The function apply sets the options that the part adds to the parts of its server.
func NewPart(kind part.Kind, options any, apply func(core *part.Core, o *Options) error) part.Part {
	return &value{part.Value{Kind: kind, Options: options, Start: start}, apply}
}

// start starts the parts of a server, which were made by [NewPart].
func start(ctx context.Context, core *part.Core, all []part.Part) (part.Service, error) {
	var o Options
	for _, p := range all {
		if err := p.(*value).apply(core, &o); err != nil {
			return nil, err
		}
	}
	s, err := newService(ctx, core, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Webhooks configures webhook delivery.
type Webhooks struct {
	Callbacks netguard.Options
	Delivery  delivery.Options // without the fields that the Service sets
	Attempts  engine.AttemptBounds
	Verify    verify.Limits
	// Allow lists callbacks that are accepted without verification.
	Allow []string
	Terms subscriber.Terms
	Grace time.Duration
	Quota subscriber.Quota
	// Identity adds the server's signature to deliveries. It can be nil.
	Identity *webhook.Identity
	// EndWithToken limits each grant to the expiry of the caller's token. IdempotentUnsubscribe makes events/unsubscribe
	// succeed for an unknown subscription.
	EndWithToken, IdempotentUnsubscribe bool
}

// A Service implements [part.Service].
type Service struct {
	cluster.Processes
	core      *part.Core
	options   Options
	Webhooks  *subscriber.Subscriptions // nil without webhook delivery
	Operators *operate.Admin
}

func newService(ctx context.Context, core *part.Core, o Options) (*Service, error) {
	if o.Name == "" {
		host, _ := os.Hostname()
		o.Name = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	s := &Service{core: core, options: o}
	var err error
	if s.Processes, err = cluster.New(ctx, cluster.Options{Host: clusterHost{host{core.Access, core.Memory, s}}, Store: core.Store, Outbox: core.Outbox,
		EmitOnly: core.EmitOnly, Name: o.Name, Lease: o.Lease, Log: core.Log, Logger: core.Logger}); err != nil {
		return nil, err
	}
	if o.Webhooks != nil {
		if s.Webhooks, err = s.newWebhooks(ctx, *o.Webhooks); err != nil {
			return nil, err
		}
	}
	s.Operators = operate.New(operate.Options{Host: operateHost{core.Access, core}, Processes: s.Processes, Webhooks: s.Webhooks, Store: core.Store,
		Outbox: core.Outbox, Dialect: core.Dialect(false), Now: func() time.Time { return s.Now().UTC() }, Closing: core.Closing, Log: core.Log})
	return s, nil
}

// newWebhooks loads the stored webhook subscriptions.
func (s *Service) newWebhooks(ctx context.Context, o Webhooks) (*subscriber.Subscriptions, error) {
	records, processes, err := s.Records(ctx)
	if err != nil {
		return nil, err
	}
	guard, err := netguard.New(o.Callbacks)
	if err != nil {
		return nil, err
	}
	c := s.core
	o.Delivery.Identity, o.Delivery.Logger, o.Delivery.Telemetry = o.Identity, c.Logger, c.Telemetry
	if kept, ok := c.Store.(engine.Attempts); ok && o.Attempts.PerSubscription > 0 {
		o.Delivery.Attempts, o.Delivery.AttemptBounds = kept, o.Attempts
	}
	w, err := subscriber.New(subscriber.Options{
		Host: host{c.Access, c.Memory, s}, Store: records, Admitted: c.Admitted, Cluster: processes, Durable: c.Store.Durable(), Guard: guard,
		Terms: o.Terms, Grace: o.Grace, Quota: o.Quota,
		Verify:   verify.Options{Limits: o.Verify, Allow: o.Allow, Identity: o.Identity, Telemetry: c.Telemetry},
		Delivery: o.Delivery, Reauthorize: c.Reauthorize, Log: c.Log, Saved: c.Saved,
	})
	if err != nil {
		guard.Close()
		return nil, err
	}
	return w, nil
}

// Join implements [part.Service].
func (s *Service) Join() error { return s.Processes.Join(s.Webhooks) }

// Shutdown implements [part.Service].
func (s *Service) Shutdown(ctx context.Context) error {
	err := s.Processes.Shutdown(ctx)
	if s.Webhooks != nil {
		err = errors.Join(err, s.Webhooks.Shutdown(ctx))
	}
	return err
}

// Ready implements [part.Service].
func (s *Service) Ready() error {
	if s.Webhooks != nil {
		if n := s.Webhooks.Restoring(); n > 0 {
			return fmt.Errorf("webhook subscriptions of %d event types are still being restored", n)
		}
	}
	return nil
}

// Touch implements [part.Service].
func (s *Service) Touch() {
	if s.Webhooks != nil {
		s.Webhooks.Get("")
		s.Webhooks.Delivering()
	}
}

// Status implements [part.Service].
func (s *Service) Status() (st part.Status, ok bool) {
	st.Fence, st.Owned, ok = s.Processes.Status()
	st.OutboxAge, st.LastLook = s.OutboxAge(), s.LastLook()
	return st, ok
}

// Changes implements [part.Service].
func (s *Service) Changes(old, now wire.Descriptor) (features []string, first string) {
	return evolve.Features(old, now)
}

// Note implements [part.Service]. The actor is this process.
func (s *Service) Note(ctx context.Context, event, outcome string) error {
	return s.Operators.Note(ctx, operator.AuditEntry{At: s.Now().UTC(), Actor: s.options.Name, Verb: "register", Event: event, Outcome: outcome})
}

// Restore implements [part.Service].
func (s *Service) Restore(ctx context.Context, et part.EventType, restored func()) error {
	if err := s.serve(et, restored); err != nil {
		return err
	}
	return s.Operators.Recall(ctx, et)
}

// serve starts deliveries to the webhook subscriptions of a type and calls restored after they have been restored.
func (s *Service) serve(et part.EventType, restored func()) error {
	if s.Webhooks == nil {
		restored()
		return nil
	}
	return s.Serve(et, restored)
}

// Reopen implements [part.Service].
func (s *Service) Reopen(ctx context.Context, et part.EventType) error {
	return s.Operators.Registered(ctx, et)
}

// Added implements [part.Service].
func (s *Service) Added(et part.EventType) {
	s.Hurry()
	s.RecallLater(et.Name())
}

// Redefined implements [part.Service].
func (s *Service) Redefined(et part.EventType) error {
	if s.Webhooks != nil {
		s.Webhooks.Redefined(et)
	}
	err := s.serve(et, func() {})
	s.Hurry()
	return err
}

// Removed implements [part.Service].
func (s *Service) Removed(et part.EventType) {
	s.Webhooks.Review(et)
	s.Hurry()
}

// Subscribe implements [part.Service] (SUB-1 to SUB-8).
func (s *Service) Subscribe(ctx context.Context, c *part.Subscribe) (json.RawMessage, error) {
	p, r := c.Params, c.Request
	q := &subscriber.Request{Type: c.Type, RawURL: p.Delivery.URL, Dialect: s.core.Dialect(r.DeclaresExtension),
		Replay: topic.ReplayOf(p.Cursor, p.MaxAgeMs), Head: c.Type.Head(), TTLMs: p.TTLMs, Forever: p.NoExpiry, Reply: r.AfterReply,
		Admitted: s.Webhooks.Position(), Expires: r.Until}
	if at := r.Expires; s.options.Webhooks.EndWithToken && !at.IsZero() && (q.Expires.IsZero() || at.Before(q.Expires)) {
		q.Expires = at
	}
	if err := s.Webhooks.Read(ctx, q, c.Definition, p); err != nil {
		return nil, err
	}
	if err := s.core.Access.Admit(ctx, r.Principal, q.Args); err != nil {
		return nil, err
	}
	var err error
	if q.Head, err = c.Type.Topic().Now(ctx, c.Definition.Kernel(), q.Head, q.Replay); err != nil {
		return nil, err
	}
	q.Sub = eventtype.Identify(wire.ModeWebhook, r.Principal, q.RawURL, q.Args)
	res, err := s.Webhooks.Subscribe(ctx, q)
	if err != nil {
		return nil, err
	}
	if r.Stateless {
		res.ResultType = wire.ResultComplete
	}
	return codec.Encode(res)
}

// Unsubscribe implements [part.Service].
func (s *Service) Unsubscribe(ctx context.Context, id string) (ok bool, err error) {
	if s.Webhooks == nil {
		return false, nil
	}
	ok, err = s.Webhooks.Remove(ctx, id)
	return ok || s.options.Webhooks.IdempotentUnsubscribe, err
}

// Each implements [part.Service].
func (s *Service) Each(f func(eventtype.Subscription)) {
	if s.Webhooks != nil {
		s.Webhooks.Each(func(*subscriber.Live) bool { return true }, func(h *subscriber.Live) { f(h.Identity()) })
	}
}

// Revoke implements [part.Service].
func (s *Service) Revoke(ctx context.Context, principal string, names []string) error {
	return s.Operators.Revoke(ctx, principal, names)
}

// Reauthorize implements [part.Service].
func (s *Service) Reauthorize(ctx context.Context, principal string, names []string) error {
	return s.Operators.Reauthorize(ctx, principal, names)
}

// RefreshVisibility implements [part.Service].
func (s *Service) RefreshVisibility(ctx context.Context) error {
	return s.Operators.RefreshVisibility(ctx)
}

// Admin implements [part.Service].
func (s *Service) Admin() operator.Admin {
	if !s.options.Operators {
		return nil
	}
	return s.Operators
}

// KeySet implements [part.Service].
func (s *Service) KeySet() http.Handler {
	if s.Webhooks == nil || s.options.Webhooks.Identity == nil {
		return http.NotFoundHandler()
	}
	return s.options.Webhooks.Identity
}
