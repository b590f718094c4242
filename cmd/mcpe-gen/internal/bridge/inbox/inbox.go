// Package inbox stores the events of a bridge in a file until its agent has read them. When [Inbox.Add] returns, the
// events have been written to disk. An event that is redelivered after a crash is not added a second time. The size of
// an inbox is limited. If it is full, Add waits until a batch has been read.
//
// Start with [Open], [Inbox.Add] and [Inbox.Reader]. A [Mark] is the state of a batch. Every change is written to the
// file in a single write.
package inbox

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/journal"
)

// Options limit an inbox.
type Options struct {
	// Batches is the maximum number of unread batches. Bytes is the maximum size of their data. A single batch always
	// fits.
	Batches, Bytes int
	// Events is the maximum number of events per batch. Larger bursts are split into several batches.
	Events int
	// Remember is the number of IDs of read events to retain for each subscription. 0 means 8,192.
	Remember int
}

// An entry is an unread batch.
type entry struct {
	Batch
	mark mark
}

// An Inbox stores batches. It is open until Close. Its methods are safe for concurrent use, except for concurrent calls
// of Add for the same subscription.
type Inbox struct {
	o       Options
	journal *journal.Journal

	writing sync.Mutex // held during a write to the journal; guards the order of changes

	mu       sync.Mutex // held briefly; guards the fields below
	unread   []*entry   // by sequence
	bytes    int
	last     uint64
	memories map[string]*memory
	stones   map[uint64]tombstone
	readers  map[string]*Reader
	waiting  int
	changed  chan struct{}
}

// Open opens the file at path, creating it if necessary. The directory must exist. Only one process may use the file at
// a time. Damaged lines are set aside and logged, as described at [journal.Open].
func Open(ctx context.Context, path string, o Options) (*Inbox, error) {
	o.Remember = cmp.Or(max(o.Remember, 0), 8192)
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	j, err := journal.Open(ctx, path, format)
	if err != nil {
		return nil, fmt.Errorf("opening the inbox %s: %w", path, err)
	}
	b := &Inbox{o: o, journal: j, memories: map[string]*memory{}, stones: map[uint64]tombstone{}, readers: map[string]*Reader{}, changed: make(chan struct{})}
	if err := b.load(); err != nil {
		j.Close()
		return nil, fmt.Errorf("opening the inbox %s: %w", path, err)
	}
	return b, nil
}

// notifyLocked wakes the goroutines that wait for a change. The caller must hold mu.
func (b *Inbox) notifyLocked() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// Tell wakes the goroutines that wait for a change even though nothing has changed.
func (b *Inbox) Tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notifyLocked()
}

// Changed returns a channel that is closed on the next change.
func (b *Inbox) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// Add adds a burst of events, skipping events that were added before. If latest is true, it stores only the last event,
// which represents all of them. It returns the number of new events after they have been written to disk. It waits
// while the inbox is full. If ctx is done first, it returns the error of ctx, and some of the events may have been
// added.
func (b *Inbox) Add(ctx context.Context, from Batch, events []Event, latest bool) (int, error) {
	var fresh []Event
	var ids []string
	b.mu.Lock()
	known := b.memory(from.Subscription).ids
	for _, e := range events {
		if id := hashID(e.ID); known[id] == 0 && !slices.Contains(ids, id) {
			fresh, ids = append(fresh, e), append(ids, id)
		}
	}
	b.mu.Unlock()
	for at := 0; at < len(fresh); {
		end := len(fresh)
		if !latest {
			end = min(end, at+max(b.o.Events, 1))
		}
		u := &entry{Batch: from}
		u.Count, u.First, u.Last, u.IDs = end-at, fresh[at].Timestamp, fresh[end-1].Timestamp, ids[at:end]
		if u.Events = fresh[at:end]; latest {
			u.Events = fresh[end-1 : end]
		}
		if err := b.add(ctx, u); err != nil {
			return at, err
		}
		at = end
	}
	return len(fresh), nil
}

