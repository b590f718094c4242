// Package inbox keeps what a bridge has received until its agent has read it, in a file. What is added is on the disk
// when [Inbox.Add] returns, and an event that comes again, which happens after a crash, is not added again. An inbox is
// bounded: when it is full, Add waits until something has been read.
//
// Start with [Open], [Inbox.Add] and [Inbox.Take]. What is said of batches beside their content is a [Mark].
package inbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/journal"
)

// Options bound an inbox.
type Options struct {
	// Batches is how many batches may be unread, and Bytes how much data they may have. A single batch always fits.
	Batches, Bytes int
	// Events is how many events a batch has at most; more of them are several batches.
	Events int
	// Remember is how many ids of read events are kept of each subscription; 0 means 8,192.
	Remember int
}

// An entry is a batch that is unread.
type entry struct {
	Batch
	mark  Mark
	taken bool
}

// An Inbox is open until Close. Its methods can be called at the same time, but Add of one subscription.
type Inbox struct {
	o       Options
	journal *journal.Journal

	writing sync.Mutex // held over one write of the journal; it guards the order of changes

	mu       sync.Mutex // held for moments; it guards what follows
	unread   []*entry   // by sequence
	bytes    int
	last     uint64
	memories map[string]*memory
	stones   map[uint64]stone
	waiting  int
	changed  chan struct{}
}

// Open opens the file at path, which need not exist yet; its directory must. It belongs to one process at a time.
func Open(ctx context.Context, path string, o Options) (*Inbox, error) {
	if o.Remember <= 0 {
		o.Remember = 8192
	}
	j, err := journal.Open(ctx, path, journal.Format{Header: header})
	if err != nil {
		return nil, fmt.Errorf("opening the inbox %s: %w", path, err)
	}
	b := &Inbox{o: o, journal: j, memories: map[string]*memory{}, stones: map[uint64]stone{}, changed: make(chan struct{})}
	if err := b.load(); err != nil {
		j.Close()
		return nil, fmt.Errorf("opening the inbox %s: %w", path, err)
	}
	return b, nil
}

