package operate

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// maxReported is the maximum number of connections in a report.
	maxReported = 100
	// maxReportAge is the age from which the figures of a report are missing.
	maxReportAge = 10 * time.Second
	// lookTime is the timeout for reading the processes, so a console answers even if the store does not.
	lookTime = time.Second
)

// A report contains the figures of a process. Each process stores its report with its lease.
type report struct {
	At      time.Time             `json:"at"`
	Sending int                   `json:"sending,omitempty"` // attempts in flight
	Outbox  *time.Duration        `json:"outbox,omitempty"`  // age of its oldest occurrence; nil if another process owns it
	Types   map[string]typeReport `json:"types,omitempty"`
	// Connections are the latest connections. Unlisted is the number of the others.
	Connections []operator.Connection `json:"connections,omitempty"`
	Unlisted    int                   `json:"unlisted,omitempty"`
}

// A typeReport contains the figures of an event type. Behind is the lag of the slowest stream or webhook subscription.
type typeReport struct {
	Streams  int   `json:"streams,omitempty"`
	Pollers  int   `json:"pollers,omitempty"`
	Webhooks int   `json:"webhooks,omitempty"`
	Behind   int64 `json:"behind,omitempty"`
	// Abandoned is the number of occurrences that were abandoned in the last hour.
	Abandoned int `json:"abandoned,omitempty"`
}

// Report returns the figures of this process, to be stored with its lease.
func (a *Admin) Report() json.RawMessage {
	r := a.report()
	if over := len(r.Connections) - maxReported; over > 0 {
		r.Connections, r.Unlisted = r.Connections[over:], over
	}
	b, err := json.Marshal(r)
	if err != nil {
		a.o.Log.Internal(context.Background(), "writing a report", err)
	}
	return b
}

// report returns the figures and all connections of this process, the oldest connection first.
func (a *Admin) report() report {
	r := report{At: a.o.Now(), Types: map[string]typeReport{}, Connections: a.describeConnections()}
	for _, c := range r.Connections {
		t := r.Types[c.Event]
		if c.Mode == wire.ModePoll {
			t.Pollers++
		} else if t.Streams++; c.Behind != nil {
			t.Behind = max(t.Behind, *c.Behind)
		}
		r.Types[c.Event] = t
	}
	if _, owned, _ := a.o.Processes.Status(); owned[engine.OutboxTopic] > 0 {
		age := a.o.Processes.OutboxAge()
		r.Outbox = &age
	}
	if a.o.Webhooks != nil {
		c := a.o.Webhooks.Census()
		r.Sending = c.InFlight
		for event, n := range c.Types {
			t := r.Types[event]
			t.Webhooks, t.Behind, t.Abandoned = n, max(t.Behind, c.Lag[event]), c.Abandoned[event]
			r.Types[event] = t
		}
	}
	return r
}

// figures adds up the figures of all event types.
func (r *report) figures() *operator.Figures {
	f := operator.Figures{Sending: r.Sending}
	for _, t := range r.Types {
		f.Streams += t.Streams
		f.Pollers += t.Pollers
		f.Webhooks += t.Webhooks
	}
	return &f
}

// A replica is a process as described by its lease.
type replica struct {
	engine.Replica
	this   bool
	report report
	// missing explains why the report is missing or too old. It is "" if its figures are valid.
	missing string
}

// A membership contains the processes that share the store, and the owners of the shards. It is a snapshot.
type membership struct {
	shared bool // the store can have several processes
	engine.Cluster
	replicas []*replica
	byFence  map[uint64]*replica
	owners   map[engine.Shard]*replica
	err      error // the processes could not be read
}

// reports is like members, and includes the report of this process.
func (a *Admin) reports(ctx context.Context) *membership {
	m := a.members(ctx)
	for _, p := range m.replicas {
		if p.this {
			p.report = a.report()
		}
	}
	return m
}

// members reads the processes that share the store, with the reports of the other ones.
func (a *Admin) members(ctx context.Context) *membership {
	m := &membership{byFence: map[uint64]*replica{}, owners: map[engine.Shard]*replica{}}
	shared, ok := a.o.Store.(engine.Shared)
	if m.shared = ok; ok {
		ctx, cancel := context.WithTimeout(ctx, lookTime)
		defer cancel()
		m.Cluster, m.err = shared.Cluster(ctx)
	}
	own, _, _ := a.o.Processes.Status()
	now := a.o.Now()
	for _, r := range m.Replicas {
		p := &replica{Replica: r, this: r.Fence == own}
		switch {
		case p.this:
			p.report.At = now
		case len(r.Report) == 0 || json.Unmarshal(r.Report, &p.report) != nil:
			p.missing = r.Name + " has not written its figures."
		case now.Sub(p.report.At) >= maxReportAge:
			p.missing = r.Name + " has not written its figures since " + formatUTC(p.report.At) + "."
		}
		m.replicas, m.byFence[r.Fence] = append(m.replicas, p), p
	}
	if m.byFence[own] == nil { // it is alone, or it has lost its lease
		m.replicas = append(m.replicas, &replica{this: true})
	}
	for _, h := range m.Shards {
		if p := m.byFence[h.Fence]; p != nil {
			m.owners[h.Shard] = p
		}
	}
	return m
}

// freshness returns the age of the figures of the other processes.
func (m *membership) freshness() (f operator.Freshness) {
	if m.err != nil {
		f.Missing = append(f.Missing, "The processes that share the store cannot be read, so their figures are missing.")
	}
	for _, p := range m.replicas {
		switch {
		case p.missing != "":
			f.Missing = append(f.Missing, p.missing)
		case !p.this && (f.AsOf.IsZero() || p.report.At.Before(f.AsOf)):
			f.AsOf = p.report.At
		}
	}
	return f
}

func (a *Admin) Freshness(ctx context.Context) operator.Freshness { return a.members(ctx).freshness() }

// addOwner sets the owner of a subscription, the time of its figures, and why they are missing.
func (m *membership) addOwner(s *subscriptionView) {
	r := s.record
	p := m.owners[engine.Shard{Topic: r.Event, Number: r.Shard}]
	switch {
	case !m.shared: // its figures are current
	case m.err != nil:
		s.Owner, s.AsOf, s.Missing = s.report.Owner, s.report.At, "The process that delivers to it cannot be read."
	case p == nil:
		s.Owner, s.AsOf, s.Missing = s.report.Owner, s.report.At, "No process delivers to it now."
	default:
		s.Owner, s.AsOf, s.Missing = p.Name, p.report.At, p.missing
	}
}
