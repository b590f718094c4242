package client

import (
	"context"
	"errors"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// An item is an occurrence, a gap or an error for the application, or just a cursor advance.
type item struct {
	occurrence *wire.Occurrence
	gap        *GapError
	note       error
	carried    *carriedItem
	// cursor is the position after this item, or nil if it is unknown.
	cursor *string
	// sequence is the last sequence number in the received store that this item covers, or 0.
	sequence uint64
	// place is the item's ledger entry, set when the item is handed out.
	place *ledgerEntry
}

// size returns the approximate size of the server's data in the item.
func (i *item) size() int64 {
	if o := i.occurrence; o != nil {
		return int64(len(o.Data) + len(o.Meta))
	}
	if i.carried != nil {
		return i.carried.size
	}
	var bad *PayloadError
	if errors.As(i.note, &bad) {
		return int64(len(bad.Occurrence.Raw) + len(bad.Occurrence.Meta))
	}
	return 0
}

func (i *item) shown() bool {
	return i.occurrence != nil || i.gap != nil || i.note != nil || i.carried != nil
}

// A carriedItem is an item that only the subscription's carrier can decode.
type carriedItem struct {
	value any
	size  int64
}

// An inbox is a bounded queue from a subscription's loop to its iterator.
type inbox struct {
	limit int
	bytes int64         // limit of the items' bytes, not counting the last item
	more  chan struct{} // a token when there is an item
	room  chan struct{} // a token when there is room

	mu    sync.Mutex
	used  bool // put or advance was called
	items []item
	held  int64
	ended bool
	err   error
}

func newInbox(limit int, bytes int64) *inbox {
	return &inbox{limit: limit, bytes: bytes, more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// put appends an item, waiting for space if necessary.
func (b *inbox) put(ctx context.Context, it item) error {
	for {
		b.mu.Lock()
		if len(b.items) < b.limit && b.held <= b.bytes {
			b.used = true
			b.items = append(b.items, it)
			b.held += it.size()
			b.mu.Unlock()
			wake(b.more)
			return nil
		}
		b.mu.Unlock()
		select {
		case <-b.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// advance records the cursor or sequence number that is reached once all queued items are settled. It never waits for
// space and does not fill the queue, because many cursor updates may arrive while the application is busy.
func (b *inbox) advance(cursor *string, sequence uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used = true
	if n := len(b.items); n > 0 {
		last := &b.items[n-1]
		if cursor != nil && *cursor != "" {
			last.cursor = cursor
		}
		last.sequence = max(last.sequence, sequence)
		return
	}
	b.items = append(b.items, item{cursor: cursor, sequence: sequence})
	wake(b.more)
}

// untouched reports whether nothing was ever put into the queue.
func (b *inbox) untouched() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.used
}

// closeWithError makes tryTake return err once the queue is empty.
func (b *inbox) closeWithError(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.ended, b.err = true, err
	}
	wake(b.more)
}

// tryTake removes and returns the first item. If the queue is empty, ok is false, and err is the error passed to
// closeWithError, if any.
func (b *inbox) tryTake() (it item, ok bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.items) == 0 {
		if b.ended {
			err = b.err
		}
		return item{}, false, err
	}
	it = b.items[0]
	b.items[0] = item{}
	b.items = b.items[1:]
	b.held -= it.size()
	wake(b.room)
	return it, true, nil
}

// An idSet remembers the most recent eventIds (CLI-2).
type idSet struct {
	limit int
	known map[string]int // value: s.added when the ID was last seen
	order []string       // a ring buffer once full
	next  int
	added int
}

func newIDSet(limit int) *idSet { return &idSet{limit: limit, known: map[string]int{}} }

// add adds id and reports whether it is new. An empty ID is always new. For a known ID, reread reports whether this is
// its first repetition since the last new ID. Such repetitions occur when a log is read again from its start, but not
// when a server keeps sending the same events.
func (s *idSet) add(id string) (fresh, reread bool) {
	if id == "" {
		return true, false
	}
	if by, ok := s.known[id]; ok {
		s.known[id] = s.added
		return false, by < s.added
	}
	if len(s.order) < s.limit {
		s.order = append(s.order, id)
	} else {
		delete(s.known, s.order[s.next])
		s.order[s.next] = id
		s.next = (s.next + 1) % s.limit
	}
	s.added++
	s.known[id] = s.added
	return true, false
}

func (s *idSet) has(id string) bool {
	_, ok := s.known[id]
	return ok
}

// remove removes id, which must be the last ID added.
func (s *idSet) remove(id string) {
	if _, ok := s.known[id]; !ok {
		return
	}
	delete(s.known, id)
	last := len(s.order) - 1
	if len(s.order) == s.limit {
		last = (s.next - 1 + s.limit) % s.limit
	}
	s.order[last] = "" // its slot in the ring stays used
}