// add adds a batch once there is room for it.
func (b *Inbox) add(ctx context.Context, u *entry) error {
	counted := false
	defer func() {
		if counted {
			b.mu.Lock()
			b.waiting--
			b.mu.Unlock()
		}
	}()
	for {
		b.writing.Lock()
		b.mu.Lock()
		fits := b.hasRoom(u.size())
		changed, spare := b.changed, b.evictionCandidate()
		next := b.last + 1
		if !fits && spare == nil && !counted {
			b.waiting++
			counted = true
		}
		b.mu.Unlock()
		var err error
		switch {
		case fits:
			u.Sequence = next
			err = b.writeBatch(u)
		case spare != nil:
			err = b.evict(spare)
		}
		b.writing.Unlock()
		if fits || err != nil {
			return err
		}
		if spare != nil {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// writeBatch writes a batch to disk. The caller must hold writing.
func (b *Inbox) writeBatch(u *entry) error {
	e, err := put(kindBatch, u.Sequence, &u.Batch)
	if err == nil {
		err = b.journal.Put(e)
	}
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addUnread(u)
	b.notifyLocked()
	return nil
}

// hasRoom reports whether there is room for the given number of bytes. The caller must hold mu.
func (b *Inbox) hasRoom(bytes int) bool {
	return len(b.unread) == 0 || len(b.unread) < b.o.Batches && b.bytes+bytes <= b.o.Bytes
}

// Waiting returns the number of calls to Add that are waiting for room.
func (b *Inbox) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting
}

// Unread returns at most the given number of batches, oldest first, with their marks. It selects the batches that no
// reader has read or taken and that keep accepts. keep must be fast.
func (b *Inbox) Unread(most int, keep func(*Batch, Mark) bool) (found []Batch, marks []Mark) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range b.unread {
		if len(found) == most {
			break
		}
		if !u.mark.Read && !b.isTaken(u) && (keep == nil || keep(&u.Batch, u.mark.Mark)) {
			found, marks = append(found, u.Batch), append(marks, u.mark.Mark)
		}
	}
	return found, marks
}

// find returns the unread batch with the given sequence number, or nil. The caller must hold mu.
func (b *Inbox) find(sequence uint64) *entry {
	i, ok := slices.BinarySearchFunc(b.unread, sequence, func(u *entry, s uint64) int { return cmp.Compare(u.Sequence, s) })
	if !ok {
		return nil
	}
	return b.unread[i]
}

// Read marks batches as read by all readers and returns how many of them were unread.
func (b *Inbox) Read(sequences ...uint64) (int, error) {
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	gone := b.findAll(sequences)
	b.mu.Unlock()
	if err := b.applyChange(change{gone: gone}); err != nil {
		return 0, err
	}
	return len(gone), nil
}

// findAll returns the unread batches with the given sequence numbers, without duplicates. The caller must hold mu.
func (b *Inbox) findAll(sequences []uint64) (all []*entry) {
	for _, s := range sequences {
		if u := b.find(s); u != nil && !slices.Contains(all, u) {
			all = append(all, u)
		}
	}
	return all
}

// Mark applies alter to the marks of unread batches, for all readers.
func (b *Inbox) Mark(alter func(*Mark), sequences ...uint64) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	var c change
	b.mu.Lock()
	for _, u := range b.findAll(sequences) {
		m := u.mark
		if alter(&m.Mark); m.Mark != u.mark.Mark {
			c.marked = append(c.marked, markChange{u, m})
		}
	}
	b.mu.Unlock()
	return b.applyChange(c)
}

// Subscriptions returns the subscriptions stored by Keep. The keys are their names.
func (b *Inbox) Subscriptions() map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	for _, e := range b.journal.All(kindSubscription) {
		all[e.Key] = e.Value
	}
	return all
}

// Keep stores an agent's subscription under a name.
func (b *Inbox) Keep(name string, subscription json.RawMessage) error {
	return b.journal.Put(journal.Entry{Kind: kindSubscription, Key: name, Value: subscription})
}

// Drop deletes a subscription that was stored by Keep.
func (b *Inbox) Drop(name string) error {
	return b.journal.Put(journal.Entry{Kind: kindSubscription, Key: name})
}

// Prune deletes the IDs of read events for all subscriptions for which keep returns false. Unread batches stay.
func (b *Inbox) Prune(keep func(subscription string) bool) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	var entries []journal.Entry
	var names []string
	b.mu.Lock()
	for name, m := range b.memories {
		if len(m.read) == 0 || keep(name) {
			continue
		}
		names = append(names, name)
		for _, s := range m.read {
			entries = append(entries, journal.Entry{Kind: kindRead, Key: sequenceKey(s)})
		}
	}
	last := b.last
	b.mu.Unlock()
	if len(entries) == 0 {
		return nil
	}
	// A sequence number is never reused, so an ID that an agent remembers remains valid.
	first, err := put(kindLast, 0, last)
	if err == nil {
		err = b.journal.Put(append([]journal.Entry{first}, entries...)...)
	}
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		m := b.memories[name]
		for _, s := range m.read {
			b.removeTombstone(m, s)
		}
		if m.read = nil; len(m.ids) == 0 {
			delete(b.memories, name)
		}
	}
	return nil
}

// Close closes the file.
func (b *Inbox) Close() error { return b.journal.Close() }
