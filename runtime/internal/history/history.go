// Package history stores the schemas of event types and compares new registrations with them. It determines the first
// incompatible feature, and the position up to which a log can contain payloads that the registration rejects.
//
// Start at [Memory.Recall]. A shared store keeps all schemas of a type, because different builds can run at the same
// time. In a store for a single process, the latest schemas are stored in a separate log for each type.
package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Memory stores the schemas of event types in a store.
type Memory struct {
	schemas schemaStore
	shared  bool
	changes changesFunc
}

// A changesFunc returns the features that changed incompatibly between two registrations, and the text of the first
// change (EVOL-2).
type changesFunc func(old, now wire.Descriptor) (features []string, first string)

// A schemaStore is the subset of [engine.Shared] that a Memory uses.
type schemaStore interface {
	History(ctx context.Context, event string) ([]engine.SchemaVersion, error)
	AddSchema(ctx context.Context, event string, v engine.SchemaVersion, known int) error
}

// Of returns the Memory that uses the given store. The function now provides the timestamps of new entries, and changes
// compares two registrations.
func Of(s store.Store, now func() time.Time, changes changesFunc) *Memory {
	if shared, ok := s.(engine.Shared); ok {
		return &Memory{shared, true, changes}
	}
	return &Memory{latestSchemas{s, now}, false, changes}
}

// A Recollection compares a registration with the stored schemas of its type.
type Recollection struct {
	// Changed is the first feature that has changed incompatibly. It is "" if nothing has changed incompatibly.
	Changed string
	// Outcome tells operators what has changed incompatibly, and with which consequences. It is "" if Changed is "".
	Outcome string

	memory *Memory
	now    wire.Descriptor
	topic  *topic.Topic // nil for a type without a log
	v      engine.SchemaVersion
	known  int  // length of the history
	stored bool // v is in the history
}

// Recall compares d with the stored schemas of its type. The topic t is the type's log. Payloads in the log that d
// might reject are no longer replayed (OCC-1, REP-16).
//
// In a shared store, Recall stores d immediately. Schemas that are already in the history have no effect, even if they
// are not the latest schemas. New schemas are compared with the latest schemas. For other stores, [Recollection.Commit]
// stores d.
func (m *Memory) Recall(ctx context.Context, d wire.Descriptor, t *topic.Topic) (*Recollection, error) {
	r := &Recollection{memory: m, now: d, topic: t}
	err := r.findRegistration(ctx)
	for err == nil && m.shared && !r.stored {
		if err = r.add(ctx); errors.Is(err, store.ErrConflict) {
			err = r.findRegistration(ctx) // another replica was first: compare with its entry
		}
	}
	if err == nil {
		err = r.raiseFloor(ctx)
	}
	return r, err
}

// Commit stores the registration. It must be called after the required changes are complete, so a crash does not cause
// the loss of a change.
func (r *Recollection) Commit(ctx context.Context) error {
	if r.memory.shared {
		return nil
	}
	if r.topic != nil {
		if floor := r.topic.Floor(); floor > r.v.Floor {
			r.v.Floor, r.stored = floor, false
		}
	}
	if r.stored {
		return nil
	}
	return r.add(ctx)
}

func (r *Recollection) add(ctx context.Context) error {
	err := r.memory.schemas.AddSchema(ctx, r.now.Name, r.v, r.known)
	if r.stored = err == nil; !r.stored {
		err = fmt.Errorf("adding to its history of schemas: %w", err)
	}
	return err
}

