package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/telemetry"
)

const (
	// saveInterval is the minimum interval between two saves of a watermark.
	saveInterval = 100 * time.Millisecond
	// drainGrace is how long handlers may continue to run after their context is cancelled.
	drainGrace = time.Second
	// maxErrorText is the maximum length of a dead letter's error text in bytes.
	maxErrorText = 16 << 10
)

// A consumer holds the state of one call to [Consume], such as the bindings, the workers and the queued jobs.
type consumer struct {
	c     *Client
	o     ConsumeOptions
	flows []*flow
	// stopObserving ends the reports of current values to o.Telemetry.
	stopObserving func()

	running  context.Context // nothing new starts once it is done
	stop     context.CancelFunc
	handling context.Context // the handlers' context
	cancel   context.CancelFunc
	workers  sync.WaitGroup
	// receivers tracks the goroutines of the flows, which end once running is done.
	receivers sync.WaitGroup

	mu      sync.Mutex
	work    sync.Cond // signaled when a job is ready or the consumer stops
	ready   []*job
	lanes   map[string][]*job // by key; the first job of each is ready, waits for its retry or runs
	waiting map[*job]*time.Timer
	stopped bool
	busy    int // running handlers
	failure error
	idle    chan struct{} // closed once the consumer has stopped and all handlers have returned
}

// A job is an event that waits for its handler or is about to become a dead letter.
type job struct {
	f           *flow
	o           events.Occurrence
	key         string       // "" imposes no order
	place       *ledgerEntry // nil for a dead letter that is retried
	joined      *burstPrefix // the rest of its burst; nil if nothing was joined
	letter      uint64       // the dead letter's sequence; 0 if it is not a dead letter
	tries       int          // since it was received or made due
	earlier     int          // earlier attempts, before that
	first, last time.Time
	grave       error // why it was given up; nil otherwise
	buried      int   // failed attempts to make it a dead letter
}

func (j *job) size() int64 {
	n := sizeOf(j.o)
	if j.joined != nil {
		n += j.joined.size()
	}
	return n
}

func sizeOf(o events.Occurrence) int64 { return int64(len(o.Raw) + len(o.Meta)) }

func newConsumer(ctx context.Context, c *Client, o ConsumeOptions, b []Binding) (*consumer, error) {
	if err := o.check(c, b); err != nil {
		return nil, err
	}
	o.setDefaults()
	k := &consumer{c: c, o: o, lanes: map[string][]*job{}, waiting: map[*job]*time.Timer{}, idle: make(chan struct{})}
	k.work.L = &k.mu
	for i, binding := range b {
		k.flows = append(k.flows, newFlow(k, i, binding))
	}
	k.stopObserving = o.Telemetry.Observe(observedKinds, k.observe)
	k.running, k.stop = context.WithCancel(ctx)
	k.handling, k.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return k, nil
}

func (o *ConsumeOptions) check(c *Client, b []Binding) error {
	if o.Store == nil {
		return errors.New("client: ConsumeOptions.Store is nil; clientmemory.NewCursors keeps nothing across restarts")
	}
	if w := c.webhooks; w != nil && w.Received != nil && !sameStore(o.Store, w.Received) && !sameStore(o.Store, c.opts.Cursors) {
		return errors.New("client: ConsumeOptions.Store is neither Webhook.Received nor the client's Cursors, where webhooks save")
	}
	if len(b) == 0 {
		return errors.New("client: nothing to consume")
	}
	for i, binding := range b {
		var options subscribeOptions
		for _, set := range binding.options {
			set(&options)
		}
		for _, c := range options.coalescing {
			if err := c.validate(); err != nil {
				return fmt.Errorf("client: binding %d, %s: WithCoalescing: %w", i, binding.name, err)
			}
		}
		switch {
		case binding.handle == nil:
			return fmt.Errorf("client: binding %d was not made by Handle", i)
		case len(options.coalescing) > 1:
			return fmt.Errorf("client: binding %d, %s: WithCoalescing takes one Coalescing at most", i, binding.name)
		case options.manualAck:
			return fmt.Errorf("client: binding %d, %s: WithManualAck does not apply: returning nil settles the event", i, binding.name)
		}
	}
	return nil
}

// sameStore reports whether a and b are the same store.
func sameStore(a, b any) bool {
	return a != nil && b != nil && reflect.TypeOf(a).Comparable() && a == b
}

