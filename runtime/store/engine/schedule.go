package engine

import (
	"context"
	"encoding/json"
	"time"
)

// A Schedule is a subscription that collects occurrences in a queue and delivers them at a set time. See MCPE-DEL-6.
type Schedule struct {
	// ID is unique in the store.
	ID string
	// Owner identifies the owner.
	Owner string
	// NextRun is the time of the next delivery; zero means never.
	NextRun time.Time
	// Record is the protocol's state.
	Record json.RawMessage
}

// Queued is an occurrence in the queue of a schedule.
type Queued struct {
	// Schedule is the id of the schedule.
	Schedule string
	// Sequence is assigned by Intake and increases within a schedule.
	Sequence uint64
	// Body is the occurrence in the protocol's format.
	Body json.RawMessage
}

// An Intake is a batch of occurrences from one source for the queues of one or more schedules.
type Intake struct {
	// Source is the name of the source, and Cursor is the position after the batch. One transaction updates the queues
	// and the cursor, so a crash neither loses nor duplicates an occurrence.
	Source, Cursor string
	// Items are in order. Items of unknown schedules are ignored.
	Items []Queued
	// Limit is the maximum length of each queue; 0 means no limit. The oldest occurrences are dropped first.
	Limit int
}

// Schedules stores schedules, their queues and the cursors of their sources. Implementations are safe for concurrent
// use, and each method is atomic.
type Schedules interface {
	// PutSchedule stores s and replaces a schedule with the same id.
	PutSchedule(ctx context.Context, s Schedule) error
	// DeleteSchedule removes the schedule and its queue. An unknown id is not an error.
	DeleteSchedule(ctx context.Context, id string) error
	// Schedules returns up to limit schedules with ids greater than after, ordered by id.
	Schedules(ctx context.Context, after string, limit int) ([]Schedule, error)
	// Intake queues the items and sets the source's cursor. It returns the number of dropped occurrences by schedule.
	Intake(ctx context.Context, in Intake) (dropped map[string]int, err error)
	// IntakeCursor returns the source's cursor and whether it exists.
	IntakeCursor(ctx context.Context, source string) (cursor string, ok bool, err error)
	// ForgetIntake removes the source's cursor. An unknown source is not an error.
	ForgetIntake(ctx context.Context, source string) error
	// Queue returns up to limit occurrences of the schedule's queue with sequence numbers greater than after, oldest
	// first.
	Queue(ctx context.Context, id string, after uint64, limit int) ([]Queued, error)
	// CountQueued returns the length of the schedule's queue.
	CountQueued(ctx context.Context, id string) (int, error)
	// Settle stores s and removes its queued occurrences up to the sequence upTo. It does not recreate a deleted
	// schedule.
	Settle(ctx context.Context, s Schedule, upTo uint64) error
}
