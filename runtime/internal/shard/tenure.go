package shard

import (
	"context"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Tenure is the time for which a replica owns one shard.
type Tenure struct {
	owner   *Owner
	session *session
	hold    engine.Hold

	ctx      context.Context
	cancel   context.CancelFunc
	once     sync.Once
	draining chan struct{}
	ended    chan struct{} // closed when Run has returned
	fenced   bool          // guarded by owner.mu
}

// Hold is what every write of the shard names.
func (t *Tenure) Hold() engine.Hold { return t.hold }

// Context ends when the shard is lost, at the latest when the lease ends: everything that only its
// owner may do runs under it, so that nothing outlives the lease (REP-8).
func (t *Tenure) Context() context.Context { return t.ctx }

// Draining is closed when the shard is to be given away: what is under way is concluded and written,
// nothing new is begun, and Run returns.
func (t *Tenure) Draining() <-chan struct{} { return t.draining }

// Valid reports whether something that only the owner may do can begin now. It reads the clocks: a
// process that stood still finds out here.
func (t *Tenure) Valid() bool {
	if t.ctx.Err() != nil {
		return false
	}
	return t.owner.holds(t.session) && t.ctx.Err() == nil
}

// Fenced tells that a write of the shard met [engine.ErrFenced]: the tenure ends at once (REP-7).
func (t *Tenure) Fenced() {
	t.owner.mu.Lock()
	t.fenced = true
	t.owner.mu.Unlock()
	t.cancel()
	t.owner.Hurry()
}

func (t *Tenure) drain() { t.once.Do(func() { close(t.draining) }) }
