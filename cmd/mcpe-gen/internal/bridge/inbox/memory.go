package inbox

import (
	"crypto/sha256"
	"encoding/base64"
)

// A memory contains the IDs of a subscription's unread and recently read events.
type memory struct {
	ids  map[string]int // how many batches have the id
	read []uint64       // tombstones, oldest first
	kept int            // number of ids in them
}

// A tombstone retains the eventIds of a batch that was read.
type tombstone struct {
	Subscription string   `json:"subscription"`
	IDs          []string `json:"ids"`
}

// memory returns the memory of a subscription, creating it if necessary. The caller must hold mu.
func (b *Inbox) memory(subscription string) *memory {
	m := b.memories[subscription]
	if m == nil {
		m = &memory{ids: map[string]int{}}
		b.memories[subscription] = m
	}
	return m
}

// addUnread adds a batch to the unread ones. The caller must hold mu.
func (b *Inbox) addUnread(u *entry) {
	b.unread = append(b.unread, u)
	b.bytes += u.size()
	b.last = max(b.last, u.Sequence)
	m := b.memory(u.Subscription)
	for _, id := range u.IDs {
		m.ids[id]++
	}
}

// addTombstone retains the IDs of a batch that was read. The caller must hold mu.
func (b *Inbox) addTombstone(sequence uint64, s tombstone) {
	b.stones[sequence] = s
	b.last = max(b.last, sequence)
	m := b.memory(s.Subscription)
	m.read = append(m.read, sequence)
	m.kept += len(s.IDs)
	for _, id := range s.IDs {
		m.ids[id]++
	}
}

// removeIDs removes IDs from the memory. The caller must hold the inbox's mu.
func (m *memory) removeIDs(ids []string) {
	for _, id := range ids {
		if m.ids[id]--; m.ids[id] <= 0 {
			delete(m.ids, id)
		}
	}
}

// removeTombstone deletes a tombstone, which the caller must remove from m.read. The caller must hold mu.
func (b *Inbox) removeTombstone(m *memory, sequence uint64) {
	ids := b.stones[sequence].IDs
	m.removeIDs(ids)
	m.kept -= len(ids)
	delete(b.stones, sequence)
}

// hashID returns the stored form of an ID, which has a fixed length.
func hashID(id string) string {
	sum := sha256.Sum256([]byte(id))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}
