package client

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// keptIDs is the minimum number of eventIds saved with a cursor. All eventIds after the cursor are saved, regardless of
// their number.
const keptIDs = 256

// saveTimeout bounds one call of a cursor store.
const saveTimeout = 10 * time.Second

// A place is a ledger's record of one item that was handed out. The ledger's lock guards it.
type place struct {
	id       string // the eventId; "" if the item has none
	cursor   string // reached once this item and all before it are settled; "" if unknown
	sequence uint64 // the last sequence of the received store that this item covers
	settled  bool
	since    time.Time // when the event happened; zero if it was not recorded
}

// A ledger tracks a subscription's progress in the application (CLI-6): the items handed out, and the watermark, up to
// which everything is settled. Iterations settle in order; the workers of Consume settle in any order (CON-2).
type ledger struct {
	store   clientstore.CursorStore // nil saves nothing
	key     string
	changed chan struct{} // a token when there is something to save; nil if nothing waits for it

	mu    sync.Mutex
	open  []*place // handed out, starting with the oldest unsettled item
	at    string   // the cursor after the last item handed out; "" while unknown
	mark  string   // the watermark: the cursor after the last settled item
	ids   []string // eventIds settled before open, oldest first
	after int      // how many of ids are newer than mark
	dirty bool

	// Fields of webhook mode, in which events arrive in any order and bodies may wait in a store.
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

// handOut records that the application received the item, or that the cursor advanced past its last item.
func (l *ledger) handOut(it item) *place {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &place{sequence: it.sequence, settled: !it.shown()}
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
		l.pass(p)
	default:
		last := l.open[n-1]
		last.sequence = max(last.sequence, p.sequence)
		if p.cursor != "" {
			last.cursor = p.cursor
		}
	}
	return p
}

// settle records that the application has finished p, and advances the watermark over all settled items.
func (l *ledger) settle(p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.settled = true
	if p.id != "" {
		l.change() // saved by its ID while an earlier item is open
	}
	for len(l.open) > 0 && l.open[0].settled {
		l.pass(l.open[0])
		l.open[0] = nil
		l.open = l.open[1:]
	}
}

// pass moves the watermark past p; mu is held.
func (l *ledger) pass(p *place) {
	if p.id != "" {
		l.ids = append(l.ids, p.id)
		l.after++
		l.window++
		l.change()
	}
	if p.sequence > l.taken {
		l.taken = p.sequence
		l.change()
	}
	if p.cursor == "" {
		return
	}
	if p.cursor != l.mark {
		l.moves++
		l.change()
	}
	l.mark = p.cursor
	switch {
	case l.callback == nil:
		l.after = 0
	case l.window >= keptIDs:
		// A webhook's cursor is a watermark: a failing event holds it while newer events arrive. Only a cursor that
		// keeps moving shows that no event is far ahead.
		if l.moves >= keptIDs/16 {
			l.after = keptIDs
		}
		l.window, l.moves = 0, 0
		l.after = min(l.after, l.callback.s.c.opts.RecentIDs)
	}
}

// change marks the ledger dirty and wakes the saver; mu is held.
func (l *ledger) change() {
	l.dirty = true
	wake(l.changed)
}

// commit settles and saves all items handed out so far.
func (l *ledger) commit(ctx context.Context) error {
	l.mu.Lock()
	for _, p := range l.open {
		p.settled = true
		l.pass(p)
	}
	clear(l.open)
	l.open = l.open[:0]
	l.mu.Unlock()
	return l.save(ctx)
}

// A record is one snapshot of a ledger for the stores.
type record struct {
	clientstore.Saved
	callback *callback
	taken    uint64
}

// save writes the watermark, with the eventIds settled after it. A subscription without a cursor saves nothing: a null
// cursor is never persisted.
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

// snapshot returns the record to save, if there are changes.
func (l *ledger) snapshot() (record, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store == nil {
		l.ids, l.after = l.ids[:0], 0
		return record{}, false
	}
	if !l.dirty {
		return record{}, false
	}
	l.dirty = false
	if l.mark == "" {
		l.after = 0 // without a mark only the recent ones are kept
	}
	if extra := len(l.ids) - max(keptIDs, l.after); extra > 0 {
		l.ids = slices.Delete(l.ids, 0, extra)
	}
	ids := slices.Clone(l.ids)
	for _, p := range l.open {
		if p.settled && p.id != "" {
			ids = append(ids, p.id)
		}
	}
	return record{clientstore.Saved{Cursor: l.mark, EventIDs: ids}, l.callback, l.taken}, true
}

// write saves r and deletes the settled bodies in the same step; saving is held.
func (l *ledger) write(ctx context.Context, r record) error {
	if r.callback != nil && r.Cursor == "" {
		// The IDs are saved before the bodies are deleted: after a crash between the two, an event that is still stored
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

// begin sets the start of a subscription: the saved state, or, with ok false, an unsaved cursor.
func (l *ledger) begin(s clientstore.Saved, ok bool) {
	l.at, l.mark, l.ids = s.Cursor, s.Cursor, s.EventIDs
	// The store does not record which IDs are newer than the cursor, so all of them may be.
	l.after = len(s.EventIDs)
	l.dirty = !ok && s.Cursor != ""
}

// date records when the event at p happened.
func (l *ledger) date(p *place, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.since = at
}

// ahead returns the number of items handed out since the oldest unsettled one, including it.
func (l *ledger) ahead() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// isOldest reports whether p is the oldest unsettled item.
func (l *ledger) isOldest(p *place) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open) > 0 && l.open[0] == p
}

// unsettled returns the number of unsettled items, and when the oldest of their events happened.
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
