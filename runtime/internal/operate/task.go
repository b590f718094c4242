package operate

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/actor"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

const (
	// maxRunning is how many tasks run at once, keptTasks how many are remembered.
	maxRunning = 8
	keptTasks  = 100
	// These are items a second.
	minRate   = 0.01
	usualRate = 100
	maxRate   = 1000
	// maxInARow is how many items may fail one after another before a task gives up.
	maxInARow = 20
	// stepTime bounds what is done to one subscription.
	stepTime = 30 * time.Second
)

// tasks are those of the process.
type tasks struct {
	mu      sync.Mutex
	running int
	all     []*task // in order of their beginning
}

// A task is one with what ends it.
type task struct {
	operator.Task // under tasks.mu
	cancel        context.CancelFunc
}

// A step of a bulk action: items are what is to be done to a subscription, attempts that failed or one item for all of it, and
// do does one of them.
type step struct {
	items func(ctx context.Context, i *sight) ([]operator.Attempt, error)
	do    func(ctx context.Context, i *operator.WebhookInfo, item operator.Attempt) error
}

// whole is the step that does something to a subscription when takes says that it is to be done.
func whole(takes func(operator.State) bool, do func(ctx context.Context, id string) error) step {
	return step{func(_ context.Context, i *sight) (items []operator.Attempt, _ error) {
		if takes(i.State) {
			items = make([]operator.Attempt, 1)
		}
		return items, nil
	}, func(ctx context.Context, i *operator.WebhookInfo, _ operator.Attempt) error { return do(ctx, i.ID) }}
}

// step is what the bulk action does to each subscription; an error where it is none.
func (a *Admin) step(b *operator.Bulk) (step, error) {
	wrong := func(format string, args ...any) (step, error) {
		return step{}, events.Invalid(events.FieldError{Message: fmt.Sprintf(format, args...)})
	}
	if b.PerSecond == 0 {
		b.PerSecond = usualRate
	}
	if !(b.PerSecond >= minRate && b.PerSecond <= maxRate) {
		return wrong("perSecond is a number from %v to %v", minRate, maxRate)
	}
	b.Filter.Host = strings.ToLower(b.Filter.Host)
	s, timed := step{}, false
	switch b.Verb {
	case operator.BulkPause:
		s = whole(func(st operator.State) bool { return st != operator.StatePaused }, a.Pause)
	case operator.BulkUnpause:
		s = whole(func(st operator.State) bool { return st == operator.StatePaused }, a.Unpause)
	case operator.BulkResume:
		s = whole(func(st operator.State) bool { return st == operator.StateSuspended }, a.Resume)
	case operator.BulkReplay:
		s, timed = whole(func(operator.State) bool { return true }, nil), true
		replay := a.replayer(b.Since, b.Until)
		s.do = func(ctx context.Context, i *operator.WebhookInfo, _ operator.Attempt) error { return replay(ctx, i) }
	case operator.BulkEndReplay:
		s = whole(nil, a.EndReplay)
		s.items = func(_ context.Context, i *sight) (items []operator.Attempt, _ error) {
			if i.Replay != nil || i.mayReplay {
				items = make([]operator.Attempt, 1)
			}
			return items, nil
		}
	case operator.BulkSend:
		since, until := b.Since, b.Until
		s, timed = step{func(ctx context.Context, i *sight) ([]operator.Attempt, error) {
			return a.givenUp(ctx, &i.WebhookInfo, since, until)
		}, a.sendFailed}, true
	default:
		return wrong("a bulk action is pause, unpause, resume, replay, endreplay or send")
	}
	items := s.items
	s.items = func(ctx context.Context, i *sight) ([]operator.Attempt, error) {
		if i.State == operator.StateUnreadable {
			return nil, nil // there is nothing that could be done to it
		}
		return items(ctx, i)
	}
	if timed == b.Since.IsZero() {
		return wrong("since is for replay and send, which need it")
	}
	if !b.Until.IsZero() && !b.Until.After(b.Since) {
		return wrong("until is after since, for replay and send")
	}
	return s, nil
}

// count is how many items a step has to do.
func (a *Admin) count(ctx context.Context, f operator.Filter, s step) (n int, err error) {
	l := a.look(ctx)
	l.filter = f
	var failed error
	_, err = l.each("", 0, func(i *sight) bool {
		var items []operator.Attempt
		items, failed = s.items(ctx, i)
		n += len(items)
		return failed == nil
	})
	return n, cmp.Or(err, failed)
}

func (a *Admin) Preview(ctx context.Context, b operator.Bulk) (int, error) {
	s, err := a.step(&b)
	if err != nil {
		return 0, err
	}
	return a.count(ctx, b.Filter, s)
}

func (a *Admin) Begin(ctx context.Context, b operator.Bulk) (operator.Task, error) {
	s, err := a.step(&b)
	if err != nil {
		return operator.Task{}, err
	}
	total, err := a.count(ctx, b.Filter, s)
	if err != nil {
		return operator.Task{}, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t := &task{operator.Task{ID: "task_" + rand.Text(), Bulk: b, Actor: actor.Of(ctx), BegunAt: a.o.Now(), Total: total}, cancel}
	began := t.Task
	if !a.tasks.add(t) {
		cancel()
		return operator.Task{}, operator.ErrBusy
	}
	told, err := a.tellTask(ctx, t)
	if err != nil {
		a.tasks.drop(t)
		return operator.Task{}, err
	}
	if !a.o.Go(func() { a.run(ctx, t, s, told) }) {
		a.tasks.drop(t)
		return operator.Task{}, fmt.Errorf("starting a task: %w", events.ErrClosed)
	}
	return began, nil
}

// add takes in a task that begins; false when too many run.
func (ts *tasks) add(t *task) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.running == maxRunning {
		return false
	}
	ts.running++
	ts.all = append(ts.all, t)
	if len(ts.all) > keptTasks {
		ended := slices.IndexFunc(ts.all, func(t *task) bool { return !t.EndedAt.IsZero() })
		ts.all = slices.Delete(ts.all, ended, ended+1) // there is one: fewer run than are kept
	}
	return true
}