// tell wakes whoever waits for a change; mu is held.
func (b *Inbox) tell() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// Changed is closed at the next change.
func (b *Inbox) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// Add adds events that are told of together, but those that came before. With latest the last one stands for all. It
// returns how many events are new once they are on the disk. While the inbox is full it waits; when ctx is done before
// that, the error is ctx's, and some of the events may have been added.
func (b *Inbox) Add(ctx context.Context, from Batch, events []Event, latest bool) (int, error) {
	var fresh []Event
	var ids []string
	b.mu.Lock()
	known := b.memory(from.Subscription).ids
	for _, e := range events {
		if id := hash(e.ID); known[id] == 0 && !slices.Contains(ids, id) {
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

// add adds a batch as soon as there is room.
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
		fits := b.fits(u.size())
		changed, shown := b.changed, b.oldest(func(e *entry) bool { return e.mark.Announced && !e.taken })
		next := b.last + 1
		if !fits && shown == nil && !counted {
			b.waiting++
			counted = true
		}
		b.mu.Unlock()
		var err error
		switch {
		case fits:
			u.Sequence = next
			err = b.write(u)
		case shown != nil:
			// What was announced has been seen: it makes room for what was not.
			_, err = b.read([]uint64{shown.Sequence})
		}
		b.writing.Unlock()
		if fits || err != nil {
			return err
		}
		if shown != nil {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// write puts a batch on the disk; writing is held.
func (b *Inbox) write(u *entry) error {
	e, err := put(kindBatch, u.Sequence, &u.Batch)
	if err == nil {
		err = b.journal.Put(e)
	}
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.admit(u)
	b.tell()
	return nil
}

// fits reports whether there is room for so many bytes; mu is held.
func (b *Inbox) fits(bytes int) bool {
	return len(b.unread) == 0 || len(b.unread) < b.o.Batches && b.bytes+bytes <= b.o.Bytes
}

// oldest is the oldest unread batch of which something holds, nil when there is none; mu is held.
func (b *Inbox) oldest(holds func(*entry) bool) *entry {
	if i := slices.IndexFunc(b.unread, holds); i >= 0 {
		return b.unread[i]
	}
	return nil
}

// Waiting is how many calls of Add wait for room.
func (b *Inbox) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting
}

// Unread returns the unread batches that nobody has taken and of which keep is true, and their marks, the oldest first, at
// most so many. keep must be quick.
func (b *Inbox) Unread(most int, keep func(*Batch, Mark) bool) (found []Batch, marks []Mark) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range b.unread {
		if len(found) == most {
			break
		}
		if !u.taken && (keep == nil || keep(&u.Batch, u.mark)) {
			found, marks = append(found, u.Batch), append(marks, u.mark)
		}
	}
	return found, marks
}

// Count is how many batches Unread would return.
func (b *Inbox) Count(keep func(*Batch, Mark) bool) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range b.unread {
		if !u.taken && (keep == nil || keep(&u.Batch, u.mark)) {
			n++
		}
	}
	return n
}

// find is the unread batch of that sequence, or nil; mu is held.
func (b *Inbox) find(sequence uint64) *entry {
	i, ok := slices.BinarySearchFunc(b.unread, sequence, func(u *entry, s uint64) int {
		switch {
		case u.Sequence < s:
			return -1
		case u.Sequence > s:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return b.unread[i]
}

// Read marks batches as read and returns how many of them were unread.
func (b *Inbox) Read(sequences ...uint64) (int, error) {
	b.writing.Lock()
	defer b.writing.Unlock()
	return b.read(sequences)
}

// read is Read; writing is held.
func (b *Inbox) read(sequences []uint64) (int, error) {
	var entries []journal.Entry
	var gone []*entry
	drop := map[string]int{} // how many stones of a subscription go
	b.mu.Lock()
	for _, s := range sequences {
		u := b.find(s)
		if u == nil || slices.Contains(gone, u) {
			continue
		}
		gone = append(gone, u)
	}
	added := map[string]int{}
	for _, u := range gone {
		added[u.Subscription] += len(u.IDs)
	}
	for name, n := range added {
		m := b.memory(name)
		for kept := m.kept + n; kept > b.o.Remember && drop[name] < len(m.read); drop[name]++ {
			kept -= len(b.stones[m.read[drop[name]]].IDs)
		}
		for _, s := range m.read[:drop[name]] {
			entries = append(entries, journal.Entry{Kind: kindRead, Key: key(s)})
		}
	}
	b.mu.Unlock()
	if len(gone) == 0 {
		return 0, nil
	}
	for _, u := range gone {
		e, err := put(kindRead, u.Sequence, stone{u.Subscription, u.IDs})
		if err != nil {
			return 0, err
		}
		entries = append(entries, e, journal.Entry{Kind: kindBatch, Key: e.Key})
		if u.mark != (Mark{}) {
			entries = append(entries, journal.Entry{Kind: kindMark, Key: e.Key})
		}
	}
	if err := b.journal.Put(entries...); err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, n := range drop {
		m := b.memories[name]
		for _, s := range m.read[:n] {
			b.unbury(m, s)
		}
		m.read = slices.Clone(m.read[n:])
	}
	for _, u := range gone {
		b.bytes -= u.size()
		b.memory(u.Subscription).forget(u.IDs)
		b.bury(u.Sequence, stone{u.Subscription, u.IDs})
	}
	b.unread = slices.DeleteFunc(b.unread, func(u *entry) bool { return slices.Contains(gone, u) })
	b.tell()
	return len(gone), nil
}

// Mark changes the marks of unread batches.
func (b *Inbox) Mark(change func(*Mark), sequences ...uint64) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	var entries []journal.Entry
	marks := map[*entry]Mark{}
	b.mu.Lock()
	for _, s := range sequences {
		if u := b.find(s); u != nil {
			m := u.mark
			if change(&m); m != u.mark {
				marks[u] = m
			}
		}
	}
	b.mu.Unlock()
	if len(marks) == 0 {
		return nil
	}
	for u, m := range marks {
		e, err := put(kindMark, u.Sequence, m)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	if err := b.journal.Put(entries...); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for u, m := range marks {
		u.mark = m
	}
	b.tell()
	return nil
}

// Subscriptions are what Keep has kept, by name.
func (b *Inbox) Subscriptions() map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	for _, e := range b.journal.All(kindSubscription) {
		all[e.Key] = e.Value
	}
	return all
}

// Keep keeps what an agent has subscribed to under a name.
func (b *Inbox) Keep(name string, subscription json.RawMessage) error {
	return b.journal.Put(journal.Entry{Kind: kindSubscription, Key: name, Value: subscription})
}

// Drop forgets what Keep has kept.
func (b *Inbox) Drop(name string) error {
	return b.journal.Put(journal.Entry{Kind: kindSubscription, Key: name})
}

// Prune forgets the ids of read events of the subscriptions of which keep is false. What is unread stays.
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
			entries = append(entries, journal.Entry{Kind: kindRead, Key: key(s)})
		}
	}
	last := b.last
	b.mu.Unlock()
	if len(entries) == 0 {
		return nil
	}
	// A sequence is never given twice, so that an id that an agent remembers stays that of its batch.
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
			b.unbury(m, s)
		}
		if m.read = nil; len(m.ids) == 0 {
			delete(b.memories, name)
		}
	}
	return nil
}

// Close gives the file up.
func (b *Inbox) Close() error { return b.journal.Close() }
