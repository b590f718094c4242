package admin

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// remembered is how long an idempotency key is.
	remembered = 10 * time.Minute
	// maxKeys bounds how many are; beyond it the oldest go first.
	maxKeys = 10_000
	// maxKey bounds the bytes of one.
	maxKey = 128
)

// An outcome is what an action came to: a problem, or a result.
type outcome struct {
	status int
	code   string // of a problem; "" for a result
	detail string
	result any
}

// once remembers the outcomes of actions by their idempotency keys, so that one that is sent twice is
// done once.
type once struct {
	mu    sync.Mutex
	done  map[onceKey]*doing
	order []*doing // the oldest first
}

type onceKey struct{ actor, key string }

type doing struct {
	key     onceKey
	request [sha256.Size]byte
	began   time.Time
	over    chan struct{} // closed when outcome counts
	outcome outcome
	failed  bool // by an internal error: the next request tries again
}

// do calls f unless a request of the same key, actor and content did; same is false when the key was
// used for another request.
func (o *once) do(ctx context.Context, key onceKey, request []byte, f func() outcome) (_ outcome, same bool) {
	sum := sha256.Sum256(request)
	for {
		o.mu.Lock()
		o.forget(time.Now())
		d := o.done[key]
		if d == nil {
			d = &doing{key: key, request: sum, began: time.Now(), over: make(chan struct{})}
			if o.done == nil {
				o.done = map[onceKey]*doing{}
			}
			o.done[key] = d
			o.order = append(o.order, d)
			o.mu.Unlock()
			return o.run(d, f), true
		}
		o.mu.Unlock()
		if d.request != sum {
			return outcome{}, false
		}
		select {
		case <-d.over:
		case <-ctx.Done():
			return outcome{status: 504, code: "timeout", detail: "the first request of this key is still under way"}, true
		}
		if !d.failed {
			return d.outcome, true
		}
	}
}

func (o *once) run(d *doing, f func() outcome) outcome {
	finished := false
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		d.failed = !finished || d.outcome.status >= 500
		if d.failed && o.done[d.key] == d {
			delete(o.done, d.key)
		}
		close(d.over)
	}()
	d.outcome = f()
	finished = true
	return d.outcome
}

// forget drops what is too old or too much.
func (o *once) forget(now time.Time) {
	n := 0
	for n < len(o.order) && (len(o.order)-n >= maxKeys || now.Sub(o.order[n].began) >= remembered) {
		if d := o.order[n]; o.done[d.key] == d {
			delete(o.done, d.key)
		}
		o.order[n] = nil
		n++
	}
	o.order = o.order[n:]
}
