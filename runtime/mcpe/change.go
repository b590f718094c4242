package mcpe

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// statusResult is the result of a pause or resume tool call.
type statusResult struct {
	Success        bool   `json:"success"`
	Status         string `json:"status"`
	SubscriptionID string `json:"subscriptionId"`
}

func (a *Adapter) pause(ctx context.Context, c *call) (any, *refusal) {
	return a.setStatus(ctx, c, wire.MCPEPaused)
}

func (a *Adapter) resume(ctx context.Context, c *call) (any, *refusal) {
	return a.setStatus(ctx, c, wire.MCPEActive)
}

func (a *Adapter) setStatus(ctx context.Context, c *call, status string) (any, *refusal) {
	a.mu.Lock()
	s, err := a.findUnexpired(c)
	if err == nil && status == wire.MCPEActive && s.status != status && c.owner.countActive() >= a.o.MaxActive {
		err = a.limitReached()
	}
	if err != nil {
		a.mu.Unlock()
		return nil, err
	}
	changed := s.status != status
	if changed {
		s.status, s.updated = status, time.Now()
	}
	row := s.row()
	filter := s.filter
	a.mu.Unlock()
	if changed {
		if err := a.save(ctx, c.owner, rowsOf(row), nil); err != nil {
			return nil, a.internal("storing a subscription", err)
		}
		if status == wire.MCPEActive {
			if _, err := a.watchFor(ctx, s, &filter); err != nil {
				a.mu.Lock()
				s.status = wire.MCPEPaused
				row := s.row()
				a.mu.Unlock()
				if err := a.save(ctx, c.owner, rowsOf(row), nil); err != nil {
					return nil, a.internal("storing a subscription", err)
				}
				return nil, err
			}
		} else {
			a.runInBackground(func() { _ = a.reconcile(a.ctx, c.owner.principal, nil) })
		}
		a.mu.Lock()
		a.armLocked(s)
		if status == wire.MCPEActive {
			a.flushLocked(c.owner)
		}
		a.mu.Unlock()
	}
	return &statusResult{true, status, s.id}, nil
}

// findUnexpired returns the subscription that a call specifies. It returns an error if the subscription has expired.
// The caller holds a.mu.
func (a *Adapter) findUnexpired(c *call) (*subscription, *refusal) {
	s, err := a.findSubscription(c)
	if err == nil && s.status == wire.MCPEExpired {
		err = refuse(mcpewire.CodeInvalidParams, "subscriptionId: the subscription has expired; create a new one.")
	}
	return s, err
}

func (a *Adapter) update(ctx context.Context, c *call) (any, *refusal) {
	from := c.args
	if raw := c.args.get("updates"); raw != nil {
		var err *refusal
		if from, err = parseObject("updates", raw); err != nil {
			return nil, err
		}
	}
	ch, err := a.parseChange(from, c.caller.Local)
	if err != nil {
		return nil, err
	}
	// Follow the types of the new filter before changing anything, so that a refusal leaves the subscription
	// unchanged.
	a.mu.Lock()
	s, err := a.findUnexpired(c)
	if err != nil {
		a.mu.Unlock()
		return nil, err
	}
	filter, active := s.filter, s.status == wire.MCPEActive
	if ch.filter != nil {
		filter = *ch.filter
		s.trying = ch.filter
	}
	a.mu.Unlock()
	var warnings []string
	if active {
		warnings, err = a.watchFor(ctx, s, &filter)
	}
	a.mu.Lock()
	s.trying = nil
	if err == nil {
		_, err = a.findUnexpired(c) // it may have ended in the meantime
	}
	if err != nil {
		a.mu.Unlock()
		a.runInBackground(func() { _ = a.reconcile(a.ctx, c.owner.principal, nil) })
		return nil, err
	}
	now := time.Now()
	s.updated = now
	if ch.filter != nil {
		s.filter, s.withdrawn = *ch.filter, nil
	}
	if ch.handler != nil || ch.dropHandler {
		s.handler = ch.handler
	}
	if !ch.expires.IsZero() || ch.dropExpiry {
		s.expires = ch.expires
	}
	rows, drop := rowsOf(), []string(nil)
	if ch.plan != nil {
		rows, drop = s.setPlan(ch.plan, now)
	}
	rows = append(rows, s.row())
	a.mu.Unlock()
	if err := a.save(ctx, c.owner, rows, drop); err != nil {
		return nil, a.internal("storing a subscription", err)
	}
	if active { // close unneeded followers, and store the cursors of types that now have a queue
		_ = a.reconcile(ctx, c.owner.principal, nil)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c.caller.AfterReply(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.armLocked(s)
	})
	view := s.toWire()
	view.Warnings = append(view.Warnings, warnings...)
	return view, nil
}
