package inbox

import "sync"

// A Lease reserves batches for a reader that is showing them. Until the lease is released, no other call takes its
// batches for that reader, whether or not they are read.
type Lease struct {
	Batches []Batch
	Marks   []Mark
	r       *Reader
	once    sync.Once
}

// Take reserves the oldest batches that the reader has neither read nor taken and that keep accepts. It stops at the
// given number of events but takes at least one batch. It returns nil if it finds no such batches.
func (r *Reader) Take(events int, keep func(*Batch, Mark) bool) *Lease {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	l := &Lease{r: r}
	for _, u := range r.b.unread {
		m := r.markOf(u)
		if !r.isUnread(u) || keep != nil && !keep(&u.Batch, m) {
			continue
		}
		if events -= len(u.Events); events < 0 && len(l.Batches) > 0 {
			break
		}
		r.taken[u.Sequence] = true
		l.Batches, l.Marks = append(l.Batches, u.Batch), append(l.Marks, m)
	}
	if len(l.Batches) == 0 {
		return nil
	}
	return l
}

// Release releases the batches. Batches that the reader has already read remain read.
func (l *Lease) Release() {
	l.once.Do(func() {
		b := l.r.b
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, k := range l.Batches {
			delete(l.r.taken, k.Sequence)
		}
		b.notifyLocked()
	})
}
