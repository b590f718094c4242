package inbox

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/journal"
)

// A Reader is a reading position. A batch that one reader has read remains unread for the others. A Reader persists
// across restarts until [Reader.Close].
type Reader struct {
	b    *Inbox
	name string
	// The mutex mu of b guards the fields below.
	taken map[uint64]bool // by a lease
	state readerState
}

// A readerState is the stored state of a reader, except the marks of batches.
type readerState struct {
	// Missed is the number of batches that were evicted before the reader had seen them.
	Missed int `json:"missed,omitempty"`
}

func newReader(b *Inbox, name string, s readerState) *Reader {
	return &Reader{b: b, name: name, taken: map[uint64]bool{}, state: s}
}

// Reader returns the reader with the given name, creating it if necessary. A new reader starts with the batches that no
// reader has read. It treats batches that were announced to another reader as announced.
func (b *Inbox) Reader(name string) (*Reader, error) {
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	r := b.readers[name]
	if r != nil {
		b.mu.Unlock()
		return r, nil
	}
	r = newReader(b, name, readerState{})
	var c change
	for _, u := range b.unread {
		m := u.mark
		if m.Read {
			m = m.withReader(name)
		}
		if m.Announced {
			m = m.withAnnouncedTo(name)
		}
		if m.Read || m.Announced {
			c.marked = append(c.marked, markChange{u, m})
		}
	}
	b.mu.Unlock()
	var err error
	if c.first, err = r.entry(r.state); err == nil {
		err = b.applyChange(c)
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readers[name] = r
	return r, nil
}

// entry returns the journal entries that store a state of the reader.
func (r *Reader) entry(s readerState) ([]journal.Entry, error) {
	raw, err := json.Marshal(s)
	return []journal.Entry{{Kind: kindReader, Key: r.name, Value: raw}}, err
}

// Readers returns the names of all readers.
func (b *Inbox) Readers() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.readers))
}

// Close removes the reader. Its unread batches remain available to the other readers. It deletes batches that some
// reader has read and that no remaining reader still has to read.
func (r *Reader) Close() error {
	b := r.b
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	gone := b.fullyRead(r.name)
	b.mu.Unlock()
	if err := b.applyChange(change{first: []journal.Entry{{Kind: kindReader, Key: r.name}}, gone: gone}); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.readers, r.name)
	for _, u := range b.unread {
		b.forgetClosed(&u.mark)
	}
	b.notifyLocked() // batches that it had taken are available to others
	return nil
}

// forgetClosed removes the names of closed readers from a mark. The caller must hold mu.
func (b *Inbox) forgetClosed(m *mark) {
	closed := func(name string) bool { return b.readers[name] == nil }
	m.Readers = slices.DeleteFunc(slices.Clone(m.Readers), closed)
	m.AnnouncedTo = slices.DeleteFunc(slices.Clone(m.AnnouncedTo), closed)
}

// fullyRead returns the batches that some reader has read and that are unread for no reader, not counting the given
// one. The caller must hold mu.
func (b *Inbox) fullyRead(but string) (all []*entry) {
	for _, u := range b.unread {
		if b.settled(u.mark, but) {
			all = append(all, u)
		}
	}
	return all
}

func (b *Inbox) settled(m mark, but string) bool {
	for name := range b.readers {
		if name != but && !slices.Contains(m.Readers, name) {
			return false
		}
	}
	return m.Read
}

// isTaken reports whether a batch is in the lease of any reader. The caller must hold mu.
func (b *Inbox) isTaken(u *entry) bool {
	for _, r := range b.readers {
		if r.taken[u.Sequence] {
			return true
		}
	}
	return false
}

// isUnread reports whether the reader has neither read nor taken a batch. The caller must hold mu.
func (r *Reader) isUnread(u *entry) bool {
	return !slices.Contains(u.mark.Readers, r.name) && !r.taken[u.Sequence]
}

// markOf returns the mark of a batch for the reader. The caller must hold mu.
func (r *Reader) markOf(u *entry) Mark {
	m := u.mark.Mark
	m.Announced = slices.Contains(u.mark.AnnouncedTo, r.name)
	return m
}