func (o *ConsumeOptions) setDefaults() {
	o.Telemetry = cmp.Or(o.Telemetry, telemetry.Discard)
	o.Workers = cmp.Or(max(o.Workers, 0), 1)
	if o.Key == nil && o.Workers == 1 {
		o.Key = func(events.Occurrence) string { return "all" }
	}
	o.MaxTries = cmp.Or(max(o.MaxTries, 0), 5)
	o.Retry.setDefaults()
	o.MaxDeadLetters = cmp.Or(max(o.MaxDeadLetters, 0), 1000)
	o.DrainTimeout = cmp.Or(max(o.DrainTimeout, 0), 10*time.Second)
}

// run consumes events until ctx is done or a flow fails, and then drains.
func (k *consumer) run(ctx context.Context) error {
	defer k.stopObserving()
	defer k.cancel()
	defer k.stop()
	for _, f := range k.flows {
		k.receivers.Go(func() {
			if err := f.run(ctx); err != nil {
				k.fail(fmt.Errorf("client: consuming %s: %w", f.name, err))
			}
		})
	}
	for range k.o.Workers {
		k.workers.Go(k.serve)
	}
	<-k.running.Done()
	k.halt()
	k.receivers.Wait()
	drained := k.drain()
	errs := []error{k.failed(), drained}
	for _, f := range k.flows {
		errs = append(errs, f.finish(ctx))
	}
	return errors.Join(errs...)
}

// fail stops the consumer and records err. Later errors are ignored.
func (k *consumer) fail(err error) {
	k.mu.Lock()
	if k.failure == nil {
		k.failure = err
	}
	k.mu.Unlock()
	k.stop()
}

func (k *consumer) failed() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failure
}

// halt prevents new work from starting.
func (k *consumer) halt() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	k.ready = nil
	for _, t := range k.waiting {
		t.Stop()
	}
	clear(k.waiting)
	if k.busy == 0 {
		close(k.idle)
	}
	k.work.Broadcast()
}

// drain waits for the running handlers. After DrainTimeout it cancels their context and returns an error.
func (k *consumer) drain() error {
	limit := time.NewTimer(k.o.DrainTimeout)
	defer limit.Stop()
	select {
	case <-k.idle:
		k.workers.Wait()
		return nil
	case <-limit.C:
	}
	k.mu.Lock()
	late := k.busy
	k.mu.Unlock()
	k.cancel()
	limit.Reset(drainGrace)
	select {
	case <-k.idle:
		k.workers.Wait()
	case <-limit.C: // they ignore their context
	}
	return fmt.Errorf("client: %d handlers were still running %v after the end: %w", late, k.o.DrainTimeout, context.DeadlineExceeded)
}

// submit queues j for the workers, after other jobs with the same key.
func (k *consumer) submit(j *job) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return
	}
	if j.key != "" {
		lane := k.lanes[j.key]
		k.lanes[j.key] = append(lane, j)
		if len(lane) > 0 {
			return
		}
	}
	k.enqueue(j)
}

// enqueue adds j to the jobs that are ready. The caller must hold mu.
func (k *consumer) enqueue(j *job) {
	k.ready = append(k.ready, j)
	k.work.Signal()
}

// enqueueNext enqueues the next job with the same key as j.
func (k *consumer) enqueueNext(j *job) {
	if j.key == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	lane := k.lanes[j.key][1:]
	if len(lane) == 0 {
		delete(k.lanes, j.key)
		return
	}
	k.lanes[j.key] = lane
	if !k.stopped {
		k.enqueue(lane[0])
	}
}

// retryLater enqueues j after a delay.
func (k *consumer) retryLater(j *job, after time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return
	}
	k.waiting[j] = time.AfterFunc(after, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if _, ok := k.waiting[j]; ok {
			delete(k.waiting, j)
			k.enqueue(j)
		}
	})
}

// serve handles jobs until the consumer stops. Each worker runs it.
func (k *consumer) serve() {
	for {
		j := k.next()
		if j == nil {
			return
		}
		k.handle(j)
	}
}

// next waits for a job. It returns nil once the consumer has stopped.
func (k *consumer) next() *job {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.ready) == 0 && !k.stopped {
		k.work.Wait()
	}
	if k.stopped {
		return nil
	}
	j := k.ready[0]
	k.ready[0] = nil
	k.ready = k.ready[1:]
	k.busy++
	return j
}

// handle makes one attempt to handle j.
func (k *consumer) handle(j *job) {
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.busy--; k.stopped && k.busy == 0 {
			close(k.idle)
		}
	}()
	if j.grave != nil {
		k.storeDeadLetter(j)
		return
	}
	if j.first.IsZero() {
		j.first = time.Now()
	}
	j.tries++
	err := k.call(j)
	k.handleResult(j, err)
}

