package client

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// keptIDs is how many eventIds are saved beside a cursor, at least: those after the cursor are all
// saved, however many they are.
const keptIDs = 256

// saveTimeout bounds one call of a cursor store.
const saveTimeout = 10 * time.Second

// A ledger is what a subscription knows of its progress as the application sees it (CLI-6).
type ledger struct {
	store store.CursorStore // nil keeps nothing
	key   string

	mu     sync.Mutex
	handed []string // eventIds handed out and not committed
	at     string   // the cursor after what was handed out; "" while none is known
	saved  store.Saved
	after  int // how many of the handed out ids are newer than at
	dirty  bool

	// Of the webhook mode, where events come in any order and bodies may wait in a store.
	callback         *callback
	taken, forgotten uint64 // the last sequence handed out, and the last one forgotten
	window, moves    int    // ids and moves of the cursor since the last look at both
}

func (l *ledger) useCallback(cb *callback) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.callback = cb
}

// handOut records that the application has it, or that the cursor advanced behind what it has.
func (l *ledger) handOut(it item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if it.occurrence != nil && it.occurrence.EventID != "" {
		l.handed = append(l.handed, it.occurrence.EventID)
		l.after++
		l.window++
	}
	l.taken = max(l.taken, it.sequence)
	if it.cursor == nil || *it.cursor == "" {
		return
	}
	if *it.cursor != l.at {
		l.moves++
	}
	l.at = *it.cursor
	switch {
	case l.callback == nil:
		l.after = 0
	case l.window >= keptIDs:
		// A webhook's cursor is a watermark: one event that fails holds it while others arrive,
		// and those are newer than it. Only a cursor that keeps moving tells that none is far ahead.
		if l.moves >= keptIDs/16 {
			l.after = keptIDs
		}
		l.window, l.moves = 0, 0
		l.after = min(l.after, l.callback.s.c.opts.RecentIDs)
	}
}

// commit saves everything handed out so far. A subscription without a cursor has nothing to save: a
// null cursor is never persisted.
func (l *ledger) commit(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store == nil {
		l.handed = l.handed[:0]
		return nil
	}
	if len(l.handed) > 0 || l.at != l.saved.Cursor || l.taken > l.forgotten {
		l.dirty = true
	}
	if !l.dirty {
		return nil
	}
	if l.at == "" {
		l.after = 0 // newer than nothing: the recent ones will do
	}
	ids := append(l.saved.EventIDs, l.handed...)
	if extra := len(ids) - max(keptIDs, l.after); extra > 0 {
		ids = ids[extra:]
	}
	l.saved = store.Saved{Cursor: l.at, EventIDs: slices.Clone(ids)}
	l.handed = l.handed[:0]
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	if err := l.write(ctx); err != nil {
		return &CommitError{Key: l.key, Err: err}
	}
	l.dirty = false
	return nil
}

// write saves l.saved, and forgets the bodies that are done with in the same step.
func (l *ledger) write(ctx context.Context) error {
	if l.callback != nil && l.at == "" {
		// Before the bodies go: between the two an event is known and stored, and not handed out
		// again.
		err := l.callback.save(ctx, func(c *store.Callback) { c.EventIDs = l.saved.EventIDs })
		if err != nil {
			return err
		}
	}
	if l.taken > l.forgotten {
		if err := l.callback.w.Received.TakeReceived(ctx, l.key, l.taken, l.saved); err != nil {
			return err
		}
		l.forgotten = l.taken
		return nil
	}
	if l.at == "" {
		return nil
	}
	return l.store.Save(ctx, l.key, l.saved)
}

// position is the cursor after what was handed out.
func (l *ledger) position() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at
}
