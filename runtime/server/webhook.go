package server

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/access"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/history"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/verify"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// newWebhooks loads the stored webhook subscriptions. If an option is invalid, the error contains its name.
func newWebhooks(s *Server) (*subscriber.Subscriptions, error) {
	st := s.options.Store
	o, err := s.options.Webhook.withDefaults(st)
	if err != nil {
		return nil, err
	}
	records, cluster, err := s.cluster.Records(context.Background())
	if err != nil {
		return nil, err
	}
	guard, err := netguard.New(netguard.Options(o.Callbacks))
	if err != nil {
		return nil, err
	}
	deliveries := o.Retry.engineOptions(s.options.Logger, s.options.Meter, s.options.Tracer)
	deliveries.Identity = o.Identity
	s.options.Webhook = &o
	if attempts, n := s.attemptStore(); n > 0 {
		deliveries.Attempts, deliveries.AttemptBounds = attempts, engine.AttemptBounds(o.Attempts)
	}
	w, err := subscriber.New(subscriber.Options{
		Host: webhookHost{s.access, s}, Store: records, Admitted: s.writes.recordResult, Cluster: cluster, Durable: st.Durable(), Guard: guard,
		Terms: o.subscriptionTerms(), Grace: o.Grace, Quota: subscriber.Quota(o.Quota),
		Verify:   verify.Options{Limits: verify.Limits(o.Verify), Allow: o.AllowReceivers, Identity: o.Identity, Meter: s.options.meter()},
		Delivery: deliveries, Reauthorize: s.options.Reauthorize, Log: &s.log,
		Saved: s.newProgressRecorder(),
	})
	if err != nil {
		guard.Close()
		return nil, err
	}
	return w, nil
}

// attemptStore returns the store of delivery attempts and the number of attempts to keep per subscription. It returns
// nil and 0 if attempts are not kept.
func (s *Server) attemptStore() (engine.Attempts, int) {
	kept, ok := s.options.Store.(engine.Attempts)
	if n := s.options.Webhook.Attempts.PerSubscription; ok && n > 0 {
		return kept, n
	}
	return nil, 0
}

// restore resumes the stored webhook subscriptions to a newly registered type. It ends them if the type's schemas
// changed incompatibly while no server was running (SUB-11, EVOL-2).
func (s *Server) restore(et *eventType, d *definition, m *history.Recollection) error {
	done := func() { s.saveSchemas(d, m) }
	if s.webhooks == nil {
		done()
		return nil
	}
	return s.cluster.Serve(et, done)
}

// loadHistory compares d with the stored schemas of the type and records an incompatible change in d. No other
// goroutine may access d until loadHistory returns.
func (s *Server) loadHistory(d *definition, t *topic.Topic) (*history.Recollection, error) {
	m, err := s.history.Recall(context.Background(), d.descriptor(), t)
	d.changed = m.Changed
	return m, err
}

// saveSchemas saves the schemas of d to the store.
func (s *Server) saveSchemas(d *definition, m *history.Recollection) {
	ctx, cancel := context.WithTimeout(context.Background(), hookTimeout)
	defer cancel()
	if err := m.Commit(ctx); err != nil {
		s.log.Internal(ctx, "saving the schemas of "+d.info.Name, err)
	}
}

// A webhookHost adapts the server to [subscriber.Host].
type webhookHost struct {
	*access.Gate
	s *Server
}

func (h webhookHost) Type(event string) (eventtype.Type, bool) {
	et := h.s.eventType(event)
	return et, et != nil
}

func (h webhookHost) Join(ctx context.Context, sub eventtype.Subscription, a eventtype.Arguments) error {
	return h.s.members.Join(ctx, sub, a)
}

func (h webhookHost) Leave(sub eventtype.Subscription, a eventtype.Arguments) {
	h.s.members.Leave(sub, a)
}

func (h webhookHost) Release(sub eventtype.Subscription, a eventtype.Arguments) {
	h.s.members.Release(sub, a)
}

func (h webhookHost) Take(principal string, n int) error { return h.s.memoryUsage.charge(principal, n) }
func (h webhookHost) Keep(principal string, n int)       { h.s.memoryUsage.chargeRestored(principal, n) }
func (h webhookHost) Give(principal string, n int)       { h.s.memoryUsage.refund(principal, n) }

// Name implements [eventtype.Type].
func (et *eventType) Name() string { return et.name }

func (et *eventType) Current() eventtype.Definition {
	if d := et.current(); d != nil {
		return d
	}
	return nil
}

func (et *eventType) Feeds() *feed.Feeds { return &et.feeds }

// Kernel implements [eventtype.Definition].
func (d *definition) Kernel() *topic.Type { return &d.Type }

func (d *definition) Check() *feed.Check { return d.check }

func (d *definition) Webhooks() bool { return d.hooked }

func (d *definition) Changed() string { return d.changed }

// Fingerprint identifies the definition's schemas. See EVOL-4.
func (d *definition) Fingerprint() string {
	text, _ := d.meta[wire.MetaFingerprint].(string)
	return text
}

// anyWebhook is a filter that matches every webhook subscription.
func anyWebhook(*subscriber.Live) bool { return true }