// call calls the handler. If the handler ends the worker's goroutine, a new worker replaces it.
func (k *consumer) call(j *job) (err error) {
	traced := k.o.Telemetry.Begin(k.handling, telemetry.Attempt{
		Series: telemetry.Series{Kind: telemetry.Handling, Type: j.f.name}, Number: j.tries, Meta: j.o.Meta})
	returned := false
	defer func() {
		if !returned {
			if v := recover(); v != nil {
				err = recovered(v)
			} else {
				err = errExited
				defer k.workers.Go(k.serve)
				defer k.handleResult(j, err)
			}
		}
		k.o.Telemetry.End(traced, handlerFailure(err))
	}()
	ctx := traced
	if j.joined != nil {
		ctx = context.WithValue(ctx, burstKey{}, &burstValue{joined: j.joined})
	}
	err = j.f.handler(ctx, j.o)
	returned = true
	return err
}

// handleResult settles j, retries it or stores it as a dead letter, depending on the result of an attempt (CON-3).
func (k *consumer) handleResult(j *job, err error) {
	j.last = time.Now()
	if err != nil && k.handling.Err() != nil {
		return // the drain timed out: the event is received again
	}
	var (
		discard *discardError
		after   *retryError
		payload *PayloadError
	)
	switch {
	case err == nil:
		k.countTry(j, outcomeHandled)
		k.settle(j)
	case errors.As(err, &payload):
		j.f.reportProblem(payload)
		fallthrough
	case errors.As(err, &discard), j.tries >= k.o.MaxTries:
		j.grave = err
		k.storeDeadLetter(j)
	default:
		k.countTry(j, outcomeRetried)
		wait := k.o.Retry.delay(j.tries - 1)
		if errors.As(err, &after) {
			wait = after.after
		}
		j.f.log.Info("a handler failed", "eventId", j.o.ID, "try", j.tries, "again", wait, "err", err)
		k.retryLater(j, wait)
	}
}

// settle completes a job whose handler succeeded.
func (k *consumer) settle(j *job) {
	if j.letter != 0 && !k.deleteDeadLetter(j) {
		return
	}
	j.f.settle(j)
	k.enqueueNext(j)
}

// deleteDeadLetter deletes the dead letter of a job whose handler succeeded. If that fails, the dead letter remains due
// and is handled once more.
func (k *consumer) deleteDeadLetter(j *job) bool {
	ctx, cancel := k.storeContext()
	defer cancel()
	_, err := k.o.Store.DeleteDeadLetter(ctx, j.letter)
	if err != nil {
		j.f.reportProblem(&CommitError{Key: j.f.cursorKey(), Err: err})
		j.tries = 0
		k.retryLater(j, k.o.Retry.Max)
	}
	return err == nil
}

// storeDeadLetter stores j as a dead letter before the watermark advances past it.
func (k *consumer) storeDeadLetter(j *job) {
	ctx, cancel := k.storeContext()
	defer cancel()
	var err error
	for _, o := range j.availableEvents() {
		if err = k.o.Store.PutDeadLetter(ctx, j.deadLetter(o), k.o.MaxDeadLetters); err != nil {
			break
		}
	}
	switch {
	case err == nil:
		k.countTry(j, outcomeDead)
		j.f.log.Warn("an event became a dead letter", "eventId", j.o.ID, "tries", j.tries, "err", j.grave)
		j.f.settle(j)
		k.enqueueNext(j)
	case errors.Is(err, clientstore.ErrDeadLettersFull):
		k.countProblem(j.f, problemFull)
		k.fail(fmt.Errorf("client: %s: event %q failed with %q and cannot be stored as a dead letter: %w", j.f.name, j.o.ID, j.grave, err))
	default:
		j.f.reportProblem(&CommitError{Key: j.f.cursorKey(), Err: err})
		k.retryLater(j, k.o.Retry.delay(j.buried))
		j.buried++
	}
}

// storeContext returns the context for a call to the store. A drain does not cancel it.
func (k *consumer) storeContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(k.handling), saveTimeout)
}

// availableEvents returns the event of j and, with Keep "all", the earlier events of its burst.
func (j *job) availableEvents() []events.Occurrence {
	if j.joined == nil {
		return []events.Occurrence{j.o}
	}
	return append(slices.Clip(j.joined.earlier), j.o)
}

// deadLetter returns the dead letter for o, an event of j.
func (j *job) deadLetter(o events.Occurrence) clientstore.DeadLetter {
	text := j.grave.Error()
	text = strings.ToValidUTF8(text[:min(len(text), maxErrorText)], "\uFFFD")
	return clientstore.DeadLetter{Sequence: j.letter, Key: j.f.cursorKey(), Event: j.f.name, EventID: o.ID, Timestamp: o.Timestamp,
		Data: o.Raw, Meta: o.Meta, Error: text, Tries: j.earlier + j.tries, First: j.first, Last: j.last}
}
