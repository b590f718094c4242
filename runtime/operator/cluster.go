package operator

import "time"

// A Cluster is the state of the processes that share a store, as seen by one of them.
type Cluster struct {
	// Replicas lists the processes with a current lease, in the order in which the leases began. It is empty if they
	// cannot be read; see Missing.
	Replicas []Replica `json:"replicas"`
	// Leased reports whether this process holds its lease. Without a lease, it does not deliver.
	Leased bool `json:"leased"`
	// Unowned counts the shards that are not owned by a replica. The keys are event types, "/outbox" and "/retention".
	Unowned map[string]int `json:"unowned"`
	// Generation is incremented each time the store's logs begin new epochs.
	Generation uint64 `json:"generation"`
	// HeardAt is the time when this process last read all operator requests from other processes. It is zero if that
	// has not happened.
	HeardAt time.Time `json:"heardAt,omitzero"`
	// Freshness tells how recent the figures of the other replicas are.
	Freshness `json:"-"`
	// OutboxAge is how long the oldest occurrence has been in the outbox. While the outbox cannot be read, it is the
	// longest time that an occurrence may have waited there. It is nil if the figures of the outbox's owner are missing.
	OutboxAge *time.Duration `json:"-"`
	// Conflicts lists the event types with webhooks for which replicas serve incompatible schemas.
	Conflicts []SchemaConflict `json:"conflicts,omitempty"`
}

// A SchemaConflict reports that replicas serve incompatible schemas of an event type. See REP-16.
type SchemaConflict struct {
	Event string `json:"event"`
	// Change is the first incompatible change, such as "payloadSchema/properties/title: field removed or renamed".
	Change string `json:"change"`
	// Older and Newer are the names of the replicas that serve the older and the newer schemas.
	Older []string `json:"older"`
	Newer []string `json:"newer"`
}

// A Replica is a process of a [Cluster].
type Replica struct {
	Name string `json:"name"`
	// This is true for the process that returned the Cluster.
	This bool `json:"this,omitempty"`
	// Shards counts the shards that the replica owns, with the same keys as Cluster.Unowned.
	Shards map[string]int `json:"shards"`
	// ReportedAt is when the replica wrote its figures. Figures is nil if it has written none in the last 10 seconds.
	ReportedAt time.Time `json:"reportedAt,omitzero"`
	Figures    *Figures  `json:"figures,omitempty"`
}

// Figures counts the connections, live webhook subscriptions and attempts in flight of a [Replica].
type Figures struct {
	Streams  int `json:"streams"`
	Pollers  int `json:"pollers"`
	Webhooks int `json:"webhooks"`
	Sending  int `json:"sending"`
}

// Freshness tells how recent the figures of other processes are.
type Freshness struct {
	// AsOf is the time of the oldest figure. It is zero without another process.
	AsOf time.Time `json:"asOf,omitzero"`
	// Missing explains, in sentences, which figures are missing. The reason is that a process has not written its figures
	// in the last 10 seconds, or that the store does not answer.
	Missing []string `json:"missing,omitempty"`
}
