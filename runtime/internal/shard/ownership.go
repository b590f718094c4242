package shard

import (
	"context"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Ownership is the time during which a replica owns one shard.
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

// ShardFence returns the fence that every write of the shard carries.
func (t *Ownership) ShardFence() engine.ShardFence { return t.hold }

// Context returns a context that ends when the shard is lost, at the latest when the lease ends. Everything that only
// the owner may do runs under it, so that nothing outlives the lease (REP-8).
func (t *Ownership) Context() context.Context { return t.ctx }

// Draining returns a channel that is closed when the shard is to be released. Run then finishes and stores the work
// in progress, begins nothing new, and returns.
func (t *Ownership) Draining() <-chan struct{} { return t.draining }

// Valid reports whether the owner may begin work now. It reads the clocks, so that a process that was suspended
// notices it here.
func (t *Ownership) Valid() bool {
	if t.ctx.Err() != nil {
		return false
	}
	return t.owner.holds(t.session) && t.ctx.Err() == nil
}

// Fenced reports that a write of the shard returned [engine.ErrFenced]: it ends the ownership immediately (REP-7).
func (t *Ownership) Fenced() {
	t.owner.mu.Lock()
	t.fenced = true
	t.owner.mu.Unlock()
	t.cancel()
	t.owner.Hurry()
}

func (t *Ownership) drain() { t.once.Do(func() { close(t.draining) }) }
