package transport

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

// errClosed is returned by writes to a closed connection.
var errClosed = errors.New("transport: connection closed")

// drainTimeout is how long close waits for queued writes.
const drainTimeout = time.Second

// An outbox writes to a connection's sink in a separate goroutine. A blocked sink therefore never delays the reader,
// only callers that wait for a write, until their context is done.
type outbox struct {
	mu      sync.Mutex
	jobs    list.List     // of *job, waiting
	working bool          // a job is being written
	wake    chan struct{} // signaled when a job is queued
	closed  chan struct{} // closed by close
	done    chan struct{} // closed when the goroutine has ended
	failed  func(error)   // called when a write fails
}

type job struct {
	write func() error
	done  chan error // nil if the caller does not wait
}

func newOutbox(failed func(error)) *outbox {
	o := &outbox{wake: make(chan struct{}, 1), closed: make(chan struct{}), done: make(chan struct{}), failed: failed}
	go o.run()
	return o
}

// post queues a write without waiting for it.
func (o *outbox) post(write func() error) {
	o.push(&job{write: write})
}

// send queues a write and waits for it. If ctx is done first and the write has not started, the write is dropped.
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
		o.jobs.Remove(e) // a no-op if it has started
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

// close ends the outbox after the queued writes, or after drainTimeout. The caller must then close the sink, which
// unblocks a blocked write.
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
