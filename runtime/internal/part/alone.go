package part

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Alone is the [Service] of a server without parts. Its store belongs to this process.
type Alone struct{ Core *Core }

func (a Alone) Join() error                                            { return nil }
func (a Alone) Shutdown(context.Context) error                         { return nil }
func (a Alone) Now() time.Time                                         { return time.Now() }
func (a Alone) Refresh(context.Context)                                {}
func (a Alone) Heard() bool                                            { return true }
func (a Alone) Ready() error                                           { return nil }
func (a Alone) Touch()                                                 {}
func (a Alone) Status() (Status, bool)                                 { return Status{}, false }
func (a Alone) Reopen(context.Context, EventType) error                { return nil }
func (a Alone) Added(EventType)                                        {}
func (a Alone) Redefined(EventType) error                              { return nil }
func (a Alone) Removed(EventType)                                      {}
func (a Alone) KeySet() http.Handler                                   { return http.NotFoundHandler() }
func (a Alone) Unsubscribe(context.Context, string) (ok bool, _ error) { return false, nil }
func (a Alone) Each(func(eventtype.Subscription))                      {}
func (a Alone) Admin() operator.Admin                                  { return nil }

// Changes implements [Service]. Each difference counts, unless the store can tell which ones are compatible.
func (a Alone) Changes(old, now wire.Descriptor) (features []string, first string) {
	if c, ok := a.Core.Store.(engine.SchemaComparer); ok {
		return c.IncompatibleFeatures(schemasOf(old), schemasOf(now))
	}
	if !bytes.Equal(old.InputSchema, now.InputSchema) {
		features = append(features, fault.FeatureInput)
	}
	if !bytes.Equal(old.PayloadSchema, now.PayloadSchema) {
		features = append(features, fault.FeaturePayload)
	}
	if len(features) > 0 {
		first = features[0] + ": differs"
	}
	return features, first
}

// Note implements [Service]. A server without operators has no audit log.
func (a Alone) Note(context.Context, string, string) error { return nil }

func schemasOf(d wire.Descriptor) engine.SchemaVersion {
	return engine.SchemaVersion{InputSchema: d.InputSchema, PayloadSchema: d.PayloadSchema}
}

// Restore implements [Service].
func (a Alone) Restore(_ context.Context, _ EventType, restored func()) error {
	restored()
	return nil
}

// Subscribe implements [Service]. No type offers webhooks, so the server refuses all requests before.
func (a Alone) Subscribe(_ context.Context, s *Subscribe) (json.RawMessage, error) {
	return nil, fault.UnsupportedMode(s.Params.Delivery.Mode)
}

// connections returns the open streams and the pollers between two polls.
func (a Alone) connections() (all []Connection) {
	for _, l := range a.Core.Leases.All() {
		all = append(all, l)
	}
	for _, st := range a.Core.Streams.All() {
		all = append(all, st)
	}
	return all
}

// Revoke implements [Service].
func (a Alone) Revoke(ctx context.Context, principal string, names []string) error {
	a.Core.Leases.Deciding()
	Revoke(ctx, a.connections(), principal, names)
	return nil
}

// Reauthorize implements [Service].
func (a Alone) Reauthorize(ctx context.Context, principal string, names []string) error {
	a.Core.Leases.Deciding()
	Recheck(ctx, a.connections(), func(c Connection) bool { return Belongs(c, principal, names) })
	return nil
}

// RefreshVisibility implements [Service].
func (a Alone) RefreshVisibility(ctx context.Context) error {
	a.Core.Leases.Deciding()
	Hide(a.connections(), func(principal, event string) bool { return a.Core.Access.IsHidden(ctx, principal, event) })
	a.Core.Types.ListChanged()
	return nil
}