// Unread returns at most the given number of batches, oldest first, with their marks. It selects the batches that the
// reader has neither read nor taken and that keep accepts. keep must be fast.
func (r *Reader) Unread(most int, keep func(*Batch, Mark) bool) (found []Batch, marks []Mark) {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	for _, u := range r.b.unread {
		if len(found) == most {
			break
		}
		if m := r.markOf(u); r.isUnread(u) && (keep == nil || keep(&u.Batch, m)) {
			found, marks = append(found, u.Batch), append(marks, m)
		}
	}
	return found, marks
}

// Count returns the number of batches that Unread would return without a limit.
func (r *Reader) Count(keep func(*Batch, Mark) bool) (n int) {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	for _, u := range r.b.unread {
		if r.isUnread(u) && (keep == nil || keep(&u.Batch, r.markOf(u))) {
			n++
		}
	}
	return n
}

// Read marks batches as read by the reader and returns how many of them were unread for it.
func (r *Reader) Read(sequences ...uint64) (int, error) {
	return r.updateMarks(sequences, func(u *entry) (mark, bool) {
		return u.mark.withReader(r.name), !slices.Contains(u.mark.Readers, r.name)
	})
}

// Announced marks batches as announced to the reader.
func (r *Reader) Announced(sequences ...uint64) error {
	_, err := r.updateMarks(sequences, func(u *entry) (mark, bool) {
		return u.mark.withAnnouncedTo(r.name), !slices.Contains(u.mark.AnnouncedTo, r.name)
	})
	return err
}

// updateMarks applies next to the batches, stores the marks that it changes, and returns their number.
func (r *Reader) updateMarks(sequences []uint64, next func(*entry) (mark, bool)) (n int, err error) {
	b := r.b
	b.writing.Lock()
	defer b.writing.Unlock()
	var c change
	b.mu.Lock()
	for _, u := range b.findAll(sequences) {
		m, changes := next(u)
		switch {
		case !changes:
		case b.settled(m, ""):
			c.gone = append(c.gone, u)
		default:
			c.marked = append(c.marked, markChange{u, m})
		}
	}
	b.mu.Unlock()
	if err := b.applyChange(c); err != nil {
		return 0, err
	}
	return len(c.gone) + len(c.marked), nil
}

// evictionCandidate returns the oldest batch that some reader has seen and that no reader has taken, or nil. Such a
// batch can be evicted to make room for an unseen one. The caller must hold mu.
func (b *Inbox) evictionCandidate() *entry {
	for _, u := range b.unread {
		if (u.mark.Read || u.mark.Announced) && !b.isTaken(u) {
			return u
		}
	}
	return nil
}

// evict deletes a batch and counts it as missed by the readers that have not seen it. The caller must hold writing.
func (b *Inbox) evict(u *entry) error {
	c := change{gone: []*entry{u}}
	var missing []*Reader
	b.mu.Lock()
	for _, r := range b.readers {
		if slices.Contains(u.mark.Readers, r.name) || slices.Contains(u.mark.AnnouncedTo, r.name) {
			continue
		}
		e, err := r.entry(readerState{Missed: r.state.Missed + 1})
		if err != nil {
			b.mu.Unlock()
			return err
		}
		missing, c.first = append(missing, r), append(c.first, e...)
	}
	b.mu.Unlock()
	if err := b.applyChange(c); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range missing {
		r.state.Missed++
	}
	return nil
}

// Missed returns the number of batches that were evicted before the reader had seen them, less the number passed to
// [Reader.Reported].
func (r *Reader) Missed() int {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	return r.state.Missed
}

// Reported records that the given number of missed batches was reported to the reader.
func (r *Reader) Reported(missed int) error {
	b := r.b
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	s := readerState{Missed: max(r.state.Missed-missed, 0)}
	b.mu.Unlock()
	e, err := r.entry(s)
	if err == nil {
		err = b.applyChange(change{first: e})
	}
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r.state = s
	return nil
}
