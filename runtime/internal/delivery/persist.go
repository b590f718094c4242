package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Log is an event log as far as a shard has to do with it: its name in the store, where its head is,
// and its mark, the position up to which it was offered to the shard's subscriptions (REP-10).
type Log struct {
	shard *Shard
	name  string
	head  func() store.Position
	// from is the mark when the log was opened. A record that is stored as closed has nothing unsettled
	// up to the mark that was stored when the record was read, nor up to an earlier mark such as from.
	from store.Position

	advanced atomic.Bool

	// Under the engine's lock.
	ready  bool
	marked time.Time // when the mark was stored
}

// OpenLog opens a log and reads its mark. head returns the last position for which every Wake has been
// called; it may take the append lock. Then add the stored subscriptions and call [Log.Ready].
func (s *Shard) OpenLog(ctx context.Context, name string, head func() store.Position) (*Log, error) {
	from, err := s.o.Store.Mark(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("delivery: read the mark of log %s: %w", name, err)
	}
	l := &Log{shard: s, name: name, head: head, from: from}
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if !s.closed {
		s.logs[l] = struct{}{}
	}
	return l, nil
}

// Ready tells the engine that each stored subscription of the log is added or stored as open: from now on
// the mark moves, so that a restart does not scan the entries before it.
func (l *Log) Ready() {
	e := l.shard.e
	e.mu.Lock()
	defer e.mu.Unlock()
	l.ready = true
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

// StoreOpen stores a subscription as open, at the position at which its delivery would begin, unless it is open
// already. It is for subscriptions that are not added: the mark then passes nothing that they are to get.
func (l *Log) StoreOpen(ctx context.Context, s *store.Subscription) error {
	if s.Progress.Open {
		return nil
	}
	p := s.Progress
	p.Base, p.Open = max(p.Base, l.from), true
	u := store.Update{ID: s.ID, Generation: s.Generation, Progress: p, Health: s.Health}
	if err := l.shard.o.Store.SaveProgress(ctx, []store.Update{u}); err != nil {
		return fmt.Errorf("delivery: subscription %s: %w", s.ID, err)
	}
	s.Progress = p
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
	if s.closed || h.dirty || h.gone() && !h.detached {
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
	marks    map[*Log]store.Position
	made     bool // there are attempts
}

// Flush stores now what has changed. Whatever cannot be stored is tried again later.
//
// The order makes a crash harmless: save reads a log's head first and looks at the subscriptions then, so
// that whatever one is to get at or before that head shows in its state. It stores their progress next,
// with the open bits, and the head as the log's mark only after all of it (REP-10).
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
	select {
	case s.flush <- struct{}{}:
		defer func() { <-s.flush }()
	case <-ctx.Done():
		e.mu.Lock()
		defer e.mu.Unlock()
		s.arm()
		return ctx.Err()
	}
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
		for _, h := range snap.owners {
			h.detached = h.detached && h.dirty
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
		h.touched = true
		e.changed(h)
	}
	for l := range snap.marks {
		l.advanced.Store(true)
	}
	s.arm()
	return err
}

// collect takes a snapshot.
func (s *Shard) collect(marks bool) *snapshot {
	e := s.e
	snap := &snapshot{marks: map[*Log]store.Position{}}
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
			snap.marks[l] = l.head()
		}
	}
	e.mu.Lock()
	if len(s.handles) == 0 && s.owned() {
		clear(snap.marks) // nobody would begin there
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
		if h.gone() && !h.detached || h.untold {
			continue
		}
		open := h.detached || !h.quiet()
		if !open && !h.open && !h.touched {
			continue // the mark covers it
		}
		h.open = open && h.log != nil
		snap.updates = append(snap.updates, store.Update{ID: h.id, Generation: h.generation, Progress: h.progress(),
			Health: h.health.stored()})
		made := h.takeMade()
		snap.attempts = append(snap.attempts, made)
		snap.made = snap.made || len(made) > 0
		snap.owners = append(snap.owners, h)
		h.touched = false
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
	for l, to := range snap.marks {
		if err := s.o.Store.SaveMark(ctx, l.name, to); err != nil {
			return fmt.Errorf("delivery: save the mark of log %s: %w", l.name, err)
		}
	}
	return nil
}
