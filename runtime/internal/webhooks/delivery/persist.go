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

// A Log is an event log as seen by one shard. It consists of a name in the store, a head and a mark. The mark is the
// position up to which the shard's subscriptions have been offered the entries (REP-10).
type Log struct {
	shard *Shard
	name  string
	head  func() store.Position
	// openedMark is the mark at the time the log was opened. If a record is not stored as open, all occurrences up to
	// the mark at the time of its read are settled. This is also true of earlier marks, such as openedMark.
	openedMark store.Position

	advanced atomic.Bool

	// Under the engine's lock.
	ready  bool
	marked time.Time // when the mark was stored
}

// OpenLog opens a log and reads its mark. The function head returns the last position for which all calls to Wake have
// completed. The function may acquire the append lock. The caller must then add the stored subscriptions and call
// [Log.Ready].
func (s *Shard) OpenLog(ctx context.Context, name string, head func() store.Position) (*Log, error) {
	from, err := s.o.Store.Mark(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("delivery: read the mark of log %s: %w", name, err)
	}
	l := &Log{shard: s, name: name, head: head, openedMark: from}
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if !s.closed {
		s.logs[l] = struct{}{}
	}
	return l, nil
}

// Ready signals that each stored subscription of the log has been added or stored as open. The mark then starts to
// advance, so the entries before it are not scanned after a restart.
func (l *Log) Ready() {
	e := l.shard.e
	e.mu.Lock()
	defer e.mu.Unlock()
	l.ready = true
	l.advanced.Store(true)
	l.shard.scheduleWrite()
}

// Advanced signals that the head has moved and that Wake was called for the matching handles. It never blocks and can
// be called under the append lock.
func (l *Log) Advanced() {
	if l.advanced.Swap(true) {
		return
	}
	e := l.shard.e
	e.mu.Lock()
	defer e.mu.Unlock()
	l.shard.scheduleWrite()
}

// StoreOpen stores a subscription as open at the position where its delivery would start, unless it is already open.
// The caller uses it for subscriptions that it does not add, so the mark does not move past their occurrences.
func (l *Log) StoreOpen(ctx context.Context, s *store.Subscription) error {
	if s.Progress.Open {
		return nil
	}
	p := s.Progress
	p.Base, p.Open = max(p.Base, l.openedMark), true
	u := store.Update{ID: s.ID, Generation: s.Generation, Progress: p, Health: s.Health, Report: s.Report}
	if err := l.shard.o.Store.SaveProgress(ctx, []store.Update{u}); err != nil {
		return fmt.Errorf("delivery: subscription %s: %w", s.ID, err)
	}
	s.Progress = p
	return nil
}

// A saver schedules writes of changed progress. The engine's lock guards it.
type saver struct {
	timer *time.Timer
	armed bool
	off   bool
	pause time.Duration // before the next write, while writes fail
	was   time.Duration // before the current write, for all shards
	batch int           // largest number of updates per step
}

