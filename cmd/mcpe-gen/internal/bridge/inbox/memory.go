package inbox

import (
	"crypto/sha256"
	"encoding/base64"
)

// A memory holds the ids of a subscription's unread and recently read events.
type memory struct {
	ids  map[string]int // how many batches have the id
	read []uint64       // tombstones, oldest first
	kept int            // number of ids in them
}

// A stone is the tombstone of a batch that was read.
type stone struct {
	Subscription string   `json:"subscription"`
	IDs          []string `json:"ids"`
}

// memory returns the memory of a subscription; the caller holds mu.
func (b *Inbox) memory(subscription string) *memory {
	m := b.memories[subscription]
	if m == nil {
		m = &memory{ids: map[string]int{}}
		b.memories[subscription] = m
	}
	return m
}

// admit adds a batch to the unread ones; the caller holds mu.
func (b *Inbox) admit(u *entry) {
	b.unread = append(b.unread, u)
	b.bytes += u.size()
	b.last = max(b.last, u.Sequence)
	m := b.memory(u.Subscription)
	for _, id := range u.IDs {
		m.ids[id]++
	}
}

// bury remembers the ids of a batch that was read; the caller holds mu.
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

// forget removes ids; the caller holds mu.
func (m *memory) forget(ids []string) {
	for _, id := range ids {
		if m.ids[id]--; m.ids[id] <= 0 {
			delete(m.ids, id)
		}
	}
}

// unbury forgets a stone, which the caller removes from m.read; the caller holds mu.
func (b *Inbox) unbury(m *memory, sequence uint64) {
	ids := b.stones[sequence].IDs
	m.forget(ids)
	m.kept -= len(ids)
	delete(b.stones, sequence)
}

// hash returns the stored form of an id, whose length its sender chooses.
func hash(id string) string {
	sum := sha256.Sum256([]byte(id))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}
