package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// taskPrefix begins the keys of states that are tasks.
	taskPrefix = "task/"
	// beatEvery is how often a process tells the others how far its task is, and hears whether one of them has cancelled it.
	beatEvery = 2 * time.Second
	// silentFor is after how long a task that nothing is told of is taken to have ended with its process.
	silentFor = 30 * time.Second
	// tellTime bounds one telling.
	tellTime = 5 * time.Second
	// maxStates bounds how many states one look reads.
	maxStates = 1000
)

// A storedTask is a task as the other processes see it.
type storedTask struct {
	operator.Task
	// At is when its process told of it last.
	At       time.Time
	revision uint64
}

// shown is the task for an operator.
func (t *storedTask) shown(now time.Time) operator.Task {
	if t.EndedAt.IsZero() && now.Sub(t.At) > silentFor {
		t.EndedAt, t.Error = t.At, "its process has ended, or cannot reach the store; look what was done before you begin it again"
	}
	return t.Task
}

// A toldTask is a task of this process, of which the store has a revision; nil where nobody else uses the store.
type toldTask struct {
	t        *task
	shared   engine.Shared
	revision uint64
}

// tellTask tells of a task that begins, and forgets those of before that are too many.
func (a *Admin) tellTask(ctx context.Context, t *task) (*toldTask, error) {
	shared, ok := a.o.Store.(engine.Shared)
	if !ok {
		return nil, nil
	}
	stored, err := a.storedTasks(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(stored, func(a, b storedTask) int { return a.BegunAt.Compare(b.BegunAt) })
	now := a.o.Now()
	for i, old := range stored {
		if len(stored)-i < keptTasks {
			break
		}
		if ended := old.shown(now); !ended.EndedAt.IsZero() {
			if err := shared.DeleteState(ctx, taskPrefix+old.ID, old.revision); err != nil && !errors.Is(err, store.ErrConflict) {
				return nil, fmt.Errorf("forgetting an old task: %w", err)
			}
		}
	}
	told := &toldTask{t: t, shared: shared}
	return told, wrapped("telling the other processes of a task", a.tellOnce(ctx, told))
}

// tellOnce tells of it once. Where somebody else has changed what is stored, it has cancelled it.
func (a *Admin) tellOnce(ctx context.Context, told *toldTask) error {
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	for {
		value, err := json.Marshal(storedTask{Task: a.tasks.read(told.t), At: a.o.Now()})
		if err != nil {
			return err
		}
		revision, err := told.shared.PutState(ctx, engine.State{Key: taskPrefix + told.t.ID, Value: value, Revision: told.revision})
		if err == nil {
			told.revision = revision
			return nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		now, err := a.storedTask(ctx, told.t.ID)
		if err != nil {
			return err
		}
		if told.revision = now.revision; now.Cancelled {
			a.tasks.stop(told.t)
		}
	}
}

// beat tells of a task until ctx ends. What the store does not take now it takes the next time.
func (a *Admin) beat(ctx context.Context, told *toldTask) {
	if told == nil {
		return
	}
	a.o.Log.Every(ctx, beatEvery, "telling the other processes of a task", func() error { return a.tellOnce(ctx, told) })
}

// tellEnd tells that a task has ended.
func (a *Admin) tellEnd(ctx context.Context, told *toldTask) {
	if told == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	if err := a.tellOnce(ctx, told); err != nil {
		a.o.Log.Internal(ctx, "telling the other processes of the end of a task", err)
	}
}

// storedTasks are those of all processes.
func (a *Admin) storedTasks(ctx context.Context) ([]storedTask, error) {
	return a.readTasks(ctx, taskPrefix)
}

// storedTask is one of them.
func (a *Admin) storedTask(ctx context.Context, id string) (storedTask, error) {
	found, err := a.readTasks(ctx, taskPrefix+id)
	if err != nil {
		return storedTask{}, err
	}
	for _, t := range found {
		if t.ID == id {
			return t, nil
		}
	}
	return storedTask{}, fault.NotFound("task")
}

// readTasks reads those with keys that begin with a prefix. What does not decode is passed over: another build wrote it.
func (a *Admin) readTasks(ctx context.Context, prefix string) (all []storedTask, err error) {
	shared, ok := a.o.Store.(engine.Shared)
	if !ok {
		return nil, nil
	}
	found, err := shared.States(ctx, prefix, "", maxStates)
	if err != nil {
		return nil, fmt.Errorf("reading the tasks of all processes: %w", err)
	}
	for _, s := range found {
		var t storedTask
		if json.Unmarshal(s.Value, &t) == nil && s.Key == taskPrefix+t.ID {
			t.revision = s.Revision
			all = append(all, t)
		}
	}
	return all, nil
}

// cancelElsewhere has the process of a task end it, when it tells of it the next time.
func (a *Admin) cancelElsewhere(ctx context.Context, id string) error {
	for {
		t, err := a.storedTask(ctx, id)
		if err != nil {
			return err
		}
		if ended := t.shown(a.o.Now()); !ended.EndedAt.IsZero() || t.Cancelled {
			return nil
		}
		t.Cancelled = true
		value, err := json.Marshal(t)
		if err != nil {
			return err
		}
		_, err = a.o.Store.(engine.Shared).PutState(ctx, engine.State{Key: taskPrefix + id, Value: value, Revision: t.revision})
		if !errors.Is(err, store.ErrConflict) {
			return wrapped("cancelling a task of another process", err)
		}
	}
}
