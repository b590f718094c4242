package shard

import (
	"context"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// An Ownership is a period during which a replica owns one shard.
type Ownership struct {
	owner   *Owner
	session *session
	hold    engine.ShardFence

	ctx      context.Context
	cancel   context.CancelFunc
	once     sync.Once
	draining chan struct{}
	ended    chan struct{} // closed when Run has returned
	fenced   bool          // guarded by owner.mu
}

// ShardFence returns the fence for writes of the shard's owner.
func (t *Ownership) ShardFence() engine.ShardFence { return t.hold }

// Context returns a context that is canceled when the shard is lost, at the latest when the lease ends. All exclusive
// work of the owner must use it, so no work continues after the end of the lease (REP-8).
func (t *Ownership) Context() context.Context { return t.ctx }

// Draining returns a channel that is closed when the shard must be released. Run must then finish and store the work in
// progress without starting new work, and return.
func (t *Ownership) Draining() <-chan struct{} { return t.draining }

// Valid reports whether the owner can start work now. It reads the clocks to detect a suspension of the process.
func (t *Ownership) Valid() bool {
	if t.ctx.Err() != nil {
		return false
	}
	return t.owner.isCurrent(t.session) && t.ctx.Err() == nil
}

// Fenced ends the ownership immediately, because a write of the shard returned [engine.ErrFenced] (REP-7).
func (t *Ownership) Fenced() {
	t.owner.mu.Lock()
	t.fenced = true
	t.owner.mu.Unlock()
	t.cancel()
	t.owner.Hurry()
}

func (t *Ownership) drain() { t.once.Do(func() { close(t.draining) }) }
