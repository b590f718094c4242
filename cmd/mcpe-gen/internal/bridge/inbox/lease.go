package inbox

import "sync"

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
