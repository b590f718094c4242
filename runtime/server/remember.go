package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/evolve"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// A remembered type is what a durable store keeps of an event type, so that a change made while
// nobody served it is noticed: its schemas, and up to where its log holds payloads of other ones.
type remembered struct {
	InputSchema   json.RawMessage `json:"inputSchema"`
	PayloadSchema json.RawMessage `json:"payloadSchema"`
	Floor         store.Position  `json:"floor,omitempty"`
}

// memoryLog names the log that keeps it. No event name has a slash.
func memoryLog(event string) string { return "type/" + event }

// A recollection compares a definition with what the store remembers of its type.
type recollection struct {
	server  *Server
	d       *definition
	log     store.EventLog // nil without a durable store
	old     remembered
	payload bool // the payloadSchema changed incompatibly
}

// recall reads what is remembered of d's type and notes in d, which nobody else sees yet, whether
// it was changed incompatibly.
func (s *Server) recall(ctx context.Context, d *definition) (*recollection, error) {
	m := &recollection{server: s, d: d}
	if !s.options.Store.Durable() || s.shared() { // a shared store keeps a history instead
		return m, nil
	}
	var err error
	if m.log, err = s.options.Store.OpenLog(ctx, memoryLog(d.info.Name), store.LogOptions{MaxCount: 1}); err != nil {
		return nil, fmt.Errorf("opening what is remembered of it: %w", err)
	}
	_, head, err := m.log.Bounds(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading what is remembered of it: %w", err)
	}
	if head == 0 {
		return m, nil
	}
	b, err := m.log.Read(ctx, head-1, 1)
	if err == nil && len(b.Entries) == 1 {
		err = json.Unmarshal(b.Entries[0].Data, &m.old)
	}
	if err != nil {
		return nil, fmt.Errorf("reading what is remembered of it: %w", err)
	}
	if m.old.InputSchema == nil {
		return m, nil
	}
	before := wire.Descriptor{Name: d.info.Name, InputSchema: m.old.InputSchema, PayloadSchema: m.old.PayloadSchema}
	for _, c := range evolve.Compare(before, d.descriptor) {
		if d.changed == "" {
			d.changed = c.Feature
		}
		m.payload = m.payload || c.Feature == fault.FeaturePayload
	}
	return m, nil
}

// apply keeps payloads of other schemas from being replayed.
func (m *recollection) apply(t *topic.Topic) {
	if t == nil || m.log == nil {
		return
	}
	t.Raise(m.old.Floor)
	if m.payload {
		_, head := t.Bounds()
		t.Raise(head)
	}
}

// commit makes the store remember the definition. Until then a crash forgets nothing of what is
// still to be done.
func (m *recollection) commit(t *topic.Topic) {
	if m.log == nil {
		return
	}
	now := remembered{InputSchema: m.d.info.InputSchema, PayloadSchema: m.d.info.PayloadSchema}
	if t != nil {
		now.Floor = t.Floor()
	}
	data, err := json.Marshal(now)
	if same, sameErr := json.Marshal(m.old); err == nil && sameErr == nil && bytes.Equal(same, data) {
		return
	}
	ctx, cancel := m.server.hookContext(hookTime)
	defer cancel()
	if err == nil {
		_, err = m.log.Append(ctx, store.Entry{EventID: "type", Timestamp: events.NewTime(time.Now().UTC()), Data: data})
	}
	if err != nil {
		m.server.log.Internal(ctx, "remembering the schemas of "+m.d.info.Name, err)
	}
}
