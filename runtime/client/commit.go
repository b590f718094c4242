package client

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// keptIDs is how many eventIds are saved beside a cursor, at least: those after the cursor are all
// saved, however many they are.
const keptIDs = 256

// saveTimeout bounds one call of a cursor store.
const saveTimeout = 10 * time.Second

// A place is what a ledger knows of one item that was handed out. The ledger's lock guards it.
type place struct {
	id       string // the eventId; "" for none
	cursor   string // reached once this item and all before it are settled; "" where no position is known
	sequence uint64 // the last place in the received store that is done with it
	settled  bool
	since    time.Time // when the event happened; zero where nobody asks
}

// A ledger is what a subscription knows of its progress as the application sees it (CLI-6): what was handed
// out, and the watermark, before which everything is settled. Iterations settle in order; the workers of
// Consume in any (CON-2).
type ledger struct {
	store   clientstore.CursorStore // nil keeps nothing
	key     string
	changed chan struct{} // a token when there is something to save; nil where nobody waits for it

	mu    sync.Mutex
	open  []*place // handed out, from the oldest that is not settled on
	at    string   // the cursor after what was handed out; "" while none is known
	mark  string   // the watermark: the cursor after what is settled
	ids   []string // eventIds of what is settled below open, oldest first
	after int      // how many of ids are newer than mark
	dirty bool

	// Of the webhook mode, where events come in any order and bodies may wait in a store.
	callback      *callback
	taken         uint64 // the last sequence that is settled with all before it
	window, moves int    // ids and moves of the cursor since the last look at both

	saving    sync.Mutex // held while the store is written, without mu
	forgotten uint64     // the last sequence that the store has forgotten
}

func (l *ledger) useCallback(cb *callback) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.callback = cb
}

// handOut records that the application has it, or that the cursor advanced behind what it has.
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

// settle records that the application is done with p, and moves the watermark as far as everything is.
func (l *ledger) settle(p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.settled = true
	if p.id != "" {
		l.change() // saved by its id while something before it is open
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
		// A webhook's cursor is a watermark: one event that fails holds it while others arrive,
		// and those are newer than it. Only a cursor that keeps moving tells that none is far ahead.
		if l.moves >= keptIDs/16 {
			l.after = keptIDs
		}
		l.window, l.moves = 0, 0
		l.after = min(l.after, l.callback.s.c.opts.RecentIDs)
	}
}

// change tells that there is something to save; mu is held.
func (l *ledger) change() {
	l.dirty = true
	wake(l.changed)
}

// commit settles and saves everything handed out so far.
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

// A record is what is written of a ledger at a time.
type record struct {
	clientstore.Saved
	callback *callback
	taken    uint64
}

// save writes the watermark, with the ids of what is settled beyond it. A subscription without a cursor has
// nothing to save: a null cursor is never persisted.
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

// snapshot returns what there is to save, if anything.
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
		l.after = 0 // newer than nothing: the recent ones will do
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

// write saves r, and forgets the bodies that are done with in the same step; saving is held.
func (l *ledger) write(ctx context.Context, r record) error {
	if r.callback != nil && r.Cursor == "" {
		// Before the bodies go: between the two an event is known and stored, and not handed out
		// again.
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

// position is the cursor after what was handed out.
func (l *ledger) position() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at
}

// begin sets where a subscription starts: at what was saved, or, with ok false, at a cursor that has yet to be.
func (l *ledger) begin(s clientstore.Saved, ok bool) {
	l.at, l.mark, l.ids = s.Cursor, s.Cursor, s.EventIDs
	// Which of them are newer than the cursor is not kept; all might be.
	l.after = len(s.EventIDs)
	l.dirty = !ok && s.Cursor != ""
}

// date tells when the event at p happened.
func (l *ledger) date(p *place, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.since = at
}

// ahead is how many items were handed out from the oldest on that is not settled.
func (l *ledger) ahead() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// isOldest reports whether p is the oldest item that is not settled.
func (l *ledger) isOldest(p *place) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open) > 0 && l.open[0] == p
}

// unsettled is how many items are not settled, and when the event at the oldest of them happened.
func (l *ledger) unsettled() (n int, oldest time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.open {
		if !p.settled {
			n++
		}
	}
	if n > 0 {
		oldest = l.open[0].since // it is not settled, or it would have been passed
	}
	return n, oldest
}