// findRegistration finds the registration in the history, or prepares a new entry for it if the history does not
// contain it.
func (r *Recollection) findRegistration(ctx context.Context) error {
	known, err := r.memory.schemas.History(ctx, r.now.Name)
	if err != nil {
		return fmt.Errorf("reading its history of schemas: %w", err)
	}
	fingerprint, _ := r.now.Meta[wire.MetaFingerprint].(string)
	r.Changed, r.Outcome, r.known = "", "", len(known)
	i := slices.IndexFunc(known, func(v engine.SchemaVersion) bool { return v.Fingerprint == fingerprint })
	if r.stored = i >= 0; r.stored {
		r.v = known[i]
		return nil
	}
	r.v = engine.SchemaVersion{Fingerprint: fingerprint, InputSchema: r.now.InputSchema, PayloadSchema: r.now.PayloadSchema}
	if len(known) == 0 {
		return nil
	}
	last := known[len(known)-1]
	r.v.Floor = last.Floor
	changes, first := r.memory.changes(wire.Descriptor{InputSchema: last.InputSchema, PayloadSchema: last.PayloadSchema}, r.now)
	if len(changes) == 0 {
		return nil
	}
	var lost store.Position
	if r.topic != nil && slices.Contains(changes, fault.FeaturePayload) {
		if r.v.Floor, err = r.topic.Latest(ctx); err != nil {
			return err
		}
		oldest, _ := r.topic.Bounds()
		lost = r.v.Floor - min(max(oldest-1, last.Floor), r.v.Floor)
	}
	r.Changed = changes[0]
	r.Outcome = fmt.Sprintf("schemas are incompatible with the stored ones (%s): ", first)
	if lost > 0 {
		r.Outcome += fmt.Sprintf("%d older events are not replayed, and ", lost)
	}
	r.Outcome += "webhook subscriptions of the older schemas end once no process serves them"
	return nil
}

// raiseFloor raises the topic's floor up to the head at most. After a new epoch has begun, the head can be lower than
// the stored floor (REP-19).
func (r *Recollection) raiseFloor(ctx context.Context) error {
	if r.topic == nil || r.v.Floor == 0 {
		return nil
	}
	head, err := r.topic.Latest(ctx)
	if err == nil {
		r.topic.Raise(min(r.v.Floor, head))
	}
	return err
}

// latestSchemas is a schemaStore that stores only the latest schemas of each type. It stores them in a log.
type latestSchemas struct {
	store store.Store
	now   func() time.Time
}

// A schemaEntry is the data of an entry in a log of schemas.
type schemaEntry struct {
	InputSchema   json.RawMessage `json:"inputSchema"`
	PayloadSchema json.RawMessage `json:"payloadSchema"`
	Floor         store.Position  `json:"floor,omitempty"`
}

// openLog opens the log with the schemas of a type. Only its newest entry is used. The log's name contains a slash,
// unlike event names.
func (l latestSchemas) openLog(ctx context.Context, event string) (store.EventLog, error) {
	return l.store.OpenLog(ctx, "type/"+event, store.LogOptions{MaxCount: 1})
}

func (l latestSchemas) History(ctx context.Context, event string) ([]engine.SchemaVersion, error) {
	if !l.store.Durable() {
		return nil, nil
	}
	log, err := l.openLog(ctx, event)
	if err != nil {
		return nil, err
	}
	_, head, err := log.Bounds(ctx)
	if err != nil || head == 0 {
		return nil, err
	}
	b, err := log.Read(ctx, head-1, 1)
	if err != nil || len(b.Entries) == 0 {
		return nil, err
	}
	var was schemaEntry
	if err := json.Unmarshal(b.Entries[0].Data, &was); err != nil {
		return nil, err
	}
	v := engine.SchemaVersion{InputSchema: was.InputSchema, PayloadSchema: was.PayloadSchema, Floor: was.Floor}
	v.Fingerprint, err = wire.Fingerprint(v.InputSchema, v.PayloadSchema)
	return []engine.SchemaVersion{v}, err
}

func (l latestSchemas) AddSchema(ctx context.Context, event string, v engine.SchemaVersion, _ int) error {
	if !l.store.Durable() {
		return nil
	}
	log, err := l.openLog(ctx, event)
	if err != nil {
		return err
	}
	data, err := json.Marshal(schemaEntry{v.InputSchema, v.PayloadSchema, v.Floor})
	if err == nil {
		_, err = log.Append(ctx, store.Entry{EventID: "type", Timestamp: events.NewTime(l.now()), Data: data})
	}
	return err
}
