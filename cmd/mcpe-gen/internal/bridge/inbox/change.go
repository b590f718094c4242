package inbox

import (
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/journal"
)

// A change is a single write to the journal, with the entries in this order. After a crash, only its first entries may
// remain.
type change struct {
	marked []markChange
	first  []journal.Entry // entries that are not about batches
	gone   []*entry        // batches that every reader has read
}

// A markChange is an unread batch with its next mark.
type markChange struct {
	u *entry
	m mark
}

// applyChange writes a change to the disk and then applies it in memory. The caller must hold writing.
func (b *Inbox) applyChange(c change) error {
	var entries []journal.Entry
	for _, k := range c.marked {
		e, err := put(kindMark, k.u.Sequence, k.m)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	entries = append(entries, c.first...)
	displaced, drop := b.tombstoneRemovals(c.gone)
	entries = append(entries, displaced...)
	for _, u := range c.gone {
		e, err := put(kindRead, u.Sequence, tombstone{u.Subscription, u.IDs})
		if err != nil {
			return err
		}
		entries = append(entries, e, journal.Entry{Kind: kindBatch, Key: e.Key})
		if !u.mark.isEmpty() {
			entries = append(entries, journal.Entry{Kind: kindMark, Key: e.Key})
		}
	}
	if len(entries) == 0 {
		return nil
	}
	if err := b.journal.Put(entries...); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range c.marked {
		k.u.mark = k.m
	}
	b.removeBatches(c.gone, drop)
	b.notifyLocked()
	return nil
}

// tombstoneRemovals returns the entries that remove the oldest tombstones, to make room for those of removed batches.
// It also returns the number of removed tombstones per subscription.
func (b *Inbox) tombstoneRemovals(gone []*entry) (entries []journal.Entry, drop map[string]int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	drop = map[string]int{}
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
			entries = append(entries, journal.Entry{Kind: kindRead, Key: sequenceKey(s)})
		}
	}
	return entries, drop
}

// removeBatches deletes batches that every reader has read, and the given number of tombstones per subscription, from
// memory. The caller must hold mu.
func (b *Inbox) removeBatches(gone []*entry, drop map[string]int) {
	for name, n := range drop {
		m := b.memories[name]
		for _, s := range m.read[:n] {
			b.removeTombstone(m, s)
		}
		m.read = slices.Clone(m.read[n:])
	}
	for _, u := range gone {
		b.bytes -= u.size()
		b.memory(u.Subscription).removeIDs(u.IDs)
		b.addTombstone(u.Sequence, tombstone{u.Subscription, u.IDs})
		for _, r := range b.readers {
			delete(r.taken, u.Sequence)
		}
	}
	if len(gone) > 0 {
		b.unread = slices.DeleteFunc(b.unread, func(u *entry) bool { return slices.Contains(gone, u) })
	}
}
