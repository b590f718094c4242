package client

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// minSavedIDs is the minimum number of eventIds saved with a cursor. All eventIds after the cursor are saved,
// regardless of their number.
const minSavedIDs = 256

// saveTimeout is the timeout for one call to a cursor store.
const saveTimeout = 10 * time.Second

// A ledgerEntry records one item that was handed out. The ledger's lock guards it.
type ledgerEntry struct {
	id       string // the eventId; "" if the item has none
	cursor   string // reached once this item and all before it are settled; "" if unknown
	sequence uint64 // the last sequence of the received store that this item covers
	settled  bool
	since    time.Time // when the event happened; zero if it was not recorded
}

// A ledger tracks which items of a subscription the application has received and settled (CLI-6). Its watermark is the
// position up to which all items are settled. Iterations settle items in order. The workers of Consume settle them in
// any order (CON-2).
type ledger struct {
	store   clientstore.CursorStore // nil saves nothing
	key     string
	changed chan struct{} // a token when there is something to save; nil if nothing waits for it

	mu    sync.Mutex
	open  []*ledgerEntry // handed out, starting with the oldest unsettled item
	at    string         // the cursor after the last item handed out; "" while unknown
	mark  string         // the watermark: the cursor after the last settled item
	ids   []string       // eventIds settled before open, oldest first
	after int            // how many of ids are newer than mark
	dirty bool

	// Fields for webhook mode, in which events arrive in any order and bodies may wait in a store.
	callback      *callback
	taken         uint64 // the last sequence up to which everything is settled
	window, moves int    // ids and cursor moves since both were last checked

	saving    sync.Mutex // held during writes to the store, without mu
	forgotten uint64     // the last sequence deleted from the store
}

func (l *ledger) useCallback(cb *callback) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.callback = cb
}

// handOut records that the application received the item, or that the cursor advanced beyond the last item.
func (l *ledger) handOut(it item) *ledgerEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &ledgerEntry{sequence: it.sequence, settled: !it.shown()}
	if it.occurrence != nil {
		p.id = it.occurrence.EventID
	}
	if it.cursor != nil && *it.cursor != "" {
		p.cursor = *it.cursor
		l.at = p.cursor
	}
	switch n := len(l.open); {
	case !p.settled:
		l.open = append(l.open, p)
	case n == 0:
		l.advancePast(p)
	default:
		last := l.open[n-1]
		last.sequence = max(last.sequence, p.sequence)
		if p.cursor != "" {
			last.cursor = p.cursor
		}
	}
	return p
}

// settle records that the application has finished handling p, and advances the watermark past all settled items.
func (l *ledger) settle(p *ledgerEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.settled = true
	if p.id != "" {
		l.markDirty() // saved by its ID while an earlier item is open
	}
	for len(l.open) > 0 && l.open[0].settled {
		l.advancePast(l.open[0])
		l.open[0] = nil
		l.open = l.open[1:]
	}
}

// advancePast moves the watermark past p. The caller must hold mu.
func (l *ledger) advancePast(p *ledgerEntry) {
	if p.id != "" {
		l.ids = append(l.ids, p.id)
		l.after++
		l.window++
		l.markDirty()
	}
	if p.sequence > l.taken {
		l.taken = p.sequence
		l.markDirty()
	}
	if p.cursor == "" {
		return
	}
	if p.cursor != l.mark {
		l.moves++
		l.markDirty()
	}
	l.mark = p.cursor
	switch {
	case l.callback == nil:
		l.after = 0
	case l.window >= minSavedIDs:
		// A webhook's cursor is a watermark: a failing event stops it while newer events arrive. Only a cursor that
		// keeps moving shows that no event is far ahead.
		if l.moves >= minSavedIDs/16 {
			l.after = minSavedIDs
		}
		l.window, l.moves = 0, 0
		l.after = min(l.after, l.callback.s.c.opts.RecentIDs)
	}
}

// markDirty marks the ledger as dirty and wakes the saver. The caller must hold mu.
func (l *ledger) markDirty() {
	l.dirty = true
	wake(l.changed)
}