// end says that a task does nothing any more, and why where it has ended early.
func (ts *tasks) end(t *task, at time.Time, why string) {
	t.cancel()
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.running--
	t.EndedAt = at
	if why != "" {
		t.Error = why
	}
}

// drop forgets a task that was not begun after all.
func (ts *tasks) drop(t *task) {
	t.cancel()
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.running--
	ts.all = slices.DeleteFunc(ts.all, func(o *task) bool { return o == t })
}

// run does a task, and tells the other processes of it.
func (a *Admin) run(ctx context.Context, t *task, s step, told *toldTask) {
	telling, quiet := context.WithCancel(context.WithoutCancel(ctx))
	var beats sync.WaitGroup
	beats.Go(func() { a.beat(telling, told) })
	defer func() {
		quiet()
		beats.Wait()
		a.tellEnd(ctx, told)
	}()
	pause := time.Duration(float64(time.Second) / t.PerSecond)
	inARow, next := 0, time.Now()
	l := a.look(ctx)
	l.filter = t.Filter
	var failed error
	_, err := l.each("", 0, func(i *sight) bool {
		var items []operator.Attempt
		if items, failed = s.items(ctx, i); failed != nil {
			return false
		}
		for _, item := range items {
			select {
			case <-time.After(time.Until(next)):
			case <-ctx.Done():
			case <-a.o.Closing:
				a.tasks.stop(t)
			}
			if ctx.Err() != nil {
				return false
			}
			next = time.Now().Add(pause)
			// What is begun is ended: Cancel comes between two.
			step, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTime)
			err := s.do(step, &i.WebhookInfo, item)
			cancel()
			if inARow++; !a.did(ctx, t, err) {
				inARow = 0
			}
			if inARow == maxInARow {
				return false
			}
		}
		return ctx.Err() == nil
	})
	err = cmp.Or(err, failed)
	why := ""
	switch {
	case ctx.Err() != nil:
	case err != nil:
		a.o.Log.Internal(ctx, "looking for what a task is to do", err)
		why = "what there is to do could not be read"
	case inARow == maxInARow:
		why = fmt.Sprintf("stopped after %d failures in a row, the last one: %s", inARow, t.Error)
	}
	ended := a.o.Now()
	a.noteEnd(ctx, t, ended, why)
	a.tasks.end(t, ended, why)
}

// did counts what a step came to.
func (a *Admin) did(ctx context.Context, t *task, err error) (failed bool) {
	skipped := errors.Is(err, events.ErrNotFound) || errors.Is(err, operator.ErrUnderWay)
	again, refused := errors.AsType[refusedAgain](err)
	unanswered := errors.Is(err, operator.ErrUnanswered)
	known := unanswered || errors.Is(err, events.ErrUnsupported) || errors.Is(err, events.ErrInvalidParams)
	if err != nil && !skipped && !refused && !known {
		a.o.Log.Internal(ctx, "doing a task to a subscription", err)
	}
	a.tasks.mu.Lock()
	defer a.tasks.mu.Unlock()
	switch {
	case err == nil:
		t.Done++
	case skipped:
		t.Skipped++
	case refused:
		t.Failed++
		t.Error = again.Error()
		return true
	case unanswered:
		t.Failed++
		t.Error = errUnanswered.Error()
		return true
	default:
		t.Failed++
		t.Error = fault.Answer(err, wire.Sketch).Message
		return true
	}
	return false
}

// stop has a task end soon; one that has ended stays as it is.
func (ts *tasks) stop(t *task) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t.EndedAt.IsZero() {
		t.Cancelled = true
		t.cancel()
	}
}

func (a *Admin) Tasks(ctx context.Context) ([]operator.Task, error) {
	a.tasks.mu.Lock()
	own := map[string]bool{}
	all := make([]operator.Task, len(a.tasks.all))
	for i, t := range a.tasks.all {
		all[len(all)-1-i] = t.Task
		own[t.ID] = true
	}
	a.tasks.mu.Unlock()
	stored, err := a.storedTasks(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range stored {
		if !own[t.ID] {
			all = append(all, t.shown(a.o.Now()))
		}
	}
	slices.SortStableFunc(all, func(a, b operator.Task) int { return b.BegunAt.Compare(a.BegunAt) })
	return all, nil
}

func (a *Admin) Task(ctx context.Context, id string) (operator.Task, error) {
	if t := a.mine(id); t != nil {
		return a.tasks.read(t), nil
	}
	t, err := a.storedTask(ctx, id)
	if err != nil {
		return operator.Task{}, err
	}
	return t.shown(a.o.Now()), nil
}

func (a *Admin) Cancel(ctx context.Context, id string) error {
	if t := a.mine(id); t != nil {
		a.tasks.stop(t)
		return nil
	}
	return a.cancelElsewhere(ctx, id)
}

// mine is the task of this process, nil for none.
func (a *Admin) mine(id string) *task {
	a.tasks.mu.Lock()
	defer a.tasks.mu.Unlock()
	for _, t := range a.tasks.all {
		if t.ID == id {
			return t
		}
	}
	return nil
}

func (ts *tasks) read(t *task) operator.Task {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return t.Task
}
