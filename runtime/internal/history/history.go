// Package history stores the schemas of event types and determines what a registration has changed since. It finds
// the feature that is incompatible, and the position up to which a log has payloads that it may reject.
//
// Start at [Memory.Recall]. A shared store keeps all schemas of a type, because builds may run side by side. For a
// store of one process, the latest schemas are kept in a log next to that of the type.
package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/evolve"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Memory reads and stores the schemas of event types in a store.
type Memory struct {
	versions versions
	shared   bool
}

// versions is the part of [engine.Shared] that a Memory uses.
type versions interface {
	History(ctx context.Context, event string) ([]engine.SchemaVersion, error)
	AddSchema(ctx context.Context, event string, v engine.SchemaVersion, known int) error
}

// Of returns the memory of a store. now returns the time for new entries.
func Of(s store.Store, now func() time.Time) *Memory {
	if shared, ok := s.(engine.Shared); ok {
		return &Memory{shared, true}
	}
	return &Memory{&latest{store: s, now: now, logs: map[string]store.EventLog{}}, false}
}

// A Recollection compares a registration with the stored schemas of its type.
type Recollection struct {
	// Changed is the first feature that has changed incompatibly, "" for none.
	Changed string

	memory *Memory
	now    wire.Descriptor
	topic  *topic.Topic // nil for a type without a log
	v      engine.SchemaVersion
	known  int  // length of the history
	stands bool // v is in the history
}

// Recall compares d with the stored schemas of its type, whose log is t. Payloads in the log that d may reject are
// not replayed any more (OCC-1, REP-16).
//
// In a shared store, d is stored immediately: schemas that are already in the history change nothing, whether the
// latest or not, and new ones are compared with the latest. For other stores, [Recollection.Commit] stores d.
func (m *Memory) Recall(ctx context.Context, d wire.Descriptor, t *topic.Topic) (*Recollection, error) {
	r := &Recollection{memory: m, now: d, topic: t}
	err := r.judge(ctx)
	for err == nil && m.shared && !r.stands {
		if err = r.add(ctx); errors.Is(err, store.ErrConflict) {
			err = r.judge(ctx) // another replica was first: compare with its entry
		}
	}
	if err == nil {
		err = r.raise(ctx)
	}
	return r, err
}

// Commit stores the registration, after the changes that it requires are done: a crash before that forgets none of
// them.
func (r *Recollection) Commit(ctx context.Context) error {
	if r.memory.shared {
		return nil
	}
	if r.topic != nil {
		if floor := r.topic.Floor(); floor > r.v.Floor {
			r.v.Floor, r.stands = floor, false
		}
	}
	if r.stands {
		return nil
	}
	return r.add(ctx)
}

func (r *Recollection) add(ctx context.Context) error {
	err := r.memory.versions.AddSchema(ctx, r.now.Name, r.v, r.known)
	if r.stands = err == nil; !r.stands {
		err = fmt.Errorf("adding to its history of schemas: %w", err)
	}
	return err
}

// judge finds the registration in the history, or prepares its entry.
func (r *Recollection) judge(ctx context.Context) error {
	known, err := r.memory.versions.History(ctx, r.now.Name)
	if err != nil {
		return fmt.Errorf("reading its history of schemas: %w", err)
	}
	fingerprint, _ := r.now.Meta[wire.MetaFingerprint].(string)
	r.Changed, r.known = "", len(known)
	i := slices.IndexFunc(known, func(v engine.SchemaVersion) bool { return v.Fingerprint == fingerprint })
	if r.stands = i >= 0; r.stands {
		r.v = known[i]
		return nil
	}
	r.v = engine.SchemaVersion{Fingerprint: fingerprint, InputSchema: r.now.InputSchema, PayloadSchema: r.now.PayloadSchema}
	if len(known) == 0 {
		return nil
	}
	last := known[len(known)-1]
	r.v.Floor = last.Floor
	changes := Changes(last, r.now)
	if len(changes) > 0 {
		r.Changed = changes[0].Feature
	}
	if r.topic != nil && slices.ContainsFunc(changes, func(c evolve.Change) bool { return c.Feature == fault.FeaturePayload }) {
		r.v.Floor, err = r.topic.Latest(ctx)
	}
	return err
}

// raise raises the topic's floor, but not beyond the head. A new epoch may have fewer entries than when the floor was
// determined (REP-19).
func (r *Recollection) raise(ctx context.Context) error {
	if r.topic == nil || r.v.Floor == 0 {
		return nil
	}
	head, err := r.topic.Latest(ctx)
	if err == nil {
		r.topic.Raise(min(r.v.Floor, head))
	}
	return err
}

// Changes returns the incompatible changes of a type since a version of its schemas (EVOL-2).
func Changes(since engine.SchemaVersion, d wire.Descriptor) []evolve.Change {
	return evolve.Compare(wire.Descriptor{Name: d.Name, InputSchema: since.InputSchema, PayloadSchema: since.PayloadSchema}, d)
}

// latest stores the latest schemas of each type; they last as long as the store does.
type latest struct {
	store store.Store
	now   func() time.Time

	mu   sync.Mutex
	logs map[string]store.EventLog
}

// remembered is an entry of the log of schemas.
type remembered struct {
	InputSchema   json.RawMessage `json:"inputSchema"`
	PayloadSchema json.RawMessage `json:"payloadSchema"`
	Floor         store.Position  `json:"floor,omitempty"`
}

// log returns the log with the schemas of a type, whose newest entry counts. Event names have no slash.
func (l *latest) log(ctx context.Context, event string) (store.EventLog, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if log := l.logs[event]; log != nil {
		return log, nil
	}
	log, err := l.store.OpenLog(ctx, "type/"+event, store.LogOptions{MaxCount: 1})
	if err == nil {
		l.logs[event] = log
	}
	return log, err
}

func (l *latest) History(ctx context.Context, event string) ([]engine.SchemaVersion, error) {
	if !l.store.Durable() {
		return nil, nil
	}
	log, err := l.log(ctx, event)
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
	var was remembered
	if err := json.Unmarshal(b.Entries[0].Data, &was); err != nil {
		return nil, err
	}
	v := engine.SchemaVersion{InputSchema: was.InputSchema, PayloadSchema: was.PayloadSchema, Floor: was.Floor}
	v.Fingerprint, err = wire.Fingerprint(v.InputSchema, v.PayloadSchema)
	return []engine.SchemaVersion{v}, err
}

func (l *latest) AddSchema(ctx context.Context, event string, v engine.SchemaVersion, _ int) error {
	if !l.store.Durable() {
		return nil
	}
	log, err := l.log(ctx, event)
	if err != nil {
		return err
	}
	data, err := json.Marshal(remembered{v.InputSchema, v.PayloadSchema, v.Floor})
	if err == nil {
		_, err = log.Append(ctx, store.Entry{EventID: "type", Timestamp: events.NewTime(l.now()), Data: data})
	}
	return err
}