func (s *saver) stop() {
	s.off = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// scheduleWrite schedules a write of h, even if all its occurrences are settled.
func (e *Engine) scheduleWrite(h *Handle) {
	h.touched = true
	e.markDirty(h)
}

// markDirty marks h as dirty, because its progress or state differs from the record.
func (e *Engine) markDirty(h *Handle) {
	s := h.shard
	if s.closed || h.dirty || h.hasEnded() {
		return
	}
	h.dirty = true
	s.dirty = append(s.dirty, h)
	s.scheduleWrite()
}

// scheduleWrite schedules a write of the changes. The engine's lock must be held.
func (s *Shard) scheduleWrite() {
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
	// saveTime is the timeout for a background write.
	saveTime = 30 * time.Second
	// maxSavePause is the maximum pause after a failed write. It is short because all deliveries since the last write
	// are repeated after a crash.
	maxSavePause = 2 * time.Second
	// maxSavers is the maximum number of shards whose progress is written concurrently.
	maxSavers = 4
)

func (e *Engine) save() {
	ctx, cancel := context.WithTimeout(e.base, saveTime)
	defer cancel()
	if err := e.Flush(ctx); err != nil && e.base.Err() == nil {
		e.o.Logger.LogAttrs(ctx, slog.LevelError, "storing the progress of webhook subscriptions", slog.Any("error", err))
	}
}

// isQuiet reports whether h has nothing to do until its reader wakes it.
func (h *Handle) isQuiet() bool {
	return h.intake.isIdle() && len(h.window) == 0 && len(h.controls) == 0 && !h.isSuspended()
}

// A snapshot contains the data for one write.
type snapshot struct {
	handles  []*Handle
	updates  []store.Update
	attempts [][]operator.Attempt // parallel to updates
	owners   []*Handle            // parallel to updates
	marks    map[*Log]store.Position
	made     bool // has attempts
}

// Flush stores all changes now. Failed writes are retried later.
//
// The order of writes makes a crash harmless. First, save reads a log's head and then the subscriptions, so their state
// includes every matching entry up to that head. It then stores their progress and whether they are open. Last, it
// stores the head as the log's mark (REP-10).
func (e *Engine) Flush(ctx context.Context) error {
	e.mu.Lock()
	e.saver.armed, e.saver.was = false, e.saver.pause
	var changed []*Shard
	for s := range e.shards {
		if s.hasUnsaved() || len(s.flush) > 0 { // a write in progress has taken some changes
			changed = append(changed, s)
		}
	}
	e.mu.Unlock()
	if len(changed) == 1 {
		return changed[0].save(ctx, false)
	}
	errs := make([]error, len(changed))
	places := make(chan struct{}, maxSavers)
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

// hasUnsaved reports whether the shard has unsaved changes. The engine's lock must be held.
func (s *Shard) hasUnsaved() bool {
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

// save writes the changes. If marks is set, it also writes marks that have been stored recently.
func (s *Shard) save(ctx context.Context, marks bool) error {
	e := s.e
	select {
	case s.flush <- struct{}{}:
		defer func() { <-s.flush }()
	case <-ctx.Done():
		e.mu.Lock()
		defer e.mu.Unlock()
		s.scheduleWrite()
		return ctx.Err()
	}
	snap := s.collect(marks)
	err := s.write(ctx, snap)
	if errors.Is(err, engine.ErrFenced) && s.canMove() {
		s.handleFenced()
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		e.saver.pause = 0
		if snap.made {
			e.trimmer.advance(trimDelay)
		}
		if s.hasUnsaved() {
			s.scheduleWrite() // retry the marks that were not due
		}
		return nil
	}
	e.saver.pause = min(max(2*e.saver.was, e.o.FlushInterval), maxSavePause)
	for i, h := range snap.owners {
		h.restoreUnsaved(snap.attempts[i])
	}
	for _, h := range snap.handles {
		h.touched = true
		e.markDirty(h)
	}
	for l := range snap.marks {
		l.advanced.Store(true)
	}
	s.scheduleWrite()
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
		if l.ready && (marks || s.isMarkDue(l, now)) {
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
	if len(s.handles) == 0 && s.canMove() {
		clear(snap.marks) // no subscription would start there
	}
	snap.handles, s.dirty = s.dirty, nil
	for _, h := range snap.handles {
		h.dirty = false
	}
	for i, h := range snap.handles {
		if i%yieldEvery == yieldEvery-1 {
			e.mu.Unlock() // let other goroutines take the lock
			e.mu.Lock()
		}
		h.advanceParked()
		if h.hasEnded() || h.untold {
			continue
		}
		open := !h.isQuiet()
		if !open && !h.open && !h.touched {
			continue // the mark covers it
		}
		h.open = open && h.log != nil
		snap.updates = append(snap.updates, store.Update{ID: h.id, Generation: h.generation, Progress: h.progress(),
			Health: h.storedHealth(), Report: h.report()})
		made := h.takeUnsaved()
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
	// yieldEvery is the number of subscriptions that collect processes before it briefly releases the lock.
	yieldEvery = 128
	// maxBatch is the maximum number of updates in one write to the store.
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
