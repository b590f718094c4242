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
}

// handOut records that the application has it, or that the cursor advanced behind what it has.
func (l *ledger) handOut(it item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if it.occurrence != nil && it.occurrence.EventID != "" {
		l.handed = append(l.handed, it.occurrence.EventID)
		l.after++
	}
	if it.cursor != nil && *it.cursor != "" {
		l.at, l.after = *it.cursor, 0
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
	if len(l.handed) > 0 || l.at != l.saved.Cursor {
		l.dirty = true
	}
	if !l.dirty {
		return nil
	}
	ids := append(l.saved.EventIDs, l.handed...)
	if extra := len(ids) - max(keptIDs, l.after); extra > 0 {
		ids = ids[extra:]
	}
	l.saved = store.Saved{Cursor: l.at, EventIDs: slices.Clone(ids)}
	l.handed = l.handed[:0]
	if l.at == "" {
		l.dirty = false
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	if err := l.store.Save(ctx, l.key, l.saved); err != nil {
		return &CommitError{Key: l.key, Err: err}
	}
	l.dirty = false
	return nil
}

// position is the cursor after what was handed out.
func (l *ledger) position() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at
}
