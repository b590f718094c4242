package transport

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

// errClosed is what writing to a closed connection gives.
var errClosed = errors.New("transport: connection closed")

// drainTimeout bounds how long closing waits for what was already written to reach the sink.
const drainTimeout = time.Second

// An outbox writes to a connection's sink, one job after the other, from a goroutine of its own.
// A sink that blocks therefore holds up only those who wait for it: never the reading side, and
// nobody whose context ends.
type outbox struct {
	mu      sync.Mutex
	jobs    list.List // of *job, waiting
	working bool      // a job is being written
	wake    chan struct{}
	closed  chan struct{}
	done    chan struct{} // the goroutine has ended
	failed  func(error)   // called once when a write fails
}

type job struct {
	write func() error
	done  chan error // nil when nobody waits
}

func newOutbox(failed func(error)) *outbox {
	o := &outbox{wake: make(chan struct{}, 1), closed: make(chan struct{}), done: make(chan struct{}), failed: failed}
	go o.run()
	return o
}

// post queues a write that nobody waits for.
func (o *outbox) post(write func() error) {
	o.push(&job{write: write})
}

// send queues a write and waits for it. When ctx ends first, a write that has not begun never
// does.
func (o *outbox) send(ctx context.Context, write func() error) error {
	j := &job{write: write, done: make(chan error, 1)}
	e := o.push(j)
	select {
	case err := <-j.done:
		return err
	case <-o.closed:
		return errClosed
	case <-ctx.Done():
		o.mu.Lock()
		o.jobs.Remove(e) // nothing when it has begun
		o.mu.Unlock()
		return ctx.Err()
	}
}

func (o *outbox) push(j *job) *list.Element {
	o.mu.Lock()
	e := o.jobs.PushBack(j)
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return e
}

func (o *outbox) run() {
	defer close(o.done)
	for {
		o.mu.Lock()
		e := o.jobs.Front()
		if e != nil {
			o.jobs.Remove(e)
		}
		o.working = e != nil
		o.mu.Unlock()
		if e == nil {
			select {
			case <-o.wake:
			case <-o.closed:
				return
			}
			continue
		}
		j := e.Value.(*job)
		err := j.write()
		if j.done != nil {
			j.done <- err
		}
		if err != nil {
			o.failed(err)
		}
	}
}

// close ends the outbox after what is queued has been written or a bound has passed. The sink is
// closed by the caller afterwards, which frees a write that still blocks.
func (o *outbox) close() {
	deadline := time.NewTimer(drainTimeout)
	defer deadline.Stop()
	flushed := make(chan struct{})
	o.post(func() error { close(flushed); return nil })
	select {
	case <-flushed:
	case <-o.done:
	case <-deadline.C:
	}
	select {
	case <-o.closed:
	default:
		close(o.closed)
	}
}
