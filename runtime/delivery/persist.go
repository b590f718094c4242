package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Log is an event log as far as the engine has to do with it: its name in the store, where its
// head is, and what was left to do when the process ended.
type Log struct {
	e    *Engine
	name string
	head func() store.Position

	advanced atomic.Bool

	// Under e.mu.
	ready    bool
	recorded store.Position           // stored as dispatched
	concerns map[string]store.Concern // until ready
}

// OpenLog makes a log known and loads what was left to do. head returns the last position for which
// every Wake has been called; it may take the append lock. Then add the restored subscriptions and
// call [Log.Ready].
func (e *Engine) OpenLog(ctx context.Context, name string, head func() store.Position) (*Log, error) {
	l := &Log{e: e, name: name, head: head, concerns: map[string]store.Concern{}}
	if e.o.Store != nil {
		to, concerns, err := e.o.Store.Resume(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("delivery: resume log %s: %w", name, err)
		}
		l.recorded = to
		for _, c := range concerns {
			l.concerns[c.ID] = c
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.saver.logs == nil {
		e.saver.logs = map[*Log]struct{}{}
	}
	e.saver.logs[l] = struct{}{}
	return l, nil
}

// Ready says that all restored subscriptions of the log are added: from now on the engine records
// how far the log is dispatched, so that a restart scans nothing before it again.
func (l *Log) Ready() {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	l.ready, l.concerns = true, nil
	l.advanced.Store(true)
	l.e.armSaver()
}

// Advanced says that the head has moved and that Wake was called for whom it concerns. It never
// waits and may be called under the append lock.
func (l *Log) Advanced() {
	if l.advanced.Swap(true) {
		return
	}
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	l.e.armSaver()
}

// Close forgets a log that ends, such as that of a removed event type.
func (l *Log) Close() {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	delete(l.e.saver.logs, l)
}

// restore sets where a subscription begins that was there before: with a concern at its base or
// just before the concern, without one after everything dispatched.
func (l *Log) restore(h *Handle, p store.Progress) {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	if c, ok := l.concerns[h.id]; ok && c.Generation == h.generation {
		h.row = true
		p.Base = max(p.Base, c.First-1)
	} else {
		p.Base = max(p.Base, l.recorded)
	}
	h.marks = NewWatermark(p)
}

// A saver collects what is to be stored. flush is held during one writing; the rest belongs to
// the engine's lock.
type saver struct {
	flush sync.Mutex
	dirty []*Handle
	logs  map[*Log]struct{}
	timer *time.Timer
	armed bool
	off   bool
	pause time.Duration // before the next writing, while they fail
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
	if e.o.Store == nil || h.dirty || h.gone {
		return
	}
	h.dirty = true
	e.saver.dirty = append(e.saver.dirty, h)
	e.armSaver()
}

func (e *Engine) armSaver() {
	s := &e.saver
	if e.o.Store == nil || s.armed || s.off {
		return
	}
	s.armed = true
	wait := max(e.o.FlushInterval, s.pause)
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, e.save)
		return
	}
	s.timer.Reset(wait)
}

const (
	// saveTime bounds one writing that nobody waits for.
	saveTime = 30 * time.Second
	// maxSavePause is the longest wait between writings that fail.
	maxSavePause = 10 * time.Second
)

func (e *Engine) save() {
	ctx, cancel := context.WithTimeout(e.base, saveTime)
	defer cancel()
	if err := e.Flush(ctx); err != nil && e.base.Err() == nil {
		e.o.Logger.LogAttrs(ctx, slog.LevelError, "storing the progress of webhook subscriptions", slog.Any("error", err))
	}
}

// pin stores that everything after h's base concerns it.
func (e *Engine) pin(ctx context.Context, h *Handle) error {
	if e.o.Store == nil {
		return nil
	}
	c := store.Concern{ID: h.id, Generation: h.generation, First: h.marks.Base() + 1}
	if err := e.o.Store.Dispatched(ctx, h.log.name, 0, []store.Concern{c}); err != nil {
		return fmt.Errorf("delivery: subscription %s: %w", h.id, err)
	}
	return nil
}

// quiet reports whether nothing is left to do for h and its reader will say when there is.
func (h *Handle) quiet() bool {
	return h.parked && !h.woken && !h.reading && len(h.window) == 0 && len(h.controls) == 0 && !h.health.suspended
}

