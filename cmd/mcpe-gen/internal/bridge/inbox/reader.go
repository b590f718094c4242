package inbox

import (
	"encoding/json"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/journal"
)

// A Reader is a reading position: a batch that one reader has read stays unread for the others. It survives the process
// until [Reader.Close].
type Reader struct {
	b    *Inbox
	name string
	// mu of b guards the fields below.
	taken map[uint64]bool // by a lease
	state readerState
}

// A readerState is the stored state of a reader, in addition to the marks of batches.
type readerState struct {
	// Missed is the number of batches that were evicted before the reader had seen them.
	Missed int `json:"missed,omitempty"`
}

func newReader(b *Inbox, name string, s readerState) *Reader {
	return &Reader{b: b, name: name, taken: map[uint64]bool{}, state: s}
}

// Reader returns the reader with the given name. A new reader starts with the batches that no reader has read. It
// counts batches that were announced to another reader as announced.
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
			m = m.readBy(name)
		}
		if m.Announced {
			m = m.announcedTo(name)
		}
		if m.Read || m.Announced {
			c.marked = append(c.marked, marked{u, m})
		}
	}
	b.mu.Unlock()
	var err error
	if c.first, err = r.entry(r.state); err == nil {
		err = b.apply(c)
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readers[name] = r
	return r, nil
}

// entry returns the journal entries for a state of the reader.
func (r *Reader) entry(s readerState) ([]journal.Entry, error) {
	raw, err := json.Marshal(s)
	return []journal.Entry{{Kind: kindReader, Key: r.name, Value: raw}}, err
}

// Readers returns the names of all readers.
func (b *Inbox) Readers() (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name := range b.readers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Close removes the reader. Its unread batches stay for the other readers; a batch that some reader has read and no
// remaining reader has unread is removed.
func (r *Reader) Close() error {
	b := r.b
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	gone := b.readByAll(r.name)
	b.mu.Unlock()
	if err := b.apply(change{first: []journal.Entry{{Kind: kindReader, Key: r.name}}, gone: gone}); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.readers, r.name)
	for _, u := range b.unread {
		b.forgetClosed(&u.mark)
	}
	b.tell() // batches that it had taken are available to others
	return nil
}

// forgetClosed removes the names of closed readers from a mark; the caller holds mu.
func (b *Inbox) forgetClosed(m *mark) {
	closed := func(name string) bool { return b.readers[name] == nil }
	m.Readers = slices.DeleteFunc(slices.Clone(m.Readers), closed)
	m.AnnouncedTo = slices.DeleteFunc(slices.Clone(m.AnnouncedTo), closed)
}

// readByAll returns the batches that some reader has read and that no reader except but has unread; the caller holds
// mu.
func (b *Inbox) readByAll(but string) (all []*entry) {
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

// taken reports whether a lease of any reader has a batch; the caller holds mu.
func (b *Inbox) taken(u *entry) bool {
	for _, r := range b.readers {
		if r.taken[u.Sequence] {
			return true
		}
	}
	return false
}

// unread reports whether the reader has neither read nor taken a batch; the caller holds mu.
func (r *Reader) unread(u *entry) bool {
	return !slices.Contains(u.mark.Readers, r.name) && !r.taken[u.Sequence]
}

// mark returns the mark of a batch for the reader; the caller holds mu.
func (r *Reader) mark(u *entry) Mark {
	m := u.mark.Mark
	m.Announced = slices.Contains(u.mark.AnnouncedTo, r.name)
	return m
}

// Unread returns batches, with their marks, that the reader has neither read nor taken and that keep accepts: at most
// the given number, oldest first. keep must be fast.
func (r *Reader) Unread(most int, keep func(*Batch, Mark) bool) (found []Batch, marks []Mark) {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	for _, u := range r.b.unread {
		if len(found) == most {
			break
		}
		if m := r.mark(u); r.unread(u) && (keep == nil || keep(&u.Batch, m)) {
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
		if r.unread(u) && (keep == nil || keep(&u.Batch, r.mark(u))) {
			n++
		}
	}
	return n
}

// Read marks batches as read by the reader and returns how many of them were unread for it.
func (r *Reader) Read(sequences ...uint64) (int, error) {
	return r.alter(sequences, func(u *entry) (mark, bool) {
		return u.mark.readBy(r.name), !slices.Contains(u.mark.Readers, r.name)
	})
}

// Announced marks batches as announced to the reader.
func (r *Reader) Announced(sequences ...uint64) error {
	_, err := r.alter(sequences, func(u *entry) (mark, bool) {
		return u.mark.announcedTo(r.name), !slices.Contains(u.mark.AnnouncedTo, r.name)
	})
	return err
}

// alter changes the marks of the batches that next accepts, and counts them.
func (r *Reader) alter(sequences []uint64, next func(*entry) (mark, bool)) (n int, err error) {
	b := r.b
	b.writing.Lock()
	defer b.writing.Unlock()
	var c change
	b.mu.Lock()
	for _, u := range b.named(sequences) {
		m, changes := next(u)
		switch {
		case !changes:
		case b.settled(m, ""):
			c.gone = append(c.gone, u)
		default:
			c.marked = append(c.marked, marked{u, m})
		}
	}
	b.mu.Unlock()
	if err := b.apply(c); err != nil {
		return 0, err
	}
	return len(c.gone) + len(c.marked), nil
}

// spare returns the oldest batch that some reader has seen and nobody has taken, or nil. It can be evicted for a batch
// that nobody has seen; the caller holds mu.
func (b *Inbox) spare() *entry {
	for _, u := range b.unread {
		if (u.mark.Read || u.mark.Announced) && !b.taken(u) {
			return u
		}
	}
	return nil
}

// evict removes a batch and counts it as missed by its remaining readers; the caller holds writing.
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
	if err := b.apply(c); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range missing {
		r.state.Missed++
	}
	return nil
}

// Missed returns the number of batches that were evicted before the reader had seen them and that [Reader.Reported] has
// not subtracted.
func (r *Reader) Missed() int {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	return r.state.Missed
}

// Reported records that the reader knows of this number of missed batches.
func (r *Reader) Reported(missed int) error {
	b := r.b
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	s := readerState{Missed: max(r.state.Missed-missed, 0)}
	b.mu.Unlock()
	e, err := r.entry(s)
	if err == nil {
		err = b.apply(change{first: e})
	}
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r.state = s
	return nil
}
