// Package schedules stores the subscriptions of MCPE in memory.
package schedules

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Memory is an in-memory implementation of [engine.Schedules].
type Memory struct {
	mu      sync.Mutex
	known   map[string]*schedule
	cursors map[string]string
}

type schedule struct {
	engine.Schedule
	last  uint64
	queue []engine.Queued
}

// New returns an empty schedule store.
func New() *Memory {
	return &Memory{known: map[string]*schedule{}, cursors: map[string]string{}}
}

// PutSchedule implements [engine.Schedules].
func (m *Memory) PutSchedule(ctx context.Context, s engine.Schedule) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Record = bytes.Clone(s.Record)
	if k := m.known[s.ID]; k != nil {
		k.Schedule = s
	} else {
		m.known[s.ID] = &schedule{Schedule: s}
	}
	return nil
}

// DeleteSchedule implements [engine.Schedules].
func (m *Memory) DeleteSchedule(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, id)
	return nil
}

// Schedules implements [engine.Schedules].
func (m *Memory) Schedules(ctx context.Context, after string, limit int) (all []engine.Schedule, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(m.known)) {
		if id > after && len(all) < limit {
			s := m.known[id].Schedule
			s.Record = bytes.Clone(s.Record)
			all = append(all, s)
		}
	}
	return all, nil
}

// Intake implements [engine.Schedules].
func (m *Memory) Intake(ctx context.Context, in engine.Intake) (dropped map[string]int, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range in.Items {
		k := m.known[q.Schedule]
		if k == nil {
			continue
		}
		k.last++
		q.Sequence, q.Body = k.last, bytes.Clone(q.Body)
		k.queue = append(k.queue, q)
		if over := len(k.queue) - in.Limit; in.Limit > 0 && over > 0 {
			clear(k.queue[:over])
			k.queue = k.queue[over:]
			if dropped == nil {
				dropped = map[string]int{}
			}
			dropped[q.Schedule] += over
		}
	}
	if in.Source != "" {
		m.cursors[in.Source] = in.Cursor
	}
	return dropped, nil
}

// IntakeCursor implements [engine.Schedules].
func (m *Memory) IntakeCursor(ctx context.Context, source string) (string, bool, error) {
	if err := ctx.Err(); err != nil {
		return "", false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.cursors[source]
	return c, ok, nil
}

// ForgetIntake implements [engine.Schedules].
func (m *Memory) ForgetIntake(ctx context.Context, source string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.cursors, source)
	return nil
}

// Queue implements [engine.Schedules].
func (m *Memory) Queue(ctx context.Context, id string, after uint64, limit int) ([]engine.Queued, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.known[id]
	if k == nil {
		return nil, nil
	}
	from, _ := slices.BinarySearchFunc(k.queue, after, func(q engine.Queued, after uint64) int {
		if q.Sequence <= after {
			return -1
		}
		return 1
	})
	return slices.Clone(k.queue[from:min(from+max(limit, 0), len(k.queue))]), nil
}

// CountQueued implements [engine.Schedules].
func (m *Memory) CountQueued(ctx context.Context, id string) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.known[id]; k != nil {
		return len(k.queue), nil
	}
	return 0, nil
}

// Settle implements [engine.Schedules].
func (m *Memory) Settle(ctx context.Context, s engine.Schedule, upTo uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.known[s.ID]
	if k == nil {
		return nil
	}
	s.Record = bytes.Clone(s.Record)
	k.Schedule = s
	k.queue = slices.DeleteFunc(k.queue, func(q engine.Queued) bool { return q.Sequence <= upTo })
	return nil
}
