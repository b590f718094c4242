package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Log is an event log as far as a shard has to do with it: its name in the store, where its head is,
// and what was left to do when the shard was taken up.
type Log struct {
	shard *Shard
	name  string
	head  func() store.Position

	advanced atomic.Bool

	// Under the engine's lock.
	ready    bool
	recorded store.Position           // stored as dispatched
	marked   time.Time                // when that was stored
	concerns map[string]store.Concern // until ready
}

// OpenLog makes a log known and loads what was left to do. head returns the last position for which
// every Wake has been called; it may take the append lock. Then add the restored subscriptions and
// call [Log.Ready].
func (s *Shard) OpenLog(ctx context.Context, name string, head func() store.Position) (*Log, error) {
	to, concerns, err := s.o.Store.Resume(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("delivery: resume log %s: %w", name, err)
	}
	l := &Log{shard: s, name: name, head: head, recorded: to, concerns: map[string]store.Concern{}}
	for _, c := range concerns {
		l.concerns[c.ID] = c
	}
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if !s.closed {
		s.logs[l] = struct{}{}
	}
	return l, nil
}

// Ready says that all restored subscriptions of the log are added: from now on the engine records
// how far the log is dispatched, so that a restart scans nothing before it again.
func (l *Log) Ready() {
	e := l.shard.e
	e.mu.Lock()
	defer e.mu.Unlock()
	l.ready, l.concerns = true, nil
	l.advanced.Store(true)
	l.shard.arm()
}

// Advanced says that the head has moved and that Wake was called for the handles that it concerns. It never
// waits and may be called under the append lock.
func (l *Log) Advanced() {
	if l.advanced.Swap(true) {
		return
	}
	e := l.shard.e
	e.mu.Lock()
	defer e.mu.Unlock()
	l.shard.arm()
}

// Leave stores that everything concerns a subscription from where a restored one would begin: it is
// not added, and when it is added later, delivery must not begin where the log is dispatched to by then. It comes
// before [Log.Ready].
func (l *Log) Leave(ctx context.Context, s store.Subscription) error {
	e := l.shard.e
	e.mu.Lock()
	from := max(s.Progress.Base, l.recorded)
	if c, ok := l.concerns[s.ID]; ok && c.Generation == s.Generation {
		from = max(s.Progress.Base, c.First-1)
	}
	e.mu.Unlock()
	return l.note(ctx, store.Concern{ID: s.ID, Generation: s.Generation, First: from + 1})
}

// note stores a concern.
func (l *Log) note(ctx context.Context, c store.Concern) error {
	if err := l.shard.o.Store.Dispatched(ctx, l.name, 0, []store.Concern{c}); err != nil {
		return fmt.Errorf("delivery: subscription %s: %w", c.ID, err)
	}
	return nil
}

// restore sets where a subscription begins that was there before: with a concern at its base or
// just before the concern, without one after everything dispatched.
func (l *Log) restore(ctx context.Context, h *Handle, p store.Progress, late bool) error {
	e := l.shard.e
	e.mu.Lock()
	c, ok := l.concerns[h.id]
	ok = ok && c.Generation == h.generation
	recorded := l.recorded
	e.mu.Unlock()
	if late && !ok && p.Base < recorded {
		_, concerns, err := l.shard.o.Store.Resume(ctx, l.name)
		if err != nil {
			return fmt.Errorf("delivery: resume log %s: %w", l.name, err)
		}
		i := slices.IndexFunc(concerns, func(c store.Concern) bool { return c.ID == h.id && c.Generation == h.generation })
		if ok = i >= 0; ok {
			c = concerns[i]
		}
	}
	switch {
	case ok:
		h.row = true
		p.Base = max(p.Base, c.First-1)
	case p.Base < recorded:
		p.Base = recorded
	default:
		// A late one has a concern unless somebody found it settled: what is open is stored, what is not deletes it.
		h.touched = late
	}
	h.marks = NewWatermark(p)
	return nil
}

