// Package inbox keeps what a bridge has received until its agent has read it, in a file. What is added is on the disk
// when [Inbox.Add] returns, and an event that comes again, which happens after a crash, is not added again. An inbox is
// bounded: when it is full, Add waits until something has been read.
//
// Start with [Open], [Inbox.Add] and [Inbox.Take]. What is said of batches beside their content is a [Mark].
package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

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

// An Event is one event as the agent sees it.
type Event struct {
	ID        string    `json:"eventId"`
	Timestamp time.Time `json:"timestamp"`
	// Data is the payload. One that is too large is cut: Beginning is its first part as text, and Bytes its size.
	Data      json.RawMessage `json:"data,omitempty"`
	Beginning string          `json:"dataBeginning,omitempty"`
	Bytes     int             `json:"dataBytes,omitempty"`
}

func (e *Event) size() int { return len(e.Data) + len(e.Beginning) + len(e.ID) + 64 }

// A Batch is what is told of together: an event, or a burst of them.
type Batch struct {
	Sequence     uint64 `json:"-"`
	Subscription string `json:"subscription"`
	Server       string `json:"server"`
	Event        string `json:"event"`
	// Count is how many events it stands for, of which the first and the last happened at First and Last. Events are
	// all of them, or the latest alone.
	Count       int       `json:"count"`
	First, Last time.Time `json:",omitzero"`
	Events      []Event   `json:"events"`
	// Received is when it was added.
	Received time.Time `json:"received"`
	// IDs are those of all events, hashed.
	IDs []string `json:"ids"`
}

// ID is how the batch is named to others.
func (b *Batch) ID() string { return "b" + strconv.FormatUint(b.Sequence, 10) }

// ParseID is the sequence of an ID; false when s is none.
func ParseID(s string) (uint64, bool) {
	digits, ok := strings.CutPrefix(s, "b")
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, ok && err == nil && n > 0
}

func (b *Batch) size() int {
	n := 0
	for i := range b.Events {
		n += b.Events[i].size()
	}
	return n
}

// A Mark is what has become of a batch that is unread.
type Mark struct {
	// Announced tells that a notification of it was written.
	Announced bool `json:"announced,omitempty"`
	// Commanded tells that the command was run for it and will not be run again; Failure is why it has failed, empty
	// when it has not.
	Commanded bool   `json:"commanded,omitempty"`
	Failure   string `json:"failure,omitempty"`
}

// An entry is a batch that is unread.
type entry struct {
	Batch
	mark  Mark
	taken bool
}

