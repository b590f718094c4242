package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A flow handles one binding of a consumer. It tracks the subscription, the events in flight and the watermark.
type flow struct {
	k       *consumer
	index   int // among the bindings
	b       Binding
	name    string
	log     *slog.Logger
	handler Handler // with the middleware

	sub     atomic.Pointer[subscription] // nil until the server has accepted it
	changed chan struct{}                // a token when there is something to save
	space   chan struct{}                // a token when an event was settled
	retried chan struct{}                // a token when a dead letter was retried
	begun   bool                         // the first position is saved; only receive uses it
	bursts  *burstJoiner                 // nil if events are not joined; set before the first event is received

	mu      sync.Mutex
	held    int64           // bytes of unsettled events
	letters map[uint64]bool // dead letters being retried: true, then false once the retry is over
}

func newFlow(k *consumer, index int, b Binding) *flow {
	f := &flow{k: k, index: index, b: b, name: b.name, log: k.c.log.With("event", b.name), changed: make(chan struct{}, 1),
		space: make(chan struct{}, 1), retried: make(chan struct{}, 1), letters: map[uint64]bool{}}
	f.handler = f.decode
	for _, around := range slices.Backward(k.o.Middleware) {
		f.handler = around(f.handler)
	}
	return f
}

// decode decodes an event and calls the binding's function. It is the innermost handler.
func (f *flow) decode(ctx context.Context, o events.Occurrence) error {
	s := f.sub.Load()
	ev, err := s.decodeEvent(f.b.event, o, nil)
	if err != nil {
		return err
	}
	if h, ok := ctx.Value(burstKey{}).(*burstValue); ok {
		h.earlier = nil
		for _, o := range h.joined.earlier {
			earlier, err := s.decodeEvent(f.b.event, o, nil)
			if err != nil {
				return err
			}
			h.earlier = append(h.earlier, earlier)
		}
	}
	return f.b.handle(ctx, ev)
}

// cursorKey returns the subscription's cursor key.
func (f *flow) cursorKey() string { return f.sub.Load().ledger.key }

// run subscribes and receives events until the consumer stops. If the subscription ends before that, run returns the
// reason.
func (f *flow) run(ctx context.Context) error {
	s, err := f.subscribe(ctx)
	if f.k.running.Err() != nil && s == nil {
		return nil
	}
	if err != nil {
		return err
	}
	f.sub.Store(s)
	if err := f.coalesce(s); err != nil {
		return err
	}
	f.k.receivers.Go(f.save)
	f.k.receivers.Go(f.retryDeadLetters)
	return f.receive(s)
}

// coalesce starts joining events if the binding uses WithCoalescing.
func (f *flow) coalesce(s *subscription) error {
	if s.opts.coalescing == nil {
		return nil
	}
	var c Coalescing
	if len(s.opts.coalescing) > 0 {
		c = s.opts.coalescing[0]
	}
	if err := c.setDefaults(s.descriptorMeta()); err != nil {
		return err
	}
	f.bursts = newBurstJoiner(f, c, maxOpenItems(s))
	f.k.receivers.Go(f.bursts.run)
	return nil
}

// subscribe creates the subscription. It waits if the server is unavailable (CON-6).
func (f *flow) subscribe(ctx context.Context) (*subscription, error) {
	// The subscription outlives ctx and is closed once the events in flight are drained and saved.
	live, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(f.k.running, func() { end(context.Canceled) })
	options := append(slices.Clone(f.b.options), WithManualAck(), func(o *subscribeOptions) {
		o.store, o.changed = f.k.o.Store, f.changed
		o.wait = false // the loop below waits and reports
	})
	between := backoffState{Backoff: f.k.c.opts.Backoff}
	for told := false; ; told = true {
		s, err := f.k.c.subscribeTyped(live, f.name, f.b.fingerprint, f.b.args, options)
		if err == nil && !stop() {
			s.core.close() // the consumer stopped first
			err = context.Canceled
		}
		switch {
		case err == nil:
			return s.core, nil
		case live.Err() != nil || !isTemporary(err, isRedialable(f.k.c.transport)):
			end(err)
			return nil, err
		case !told:
			f.reportProblem(err)
		}
		if err := sleep(live, retryPause(err, &between)); err != nil {
			return nil, err
		}
	}
}

// receive submits received items to the workers until the consumer stops.
func (f *flow) receive(s *subscription) error {
	quit := f.k.running.Done()
	for f.waitForRoom(s, quit) {
		it, err := s.next(quit)
		if errors.Is(err, errQuit) {
			return nil
		}
		if err != nil {
			return err
		}
		f.processItem(s, it)
	}
	return nil
}

// maxOpenItems returns the maximum number of items handed out since the oldest unsettled item.
func maxOpenItems(s *subscription) int { return max(s.c.opts.RecentIDs/2, 1) }

// waitForRoom waits until the limits allow another event in flight. It returns false once the consumer has stopped.
func (f *flow) waitForRoom(s *subscription, quit <-chan struct{}) bool {
	for {
		f.mu.Lock()
		fits := f.held <= s.c.opts.MaxMessage
		f.mu.Unlock()
		if fits && s.ledger.openItems() < maxOpenItems(s) {
			return f.k.running.Err() == nil
		}
		if f.bursts != nil {
			f.bursts.flushOldest(s)
		}
		select {
		case <-f.space:
		case <-quit:
			return false
		}
	}
}

