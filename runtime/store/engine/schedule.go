package engine

import (
	"context"
	"encoding/json"
	"time"
)

// A Schedule is a subscription whose occurrences wait for a time, with its queue beside it. See
// MCPE-DEL-6.
type Schedule struct {
	// ID is unique in the store.
	ID string
	// Owner is whose it is.
	Owner string
	// NextRun is when it is due; zero for never.
	NextRun time.Time
	// Record is what its protocol keeps of it.
	Record json.RawMessage
}

// A Queued is one occurrence in the queue of a schedule.
type Queued struct {
	// Schedule is the id of the schedule.
	Schedule string
	// Sequence is assigned by Intake, ascending within a schedule.
	Sequence uint64
	// Body is the occurrence as its protocol carries it.
	Body json.RawMessage
}

// An Intake is what was read from one source of occurrences, for the queues that it concerns.
type Intake struct {
	// Source names where it was read and Cursor is the position after it: both move in one step, so
	// that a crash neither loses nor repeats an occurrence.
	Source, Cursor string
	// Items are in order. Those of an unknown schedule are passed over.
	Items []Queued
	// Limit bounds each queue; beyond it the oldest are dropped. 0 means no bound.
	Limit int
}

// Schedules keeps schedules, their queues and how far their sources were read.
// Implementations are safe for concurrent use; each method is one atomic step.
type Schedules interface {
	// PutSchedule stores s in place of the one with its id.
	PutSchedule(ctx context.Context, s Schedule) error
	// DeleteSchedule removes the schedule and its queue; an unknown id is no error.
	DeleteSchedule(ctx context.Context, id string) error
	// Schedules returns up to limit schedules with ids above after, in order of id.
	Schedules(ctx context.Context, after string, limit int) ([]Schedule, error)
	// Intake queues what was read and moves the source's cursor. It returns how many each queue
	// dropped, by schedule.
	Intake(ctx context.Context, in Intake) (dropped map[string]int, err error)
	// IntakeCursor returns the source's cursor and whether there is one.
	IntakeCursor(ctx context.Context, source string) (cursor string, ok bool, err error)
	// ForgetIntake removes the source's cursor; an unknown source is no error.
	ForgetIntake(ctx context.Context, source string) error
	// Queue returns up to limit occurrences of the schedule's queue with a sequence above after,
	// oldest first.
	Queue(ctx context.Context, id string, after uint64, limit int) ([]Queued, error)
	// CountQueued returns the length of the schedule's queue.
	CountQueued(ctx context.Context, id string) (int, error)
	// Settle stores s and removes its queue up to the sequence. A schedule that was deleted stays
	// so.
	Settle(ctx context.Context, s Schedule, upTo uint64) error
}
