package topic

import (
	"context"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

const (
	// provenSlots is the number of proofs that a proofCache holds.
	provenSlots = 1024
	// proofTime is the maximum time to wait for the proof of a new cursor.
	proofTime = 2 * time.Second
)

// A proofCache caches entry proofs in slots indexed by position. The newest proof is stored separately, so proofs of
// other entries cannot evict it.
type proofCache struct {
	mu     sync.Mutex
	newest proven
	slots  []proven // allocated on first use
}

type proven struct {
	position store.Position
	proof    uint32
}

func (c *proofCache) put(p store.Position, proof uint32) {
	if p == 0 || proof == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p >= c.newest.position {
		c.newest = proven{p, proof}
	}
	if c.slots == nil {
		c.slots = make([]proven, provenSlots)
	}
	c.slots[p%provenSlots] = proven{p, proof}
}

func (c *proofCache) get(p store.Position) uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newest.position == p {
		return c.newest.proof
	}
	if c.slots == nil || c.slots[p%provenSlots].position != p {
		return 0
	}
	return c.slots[p%provenSlots].proof
}

// entryProof returns the proof of the entry at p, from the cache or from the store.
func (t *Topic) entryProof(ctx context.Context, l *epochLog, p store.Position) (uint32, error) {
	if p == 0 {
		return 0, nil
	}
	if proof := l.proofs.get(p); proof != 0 {
		return proof, nil
	}
	proof, err := l.log.Proof(ctx, p)
	if err == nil {
		l.proofs.put(p, proof)
	}
	return proof, err
}

// cursorProof returns the proof for a new cursor, or 0 if the store does not respond. A cursor with proof 0 is valid
// but cannot be verified.
func (t *Topic) cursorProof(l *epochLog, p store.Position) uint32 {
	if proof := l.proofs.get(p); proof != 0 || p == 0 {
		return proof
	}
	ctx, cancel := context.WithTimeout(context.Background(), proofTime)
	defer cancel()
	proof, _ := t.entryProof(ctx, l, p)
	return proof
}
