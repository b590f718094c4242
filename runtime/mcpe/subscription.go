package mcpe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/cron"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A subscription is a client's subscription. Adapter.mu guards its fields unless noted otherwise.
type subscription struct {
	id    string
	owner *owner

	filter  mcpewire.Filter
	trying  *mcpewire.Filter // filter of an update in progress, followed in addition to filter
	plan    *plan
	handler *mcpewire.Handler
	status  string
	created time.Time
	updated time.Time
	// withdrawn lists types that the filter matches but the client may no longer receive, until it changes the filter.
	withdrawn []string

	expires time.Time          // zero for never
	session string             // that created it; "" in the stateless era
	server  *mcp.ServerSession // for handlers that use sampling
	told    bool               // the client was notified of the expiry
	telling bool               // that notification is in flight

	jobs  map[string]*job // by channel
	timer *time.Timer
	gone  bool

	// revealed is set once the client knows the id (MCPE-NOTE-3). Until then, early buffers events.
	revealed bool
	early    []mcpewire.Event

	delivering bool // from a queue
	handling   struct {
		busy    bool
		jobs    []handlerCall
		running []mcpewire.Event        // events of the current run
		stop    context.CancelCauseFunc // stops the current run
	}
}

// A record is the stored state of a subscription.
type record struct {
	Filter   mcpewire.Filter   `json:"filter"`
	Delivery mcpewire.Delivery `json:"delivery"`
	Handler  *mcpewire.Handler `json:"handler,omitempty"`
	Status   string            `json:"status"`
	Created  time.Time         `json:"created"`
	Updated  time.Time         `json:"updated"`
	Expires  time.Time         `json:"expires,omitzero"`
	Told     bool              `json:"told,omitempty"`
	// Withdrawn lists the types that were taken away (MCPE-AUTH-1).
	Withdrawn []string `json:"withdrawn,omitempty"`
}

// row returns the subscription's row in the store. The caller holds a.mu.
func (s *subscription) row() engine.Schedule {
	return engine.Schedule{ID: s.id, Owner: s.owner.principal, Record: encode(&record{Filter: s.filter, Delivery: s.plan.wire,
		Handler: s.handler, Status: s.status, Created: s.created, Updated: s.updated, Expires: s.expires, Told: s.told, Withdrawn: s.withdrawn})}
}

// toWire converts the subscription to the form used in tool results. The caller holds a.mu.
func (s *subscription) toWire() *mcpewire.Subscription {
	v := &mcpewire.Subscription{ID: s.id, SubscriptionID: s.id, ClientID: s.owner.clientID, Filter: s.filter, Delivery: s.plan.wire,
		Handler: s.handler, Status: s.status, CreatedAt: stamp(s.created), UpdatedAt: stamp(s.updated)}
	if !s.expires.IsZero() {
		v.ExpiresAt = stamp(s.expires)
	}
	for _, event := range s.withdrawn {
		v.Warnings = append(v.Warnings, "You may no longer receive "+event+".")
	}
	return v
}

// stopTimer stops the timer for the next run or expiry. The caller holds a.mu.
func (s *subscription) stopTimer() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// setPlan replaces the subscription's schedules. Jobs of remaining channels keep their state. setPlan returns the rows
// to write and the keys to delete. The caller holds a.mu.
func (s *subscription) setPlan(p *plan, now time.Time) (put []engine.Schedule, drop []string) {
	old := s.jobs
	s.plan, s.jobs = p, map[string]*job{}
	for _, channel := range []string{wire.MCPECron, wire.MCPEScheduled} {
		was := old[channel]
		if !p.has(channel) {
			if was != nil {
				drop = append(drop, was.key)
			}
			continue
		}
		j := &job{channel: channel, key: s.id + "/" + channel}
		if was != nil {
			j.handled, j.due = was.handled, was.due
		}
		if channel == wire.MCPECron {
			j.next = p.cron.Next(now, p.zone)
		} else {
			j.next = p.at
		}
		s.jobs[channel] = j
		put = append(put, j.row(s))
	}
	return put, drop
}

