package ledgertest

import (
	"context"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// epoch is that of the log that owners deliver from.
const epoch = 7

// An owner delivers to the subscriptions of the shard, as the runtime does: it makes what runs match the records.
type owner struct {
	p          *process
	records    *ledger.Owned
	mark       engine.Mark
	checkpoint ledger.Checkpoint
	live       map[string]*delivery
}

// A delivery is a subscription that entries are delivered to.
type delivery struct {
	ledger.State
	dirty bool // the status differs from the stored one
}

// takeOver claims the shard and begins delivery.
func (p *process) takeOver(ctx context.Context) (*owner, error) {
	now, err := p.Engine().Changes(ctx, "", 0)
	if err != nil {
		return nil, err
	}
	hold, err := p.claim(ctx)
	if err != nil {
		return nil, err
	}
	o := &owner{p: p, records: p.Own(hold), mark: now.Next, live: map[string]*delivery{}}
	if o.checkpoint, err = o.records.Checkpoint(ctx); err != nil {
		return nil, err
	}
	err = o.records.Each(ctx, func(states []ledger.State) error {
		for _, s := range states {
			if err := o.reconcile(ctx, s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return o, o.follow(ctx)
}

// follow obeys the changes that were reported since the last time.
func (o *owner) follow(ctx context.Context) error {
	c, err := o.p.Engine().Changes(ctx, o.mark, 0)
	if err != nil {
		return err
	}
	var ids []string
	for _, name := range c.Names {
		switch change := ledger.ParseChange(name); change.Kind {
		case ledger.SubscriptionChanged:
			if (ledger.Shard{Topic: change.Topic, Number: change.Number}) == o.records.Hold().Shard {
				ids = append(ids, change.ID)
			}
		case ledger.PrincipalRevoked:
			for id, d := range o.live {
				if change.Revokes(d.Principal) {
					ids = append(ids, id)
				}
			}
		}
	}
	for _, id := range ids {
		if err := o.reread(ctx, id); err != nil {
			return err
		}
	}
	o.mark = c.Next
	return nil
}

// reread reads a subscription and makes its delivery match it.
func (o *owner) reread(ctx context.Context, id string) error {
	states, err := o.records.States(ctx, id)
	if err != nil {
		return err
	}
	if len(states) == 0 {
		delete(o.live, id)
		return nil
	}
	return o.reconcile(ctx, states[0])
}

// reconcile makes the delivery match the records of a subscription.
func (o *owner) reconcile(ctx context.Context, s ledger.State) error {
	if s.Unreadable != "" {
		delete(o.live, s.ID)
		if s.Status.Progress.Open {
			return nil
		}
		status := s.Status
		status.Progress = store.Progress{Epoch: epoch, Base: o.checkpoint.Position, Open: true}
		_, err := o.records.SaveProgress(ctx, []ledger.Update{{ID: s.ID, Status: status}}, nil)
		return err
	}
	now, err := o.p.Engine().Clock(ctx)
	if err != nil {
		return err
	}
	revoked, err := o.p.Revoked(ctx, s.Principal)
	if err != nil {
		return err
	}
	if reason, over := ledger.Over(&s.Subscription, revoked[s.Principal], now); over {
		return o.end(ctx, s, reason)
	}
	d := o.live[s.ID]
	if d == nil || d.Generation != s.Generation {
		d = &delivery{State: s}
		if p := &d.Status.Progress; !p.Open && p.Epoch == o.checkpoint.Epoch {
			p.Base = max(p.Base, o.checkpoint.Position)
		}
		o.live[s.ID] = d
	}
	d.Subscription = s.Subscription
	if r := s.Rewind; r != nil && r.Number != d.Status.Rewound { // stored together, so a crash repeats all or nothing
		p := &d.Status.Progress
		d.Status.Rewound, p.Base, p.Open, d.dirty = r.Number, min(p.Base, r.To), true, true
	}
	return nil
}

// end ends a subscription that is over, notifies its endpoint and removes it.
func (o *owner) end(ctx context.Context, s ledger.State, reason *wire.ErrorObject) error {
	delete(o.live, s.ID)
	if s.Ended == nil {
		if ended, err := o.records.End(ctx, s, reason); err != nil || !ended {
			return err // it has changed: Changes reports it
		}
	}
	if reason == nil {
		return nil
	}
	o.p.told[s.ID] = reason.Code
	return o.records.Remove(ctx, s.ID, s.Generation)
}

// match records that the entry after a position matches a subscription.
func (o *owner) match(id string, after store.Position) {
	if d := o.live[id]; !d.Status.Progress.Open {
		d.Status.Progress = store.Progress{Epoch: epoch, Base: after, Open: true}
		d.dirty = true
	}
}

// settle records that everything up to a position was delivered.
func (o *owner) settle(to store.Position) {
	for _, d := range o.live {
		if d.Status.Progress.Open {
			d.Status.Progress = store.Progress{Epoch: epoch, Base: to}
			d.dirty = true
		}
	}
}

// save stores what has changed, and the checkpoint. Subscriptions without a match are not written.
func (o *owner) save(ctx context.Context, to store.Position) error {
	var updates []ledger.Update
	for id, d := range o.live {
		if d.dirty {
			updates = append(updates, ledger.Update{ID: id, Status: d.Status})
		}
	}
	gone, err := o.records.SaveProgress(ctx, updates, &ledger.Checkpoint{Epoch: epoch, Position: to})
	if err != nil {
		return fmt.Errorf("saving up to %d: %w", to, err)
	}
	o.checkpoint = ledger.Checkpoint{Epoch: epoch, Position: to}
	for _, u := range updates {
		o.live[u.ID].dirty = false
	}
	for _, id := range gone {
		if err := o.reread(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// base returns after which position delivery to a subscription goes on, and whether there is a delivery.
func (o *owner) base(id string) (store.Position, bool) {
	d := o.live[id]
	if d == nil {
		return 0, false
	}
	return d.Status.Progress.Base, true
}