// commit settles and saves all items handed out so far.
func (l *ledger) commit(ctx context.Context) error {
	l.mu.Lock()
	for _, p := range l.open {
		p.settled = true
		l.advancePast(p)
	}
	clear(l.open)
	l.open = l.open[:0]
	l.mu.Unlock()
	return l.save(ctx)
}

// A ledgerSnapshot is the part of a ledger's state that is saved.
type ledgerSnapshot struct {
	clientstore.Saved
	callback *callback
	taken    uint64
}

// save writes the watermark and the eventIds settled after it. It writes nothing for a subscription without a cursor,
// because a null cursor is never persisted.
func (l *ledger) save(ctx context.Context) error {
	l.saving.Lock()
	defer l.saving.Unlock()
	r, ok := l.snapshot()
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	if err := l.write(ctx, r); err != nil {
		l.mu.Lock()
		l.dirty = true
		l.mu.Unlock()
		return &CommitError{Key: l.key, Err: err}
	}
	return nil
}

// snapshot returns the state to save. It returns false if nothing has changed.
func (l *ledger) snapshot() (ledgerSnapshot, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store == nil {
		l.ids, l.after = l.ids[:0], 0
		return ledgerSnapshot{}, false
	}
	if !l.dirty {
		return ledgerSnapshot{}, false
	}
	l.dirty = false
	if l.mark == "" {
		l.after = 0 // without a mark only the recent ones are kept
	}
	if extra := len(l.ids) - max(minSavedIDs, l.after); extra > 0 {
		l.ids = slices.Delete(l.ids, 0, extra)
	}
	ids := slices.Clone(l.ids)
	for _, p := range l.open {
		if p.settled && p.id != "" {
			ids = append(ids, p.id)
		}
	}
	return ledgerSnapshot{clientstore.Saved{Cursor: l.mark, EventIDs: ids}, l.callback, l.taken}, true
}

// write saves r and deletes the settled bodies in the same step. The caller must hold saving.
func (l *ledger) write(ctx context.Context, r ledgerSnapshot) error {
	if r.callback != nil && r.Cursor == "" {
		// The IDs are saved before the bodies are deleted. After a crash between the two, an event that is still stored
		// is recognized as a duplicate.
		err := r.callback.save(ctx, func(c *clientstore.Callback) { c.EventIDs = r.EventIDs })
		if err != nil {
			return err
		}
	}
	if r.taken > l.forgotten {
		if err := r.callback.w.Received.TakeReceived(ctx, l.key, r.taken, r.Saved); err != nil {
			return err
		}
		l.forgotten = r.taken
		return nil
	}
	if r.Cursor == "" {
		return nil
	}
	return l.store.Save(ctx, l.key, r.Saved)
}

// position returns the cursor after the last item handed out.
func (l *ledger) position() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at
}

// setStart sets the start position of a subscription. If ok is true, s was loaded from the store. Otherwise it holds an
// unsaved cursor.
func (l *ledger) setStart(s clientstore.Saved, ok bool) {
	l.at, l.mark, l.ids = s.Cursor, s.Cursor, s.EventIDs
	// The store does not record which IDs are newer than the cursor. Any of them may be.
	l.after = len(s.EventIDs)
	l.dirty = !ok && s.Cursor != ""
}

// setTime records the time of the event in p.
func (l *ledger) setTime(p *ledgerEntry, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.since = at
}

// openItems returns the number of items handed out since the oldest unsettled item, including that item.
func (l *ledger) openItems() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// isOldest reports whether p is the oldest unsettled item.
func (l *ledger) isOldest(p *ledgerEntry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open) > 0 && l.open[0] == p
}

// unsettled returns the number of unsettled items and the time of the oldest unsettled event.
func (l *ledger) unsettled() (n int, oldest time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.open {
		if !p.settled {
			n++
		}
	}
	if n > 0 {
		oldest = l.open[0].since // the first open item is never settled: pass removes it
	}
	return n, oldest
}
