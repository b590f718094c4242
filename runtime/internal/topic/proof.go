package topic

import (
	"context"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

const (
	// provenSlots is how many entries' proofs a log's life remembers.
	provenSlots = 1024
	// proofTime bounds how long a cursor that is given out waits for its proof.
	proofTime = 2 * time.Second
)

// A proofCache remembers proofs of entries, each in the slot of its position: of those that were read
// and of those that cursors were asked for. The newest of all has a place of its own, so that what is
// asked for cannot drive it out.
type proofCache struct {
	mu     sync.Mutex
	newest proven
	slots  []proven // made when it is first used
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

// proof is the log's proof of the entry at p: from memory, else the store's answer.
func (t *Topic) proof(ctx context.Context, l *life, p store.Position) (uint32, error) {
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

// known is the proof for a cursor that is given out: 0, with which the cursor goes on as well, where the
// store does not answer.
func (t *Topic) known(l *life, p store.Position) uint32 {
	if proof := l.proofs.get(p); proof != 0 || p == 0 {
		return proof
	}
	ctx, cancel := context.WithTimeout(context.Background(), proofTime)
	defer cancel()
	proof, _ := t.proof(ctx, l, p)
	return proof
}