// save writes the rows in put and deletes the keys in drop.
func (a *Adapter) save(ctx context.Context, o *owner, put []engine.Schedule, drop []string) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	st := a.storeOf(o)
	for _, row := range put {
		if err := st.PutSchedule(ctx, row); err != nil {
			return fmt.Errorf("storing subscription: %w", err)
		}
	}
	for _, key := range drop {
		if err := st.DeleteSchedule(ctx, key); err != nil {
			return fmt.Errorf("removing from store: %w", err)
		}
	}
	return nil
}

// remove deletes a subscription and its queues.
func (a *Adapter) remove(ctx context.Context, s *subscription) error {
	a.mu.Lock()
	if s.gone {
		a.mu.Unlock()
		return nil
	}
	s.gone = true
	s.stopTimer()
	s.handling.jobs = nil
	delete(a.subs, s.id)
	delete(s.owner.subs, s.id)
	drop := []string{s.id}
	for _, j := range s.jobs {
		drop = append(drop, j.key)
	}
	principal := s.owner.principal
	a.mu.Unlock()
	a.runInBackground(func() { a.reconcile(a.ctx, principal, nil) })
	return a.save(ctx, s.owner, nil, drop)
}

// restore loads the subscriptions of principals from the store.
func (a *Adapter) restore(ctx context.Context) error {
	rows := map[string]engine.Schedule{}
	for after := ""; ; {
		page, err := a.durable.Schedules(ctx, after, 500)
		if err != nil {
			return err
		}
		for _, row := range page {
			rows[row.ID] = row
			after = row.ID
		}
		if len(page) == 0 {
			break
		}
	}
	for id, row := range rows {
		if strings.Contains(id, "/") || row.Owner == "" {
			continue
		}
		if err := a.restoreOne(row, rows); err != nil {
			a.o.Logger.Error("mcpe: a stored subscription is unusable", "subscription", id, "error", err)
		}
	}
	return nil
}

func (a *Adapter) restoreOne(row engine.Schedule, rows map[string]engine.Schedule) error {
	var r record
	if err := json.Unmarshal(row.Record, &r); err != nil {
		return err
	}
	p := &plan{wire: r.Delivery}
	if c := r.Delivery.CronSchedule; c != nil && p.has(wire.MCPECron) {
		var err error
		if p.cron, err = cron.Parse(c.Expression); err != nil {
			return err
		}
		if p.zone, err = time.LoadLocation(c.Timezone); err != nil {
			return err
		}
	}
	if c := r.Delivery.ScheduledDelivery; c != nil && p.has(wire.MCPEScheduled) {
		at, err := time.Parse(time.RFC3339Nano, c.DeliverAt)
		if err != nil {
			return err
		}
		p.at = at
	}
	if p.has(wire.MCPECron) && p.cron == nil || p.has(wire.MCPEScheduled) && p.at.IsZero() {
		return errors.New("a channel without its schedule")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.principalOwner(row.Owner)
	s := &subscription{id: row.ID, owner: o, filter: r.Filter, handler: r.Handler, status: r.Status, created: r.Created,
		updated: r.Updated, expires: r.Expires, told: r.Told, withdrawn: r.Withdrawn, revealed: true}
	s.setPlan(p, time.Now())
	for _, j := range s.jobs {
		if kept, ok := rows[j.key]; ok {
			j.load(kept)
		}
	}
	a.subs[s.id], o.subs[s.id] = s, s
	return nil
}

// resumeAll starts the timers and followers of the restored subscriptions.
func (a *Adapter) resumeAll() {
	a.mu.Lock()
	principals := map[string]bool{}
	for _, o := range a.owners {
		principals[o.principal] = true
	}
	for _, s := range a.subs {
		a.armLocked(s)
	}
	a.mu.Unlock()
	for p := range principals {
		a.runInBackground(func() { a.reconcile(a.ctx, p, nil) })
	}
}

func rowsOf(rows ...engine.Schedule) []engine.Schedule { return rows }