// saveStart saves the start position and retries until that succeeds. It returns false if the consumer stops first.
func (f *flow) saveStart(s *subscription) bool {
	for n := 0; ; n++ {
		err := s.ledger.save(f.k.handling)
		if err == nil {
			return true
		}
		f.reportProblem(err)
		if sleep(f.k.running, f.k.o.Retry.delay(n)) != nil {
			return false
		}
	}
}

// processItem processes one item of the subscription.
func (f *flow) processItem(s *subscription, it item) {
	if !f.begun {
		// The start position is saved before any event is handled, so that nothing after it can be lost.
		if !f.saveStart(s) {
			return
		}
		f.begun = true
	}
	j := &job{f: f, place: it.place}
	switch {
	case it.gap != nil:
		f.reportProblem(it.gap)
		s.ledger.settle(it.place)
		return
	case it.note != nil:
		f.reportProblem(it.note)
		var payload *PayloadError
		if !errors.As(it.note, &payload) {
			s.ledger.settle(it.place)
			return
		}
		j.o, j.grave = payload.Occurrence, payload
	default:
		var err error
		if j.o, err = toOccurrence(it.occurrence); err != nil {
			j.grave = &PayloadError{Occurrence: j.o, Err: err}
			f.reportProblem(j.grave)
		}
	}
	if j.o.Timestamp.IsZero() {
		s.ledger.setTime(it.place, time.Now())
	} else {
		s.ledger.setTime(it.place, j.o.Timestamp.Time)
	}
	f.mu.Lock()
	f.held += j.size()
	f.mu.Unlock()
	if j.grave == nil && f.bursts != nil && f.bursts.add(s, j) {
		return
	}
	f.submit(j)
}

func (f *flow) submit(j *job) {
	if err := f.setKey(j); err != nil && j.grave == nil {
		j.grave = err
	}
	f.k.submit(j)
}

// release subtracts n from the number of bytes held by events in flight.
func (f *flow) release(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held -= n
}

// setKey sets the key of j. If it returns an error, the event becomes a dead letter, because its position among other
// events is unknown.
func (f *flow) setKey(j *job) (err error) {
	if f.k.o.Key == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("client: ConsumeOptions.Key: %w", recovered(v))
		}
	}()
	if key := f.k.o.Key(j.o); key != "" {
		j.key = key
	}
	return nil
}

// settle settles the events of j, which was handled or became a dead letter.
func (f *flow) settle(j *job) {
	f.mu.Lock()
	if j.letter != 0 {
		f.letters[j.letter] = false
		wake(f.retried)
	} else {
		f.held -= j.size()
	}
	f.mu.Unlock()
	if j.place == nil {
		return
	}
	ledger := &f.sub.Load().ledger
	if j.joined != nil {
		for _, p := range j.joined.places {
			ledger.settle(p)
		}
	}
	ledger.settle(j.place)
	wake(f.space)
}

// save saves the watermark after changes, at most once per saveInterval.
func (f *flow) save() {
	ledger := &f.sub.Load().ledger
	for {
		select {
		case <-f.changed:
		case <-f.k.running.Done():
			return
		}
		if err := ledger.save(f.k.handling); err != nil {
			f.reportProblem(err)
			wake(f.changed)
		}
		if sleep(f.k.running, saveInterval) != nil {
			return
		}
	}
}

const (
	// retryInterval is the interval at which the store is queried for due dead letters.
	retryInterval = 5 * time.Second
	// maxRetriedLetters is the maximum number of dead letters retried concurrently.
	maxRetriedLetters = 16
)

// retryDeadLetters submits due dead letters to the workers (CON-4).
func (f *flow) retryDeadLetters() {
	ticks := time.NewTicker(retryInterval)
	defer ticks.Stop()
	for {
		if err := f.takeDue(); err != nil {
			f.reportProblem(&CommitError{Key: f.cursorKey(), Err: err})
		}
		select {
		case <-ticks.C:
		case <-f.retried:
		case <-f.k.running.Done():
			return
		}
	}
}

func (f *flow) takeDue() error {
	// The query does not return letters that were finished before it, unless they have been made due since then.
	f.mu.Lock()
	maps.DeleteFunc(f.letters, func(_ uint64, inHand bool) bool { return !inHand })
	f.mu.Unlock()
	ctx, cancel := f.k.storeContext()
	defer cancel()
	due, err := f.k.o.Store.DueDeadLetters(ctx, f.cursorKey(), 0, maxRetriedLetters)
	for _, d := range due {
		f.mu.Lock()
		_, known := f.letters[d.Sequence]
		if !known {
			f.letters[d.Sequence] = true
		}
		f.mu.Unlock()
		if !known {
			f.submit(&job{f: f, letter: d.Sequence, earlier: d.Tries, first: d.First,
				o: events.Occurrence{ID: d.EventID, Name: d.Event, Timestamp: d.Timestamp, Raw: d.Data, Meta: d.Meta}})
		}
	}
	return err
}

// finish saves the watermark a last time and closes the subscription.
func (f *flow) finish(ctx context.Context) error {
	s := f.sub.Load()
	if s == nil {
		return nil
	}
	err := s.ledger.save(ctx)
	s.close()
	return err
}

// reportProblem reports a problem outside the handlers (CON-8).
func (f *flow) reportProblem(err error) {
	f.k.countProblem(f, problemType(err))
	if f.k.o.OnProblem != nil {
		f.k.o.OnProblem(err)
		return
	}
	f.log.Warn("a problem while consuming", "err", err)
}