// A memory is the ids of a subscription: of what is unread and of what was read last.
type memory struct {
	ids  map[string]int // how many batches have it
	read []uint64       // tombstones, the oldest first
	kept int            // how many ids these have
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

// A stone is what is kept of a batch that was read.
type stone struct {
	Subscription string   `json:"subscription"`
	IDs          []string `json:"ids"`
}

// The kinds of entries of the journal.
const (
	kindBatch        = "batch" // by its sequence, as are marks and stones
	kindMark         = "mark"
	kindRead         = "read"
	kindLast         = "last" // the highest sequence, where no batch and no stone says it
	kindSubscription = "subscription"
)

const version = 1

// Open opens the file at path, which need not exist yet; its directory must. It belongs to one process at a time.
func Open(ctx context.Context, path string, o Options) (*Inbox, error) {
	if o.Remember <= 0 {
		o.Remember = 8192
	}
	j, err := journal.Open(ctx, path, journal.Format{Version: version, Older: func([]byte) ([]journal.Entry, error) {
		return nil, fmt.Errorf("%s is no inbox of a bridge", filepath.Base(path))
	}})
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

// load reads what the journal has. A write that a crash has cut short has left its first entries alone: a batch that is
// read already is no longer unread, and a mark of no batch means nothing.
func (b *Inbox) load() error {
	for _, e := range b.journal.All(kindRead) {
		var s stone
		n, err := decode(e, &s)
		if err != nil {
			return err
		}
		b.bury(n, s)
	}
	var left []journal.Entry // of what was read
	for _, e := range b.journal.All(kindBatch) {
		u := new(entry)
		var err error
		if u.Sequence, err = decode(e, &u.Batch); err != nil {
			return err
		}
		if _, read := b.stones[u.Sequence]; read {
			left = append(left, journal.Entry{Kind: kindBatch, Key: e.Key})
			continue
		}
		if text, ok := b.journal.Get(kindMark, e.Key); ok {
			if _, err := decode(journal.Entry{Kind: kindMark, Key: e.Key, Value: text}, &u.mark); err != nil {
				return err
			}
		}
		b.admit(u)
	}
	for _, e := range b.journal.All(kindLast) {
		var n uint64
		if err := json.Unmarshal(e.Value, &n); err != nil {
			return fmt.Errorf("%s %s: %w", e.Kind, e.Key, err)
		}
		b.last = max(b.last, n)
	}
	for _, e := range b.journal.All(kindMark) {
		if n, err := strconv.ParseUint(e.Key, 10, 64); err != nil || b.find(n) == nil {
			left = append(left, journal.Entry{Kind: kindMark, Key: e.Key})
		}
	}
	if len(left) == 0 {
		return nil
	}
	return b.journal.Put(left...)
}

func decode(e journal.Entry, v any) (uint64, error) {
	n, err := strconv.ParseUint(e.Key, 10, 64)
	if err == nil {
		err = json.Unmarshal(e.Value, v)
	}
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", e.Kind, e.Key, err)
	}
	return n, nil
}

// key orders the entries of the journal by their sequences.
func key(sequence uint64) string { return fmt.Sprintf("%020d", sequence) }

func put(kind string, sequence uint64, v any) (journal.Entry, error) {
	raw, err := json.Marshal(v)
	return journal.Entry{Kind: kind, Key: key(sequence), Value: raw}, err
}

// memory is that of a subscription; mu is held.
func (b *Inbox) memory(subscription string) *memory {
	m := b.memories[subscription]
	if m == nil {
		m = &memory{ids: map[string]int{}}
		b.memories[subscription] = m
	}
	return m
}

// admit takes a batch into what is unread; mu is held.
func (b *Inbox) admit(u *entry) {
	b.unread = append(b.unread, u)
	b.bytes += u.size()
	b.last = max(b.last, u.Sequence)
	m := b.memory(u.Subscription)
	for _, id := range u.IDs {
		m.ids[id]++
	}
}

// bury remembers the ids of a batch that was read; mu is held.
func (b *Inbox) bury(sequence uint64, s stone) {
	b.stones[sequence] = s
	b.last = max(b.last, sequence)
	m := b.memory(s.Subscription)
	m.read = append(m.read, sequence)
	m.kept += len(s.IDs)
	for _, id := range s.IDs {
		m.ids[id]++
	}
}

// forget takes ids away; mu is held.
func (m *memory) forget(ids []string) {
	for _, id := range ids {
		if m.ids[id]--; m.ids[id] <= 0 {
			delete(m.ids, id)
		}
	}
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

// hash is what is remembered of an id, whose length its sender chooses.
func hash(id string) string {
	sum := sha256.Sum256([]byte(id))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
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

// Unread returns the unread batches that nobody has taken and of which keep is true, and their marks, the oldest first, at most so many. keep
// must be quick.
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

// A Lease is batches that somebody shows. They are read once [Lease.Done] says so; until then nobody else takes them.
type Lease struct {
	Batches []Batch
	Marks   []Mark
	inbox   *Inbox
	once    sync.Once
}

// Take takes the oldest unread batches that nobody has taken and of which keep is true: as many as have so many events
// together, but at least one. It is nil when there is none.
func (b *Inbox) Take(events int, keep func(*Batch, Mark) bool) *Lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &Lease{inbox: b}
	for _, u := range b.unread {
		if u.taken || keep != nil && !keep(&u.Batch, u.mark) {
			continue
		}
		if events -= len(u.Events); events < 0 && len(l.Batches) > 0 {
			break
		}
		u.taken = true
		l.Batches, l.Marks = append(l.Batches, u.Batch), append(l.Marks, u.mark)
	}
	if len(l.Batches) == 0 {
		return nil
	}
	return l
}

func (l *Lease) sequences() []uint64 {
	var all []uint64
	for _, b := range l.Batches {
		all = append(all, b.Sequence)
	}
	return all
}

// Done marks the batches as read. Where that cannot be written they are unread again, and the error says why.
func (l *Lease) Done() (err error) {
	l.once.Do(func() {
		if _, err = l.inbox.Read(l.sequences()...); err != nil {
			l.release()
		}
	})
	return err
}

// Mark keeps the batches unread, marked.
func (l *Lease) Mark(change func(*Mark)) (err error) {
	l.once.Do(func() {
		err = l.inbox.Mark(change, l.sequences()...)
		l.release()
	})
	return err
}

// Release gives the batches back as they were.
func (l *Lease) Release() { l.once.Do(l.release) }

func (l *Lease) release() {
	b := l.inbox
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range l.sequences() {
		if u := b.find(s); u != nil {
			u.taken = false
		}
	}
	b.tell()
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

// unbury forgets a stone, which the caller takes out of m.read; mu is held.
func (b *Inbox) unbury(m *memory, sequence uint64) {
	ids := b.stones[sequence].IDs
	m.forget(ids)
	m.kept -= len(ids)
	delete(b.stones, sequence)
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