// A snapshot is what one writing stores.
type snapshot struct {
	handles  []*Handle
	updates  []store.Update
	owners   []*Handle // beside updates
	concerns map[*Log][]store.Concern
	to       map[*Log]store.Position
	made     bool // there are attempts among the updates
}

// Flush stores now what has changed. Whatever cannot be stored is tried again later.
//
// The order is what makes a crash harmless: a log's head is asked first, then the subscriptions,
// so that whatever concerns one at or before that head shows in its state; that concern is stored
// with the head, in one step, and the removal of concerns before it.
func (e *Engine) Flush(ctx context.Context) error {
	if e.o.Store == nil {
		return nil
	}
	e.saver.flush.Lock()
	defer e.saver.flush.Unlock()
	s := e.collect()
	err := e.write(ctx, s)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		e.saver.pause = 0
		for l, to := range s.to {
			l.recorded = max(l.recorded, to)
		}
		if s.made {
			e.trimmer.hasten(trimSoon)
		}
		return nil
	}
	e.saver.pause = min(max(2*e.saver.pause, e.o.FlushInterval), maxSavePause)
	for i, h := range s.owners {
		h.giveBackMade(s.updates[i].Attempts)
	}
	for _, h := range s.handles {
		h.row, h.touched = false, true
		e.changed(h)
	}
	for l := range s.to {
		l.advanced.Store(true)
	}
	e.armSaver()
	return err
}

// collect takes a snapshot.
func (e *Engine) collect() *snapshot {
	s := &snapshot{concerns: map[*Log][]store.Concern{}, to: map[*Log]store.Position{}}
	e.mu.Lock()
	e.saver.armed = false
	var logs []*Log
	for l := range e.saver.logs {
		if l.ready {
			logs = append(logs, l)
		}
	}
	e.mu.Unlock()
	for _, l := range logs {
		if l.advanced.Swap(false) {
			s.to[l] = l.head()
		}
	}
	e.mu.Lock()
	s.handles, e.saver.dirty = e.saver.dirty, nil
	for _, h := range s.handles {
		h.dirty = false
	}
	for i, h := range s.handles {
		if i%yield == yield-1 {
			e.mu.Unlock() // nobody waits for thousands of subscriptions
			e.mu.Lock()
		}
		h.passParked()
		if h.gone {
			continue
		}
		quiet := h.quiet()
		if quiet && !h.row && !h.touched {
			continue // what is dispatched covers it
		}
		s.updates = append(s.updates, store.Update{ID: h.id, Generation: h.generation, Progress: h.progress(), Health: h.health.stored(), Idle: quiet,
			Attempts: h.takeMade()})
		s.made = s.made || len(s.updates[len(s.updates)-1].Attempts) > 0
		s.owners = append(s.owners, h)
		h.touched = false
		switch {
		case quiet:
			h.row = false
		case h.log != nil && !h.row:
			h.row = true
			s.concerns[h.log] = append(s.concerns[h.log], store.Concern{ID: h.id, Generation: h.generation, First: h.marks.Base() + 1})
		}
	}
	e.mu.Unlock()
	for i, h := range s.owners {
		s.updates[i].Progress = h.withUpstream(s.updates[i].Progress)
	}
	return s
}

const (
	// yield is after how many subscriptions collect gives the lock to others.
	yield = 128
	// maxBatch bounds what one step of the store writes.
	maxBatch = 1000
)

// write stores a snapshot.
func (e *Engine) write(ctx context.Context, s *snapshot) error {
	for batch := range slices.Chunk(s.updates, e.saver.batch) {
		if err := e.o.Store.SaveProgress(ctx, batch); err != nil {
			return fmt.Errorf("delivery: save progress: %w", err)
		}
	}
	for l := range s.concerns {
		if _, ok := s.to[l]; !ok {
			s.to[l] = 0
		}
	}
	for l, to := range s.to {
		concerns := s.concerns[l]
		for first := true; first || len(concerns) > 0; first = false {
			n := min(len(concerns), e.saver.batch)
			upto := to
			if n < len(concerns) {
				upto = 0 // with the last ones
			}
			if err := e.o.Store.Dispatched(ctx, l.name, upto, concerns[:n]); err != nil {
				return fmt.Errorf("delivery: record what log %s is dispatched to: %w", l.name, err)
			}
			concerns = concerns[n:]
		}
	}
	return nil
}
