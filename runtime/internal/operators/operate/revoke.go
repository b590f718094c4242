package operate

import (
	"cmp"
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/part"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
)

func (a *Admin) RevokePrincipal(ctx context.Context, principal string, names ...string) (int, error) {
	ids := map[string]bool{}
	for _, c := range a.allConnections() {
		if part.Belongs(c, principal, names) {
			ids[c.Info().Subscription] = true
		}
	}
	if w := a.o.Webhooks; w != nil {
		w.Each(subscriber.OfPrincipal(principal, names), func(h *subscriber.Live) { ids[h.ID()] = true })
	}
	return len(ids), a.Revoke(ctx, principal, names)
}

// Revoke ends the principal's live subscriptions in all processes (AUTH-2).
func (a *Admin) Revoke(ctx context.Context, principal string, names []string) error {
	o := orders.Order{Kind: orders.Revoke, Principal: principal, Names: names}
	a.revokeConnected(ctx, principal, names)
	if w := a.o.Webhooks; w != nil { // do not wait for the store: end all that is live here
		o.At = w.Position().Next()
		w.NoteRevoked(revocationOf(&o))
		a.revokeWebhooks(ctx, subscriber.OfPrincipal(principal, names))
	}
	var err error
	if o.At, err = a.o.Processes.Request(ctx); err != nil {
		return wrapError("revoking", err)
	}
	a.executeRevocation(ctx, &o) // it covers what this process has restored meanwhile
	return wrapError("revoking", a.o.Processes.Tell(ctx, o))
}

func (a *Admin) revokeConnected(ctx context.Context, principal string, names []string) {
	a.o.Host.Deciding()
	part.Revoke(ctx, a.allConnections(), principal, names)
}

// executeRevocation ends the webhook subscriptions that a revoke order covers. They include subscriptions that become
// live later.
func (a *Admin) executeRevocation(ctx context.Context, o *orders.Order) {
	if w := a.o.Webhooks; w != nil {
		v := revocationOf(o)
		w.NoteRevoked(v)
		a.revokeWebhooks(ctx, v.Ends)
	}
}

// revokeWebhooks ends the selected webhook subscriptions.
func (a *Admin) revokeWebhooks(ctx context.Context, which func(*subscriber.Live) bool) {
	a.o.Webhooks.Each(which, func(h *subscriber.Live) {
		a.o.Webhooks.End(h, cmp.Or(a.o.Host.Refused(ctx, h.Principal(), h.Arguments()), fault.Revoked()))
	})
}

// Reauthorize calls the author's hooks for the principal's live subscriptions in all processes (AUTH-2).
func (a *Admin) Reauthorize(ctx context.Context, principal string, names []string) error {
	a.reauthorize(ctx, principal, names)
	return wrapError("checking again", a.o.Processes.Tell(ctx, orders.Order{Kind: orders.Recheck, Principal: principal, Names: names}))
}

func (a *Admin) reauthorize(ctx context.Context, principal string, names []string) {
	a.recheckSelected(ctx, func(c Connection) bool { return part.Belongs(c, principal, names) }, subscriber.OfPrincipal(principal, names))
}

// recheckSelected calls the author's hooks for the selected subscriptions and ends the subscriptions that the hooks
// refuse.
func (a *Admin) recheckSelected(ctx context.Context, pick func(Connection) bool, which func(*subscriber.Live) bool) {
	a.o.Host.Deciding()
	part.Recheck(ctx, a.allConnections(), pick)
	if w := a.o.Webhooks; w != nil {
		w.Each(which, func(h *subscriber.Live) { w.Recheck(ctx, h) })
	}
}

// RefreshVisibility calls the Visible hook for all live subscriptions in all processes (LIST-4).
func (a *Admin) RefreshVisibility(ctx context.Context) error {
	a.refreshVisibility(ctx)
	return wrapError("refreshing what is visible", a.o.Processes.Tell(ctx, orders.Order{Kind: orders.Visibility}))
}

func (a *Admin) refreshVisibility(ctx context.Context) {
	hidden := func(principal, event string) bool { return a.o.Host.IsHidden(ctx, principal, event) }
	a.o.Host.Deciding()
	part.Hide(a.allConnections(), hidden)
	if w := a.o.Webhooks; w != nil {
		w.Each(anyWebhook, func(h *subscriber.Live) {
			if hidden(h.Principal(), h.Type().Name()) {
				w.End(h, fault.NotFound("event"))
			}
		})
	}
	a.o.Host.ListChanged()
}