// A saver says when what has changed is to be stored, under the engine's lock.
type saver struct {
	timer *time.Timer
	armed bool
	off   bool
	pause time.Duration // before the next writing, while they fail
	was   time.Duration // before the present one, of however many shards
	batch int           // how much one step writes at most
}

func (s *saver) stop() {
	s.off = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// touch is changed for what has to be stored even if nothing is unsettled.
func (e *Engine) touch(h *Handle) {
	h.touched = true
	e.changed(h)
}

// changed notes that h's progress or state is not what is stored.
func (e *Engine) changed(h *Handle) {
	s := h.shard
	if s.closed || h.dirty || h.gone() {
		return
	}
	h.dirty = true
	s.dirty = append(s.dirty, h)
	s.arm()
}

// arm has what has changed stored soon; the engine's lock is held.
func (s *Shard) arm() {
	v := &s.e.saver
	if s.closed || v.armed || v.off {
		return
	}
	v.armed = true
	wait := max(s.e.o.FlushInterval, v.pause)
	if v.timer == nil {
		v.timer = time.AfterFunc(wait, s.e.save)
		return
	}
	v.timer.Reset(wait)
}

const (
	// saveTime bounds one writing that nobody waits for.
	saveTime = 30 * time.Second
	// maxSavePause is the longest wait between writings that fail. It is short, since what is delivered until the next one
	// comes again if the process dies.
	maxSavePause = 2 * time.Second
	// savers is how many shards are written at once.
	savers = 4
)

func (e *Engine) save() {
	ctx, cancel := context.WithTimeout(e.base, saveTime)
	defer cancel()
	if err := e.Flush(ctx); err != nil && e.base.Err() == nil {
		e.o.Logger.LogAttrs(ctx, slog.LevelError, "storing the progress of webhook subscriptions", slog.Any("error", err))
	}
}

// concern says that everything after h's base concerns it.
func (h *Handle) concern() store.Concern {
	return store.Concern{ID: h.id, Generation: h.generation, First: h.marks.Base() + 1}
}

// quiet reports whether nothing is left to do for h and its reader will say when there is.
func (h *Handle) quiet() bool {
	return h.intake.idle() && len(h.window) == 0 && len(h.controls) == 0 && !h.health.suspended
}

// A snapshot is what one writing stores.
type snapshot struct {
	handles  []*Handle
	updates  []store.Update
	attempts [][]operator.Attempt // beside updates
	owners   []*Handle            // beside updates
	concerns map[*Log][]store.Concern
	to       map[*Log]store.Position
	made     bool // there are attempts
}

// Flush stores now what has changed. Whatever cannot be stored is tried again later.
//
// The order is what makes a crash harmless: a log's head is asked first, then the subscriptions,
// so that whatever concerns one at or before that head shows in its state; that concern is stored
// with the head, in one step, and the removal of concerns before it.
func (e *Engine) Flush(ctx context.Context) error {
	e.mu.Lock()
	e.saver.armed, e.saver.was = false, e.saver.pause
	var changed []*Shard
	for s := range e.shards {
		if s.unsaved() {
			changed = append(changed, s)
		}
	}
	e.mu.Unlock()
	if len(changed) == 1 {
		return changed[0].save(ctx, false)
	}
	errs := make([]error, len(changed))
	places := make(chan struct{}, savers)
	var all sync.WaitGroup
	for i, s := range changed {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			errs[i] = s.save(ctx, false)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// unsaved reports whether there is something to write; the engine's lock is held.
func (s *Shard) unsaved() bool {
	if len(s.dirty) > 0 {
		return true
	}
	for l := range s.logs {
		if l.ready && l.advanced.Load() {
			return true
		}
	}
	return false
}

// save writes what has changed; with marks also how far logs were offered when that was stored a
// moment ago.
func (s *Shard) save(ctx context.Context, marks bool) error {
	e := s.e
	s.flush.Lock()
	defer s.flush.Unlock()
	snap := s.collect(marks)
	err := s.write(ctx, snap)
	if errors.Is(err, engine.ErrFenced) && s.owned() {
		s.fenced()
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		e.saver.pause = 0
		for l, to := range snap.to {
			l.recorded = max(l.recorded, to)
		}
		if snap.made {
			e.trimmer.hasten(trimSoon)
		}
		if s.unsaved() {
			s.arm() // what was too early for a mark
		}
		return nil
	}
	e.saver.pause = min(max(2*e.saver.was, e.o.FlushInterval), maxSavePause)
	for i, h := range snap.owners {
		h.giveBackMade(snap.attempts[i])
	}
	for _, h := range snap.handles {
		h.row, h.touched = false, true
		e.changed(h)
	}
	for l := range snap.to {
		l.advanced.Store(true)
	}
	s.arm()
	return err
}

// collect takes a snapshot.
func (s *Shard) collect(marks bool) *snapshot {
	e := s.e
	snap := &snapshot{concerns: map[*Log][]store.Concern{}, to: map[*Log]store.Position{}}
	now := time.Now()
	e.mu.Lock()
	var logs []*Log
	for l := range s.logs {
		if l.ready && (marks || s.markDue(l, now)) {
			logs = append(logs, l)
			l.marked = now
		}
	}
	e.mu.Unlock()
	for _, l := range logs {
		if l.advanced.Swap(false) {
			snap.to[l] = l.head()
		}
	}
	e.mu.Lock()
	if len(s.handles) == 0 && s.owned() {
		clear(snap.to) // nobody would begin there
	}
	snap.handles, s.dirty = s.dirty, nil
	for _, h := range snap.handles {
		h.dirty = false
	}
	for i, h := range snap.handles {
		if i%yield == yield-1 {
			e.mu.Unlock() // nobody waits for thousands of subscriptions
			e.mu.Lock()
		}
		h.passParked()
		if h.gone() || h.untold {
			continue
		}
		quiet := h.quiet()
		if quiet && !h.row && !h.touched {
			continue // what is dispatched covers it
		}
		snap.updates = append(snap.updates, store.Update{ID: h.id, Generation: h.generation, Progress: h.progress(),
			Health: h.health.stored(), Idle: quiet})
		made := h.takeMade()
		snap.attempts = append(snap.attempts, made)
		snap.made = snap.made || len(made) > 0
		snap.owners = append(snap.owners, h)
		h.touched = false
		switch {
		case quiet:
			h.row = false
		case h.log != nil && !h.row:
			h.row = true
			snap.concerns[h.log] = append(snap.concerns[h.log], h.concern())
		}
	}
	e.mu.Unlock()
	for i, h := range snap.owners {
		snap.updates[i].Progress = h.withUpstream(snap.updates[i].Progress)
	}
	return snap
}

const (
	// yield is after how many subscriptions collect gives the lock to others.
	yield = 128
	// maxBatch bounds what one step of the store writes.
	maxBatch = 1000
)

// write stores a snapshot.
func (s *Shard) write(ctx context.Context, snap *snapshot) error {
	batch := s.e.saver.batch
	for i := 0; i < len(snap.updates); i += batch {
		end := min(i+batch, len(snap.updates))
		var err error
		if some := snap.updates[i:end]; snap.made {
			err = s.o.Store.SaveAttempts(ctx, some, snap.attempts[i:end])
		} else {
			err = s.o.Store.SaveProgress(ctx, some)
		}
		if err != nil {
			return fmt.Errorf("delivery: save progress: %w", err)
		}
	}
	for l := range snap.concerns {
		if _, ok := snap.to[l]; !ok {
			snap.to[l] = 0
		}
	}
	for l, to := range snap.to {
		concerns := snap.concerns[l]
		for first := true; first || len(concerns) > 0; first = false {
			n := min(len(concerns), batch)
			upto := to
			if n < len(concerns) {
				upto = 0 // with the last ones
			}
			if err := s.o.Store.Dispatched(ctx, l.name, upto, concerns[:n]); err != nil {
				return fmt.Errorf("delivery: record which subscriptions get log %s: %w", l.name, err)
			}
			concerns = concerns[n:]
		}
	}
	return nil
}
