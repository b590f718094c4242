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

// A flow is one binding of a [Consume]: its subscription, its events in flight, and its watermark.
type flow struct {
	k       *consumer
	index   int // among the bindings
	b       Binding
	name    string
	log     *slog.Logger
	handler Handler // with the middleware
	counted counted

	sub     atomic.Pointer[subscription] // nil until the server has accepted it
	changed chan struct{}                // a token when there is something to save
	space   chan struct{}                // a token when an event was settled
	retried chan struct{}                // a token when a dead letter was retried
	begun   bool                         // the first position is saved; only receive uses it
	bursts  *joining                     // nil if events are not joined; set before the first event is received

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

// decode is the innermost handler: it decodes the event and calls the binding's function.
func (f *flow) decode(ctx context.Context, o events.Occurrence) error {
	s := f.sub.Load()
	ev, err := s.decoded(f.b.event, o, nil)
	if err != nil {
		return err
	}
	if h, ok := ctx.Value(handedKey{}).(*handed); ok {
		h.earlier = nil
		for _, o := range h.joined.earlier {
			earlier, err := s.decoded(f.b.event, o, nil)
			if err != nil {
				return err
			}
			h.earlier = append(h.earlier, earlier)
		}
	}
	return f.b.handle(ctx, ev)
}

// key returns the subscription's cursor key.
func (f *flow) key() string { return f.sub.Load().ledger.key }

// run subscribes and receives until the consumer stops. If the subscription ends earlier, it returns the reason.
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
	f.k.receivers.Go(f.retry)
	return f.receive(s)
}

// coalesce starts to join events if the binding has WithCoalescing.
func (f *flow) coalesce(s *subscription) error {
	if s.opts.coalescing == nil {
		return nil
	}
	var c Coalescing
	if len(s.opts.coalescing) > 0 {
		c = s.opts.coalescing[0]
	}
	if err := c.complete(s.described()); err != nil {
		return err
	}
	f.bursts = newJoining(f, c, most(s))
	f.k.receivers.Go(f.bursts.run)
	return nil
}

// subscribe subscribes, and waits for an unavailable server (CON-6).
func (f *flow) subscribe(ctx context.Context) (*subscription, error) {
	// The subscription outlives ctx: it is closed once the events in flight are drained and saved.
	live, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(f.k.running, func() { end(context.Canceled) })
	options := append(slices.Clone(f.b.options), WithManualAck(), func(o *subscribeOptions) {
		o.store, o.changed = f.k.o.Store, f.changed
		o.wait = false // the loop below waits and reports
	})
	between := pauses{Backoff: f.k.c.opts.Backoff}
	for told := false; ; told = true {
		s, err := f.k.c.subscribeTyped(live, f.name, f.b.fingerprint, f.b.args, options)
		if err == nil && !stop() {
			s.core.close() // the consumer stopped first
			err = context.Canceled
		}
		switch {
		case err == nil:
			return s.core, nil
		case live.Err() != nil || !passes(err, redialable(f.k.c.transport)):
			end(err)
			return nil, err
		case !told:
			f.problem(err)
		}
		if err := sleep(live, pauseAfter(err, &between)); err != nil {
			return nil, err
		}
	}
}

// receive passes received items to the workers.
func (f *flow) receive(s *subscription) error {
	quit := f.k.running.Done()
	for f.room(s, quit) {
		it, err := s.next(quit)
		if errors.Is(err, errQuit) {
			return nil
		}
		if err != nil {
			return err
		}
		f.admit(s, it)
	}
	return nil
}

// most returns how many events may be handed out, counting from the oldest unsettled one.
func most(s *subscription) int { return max(s.c.opts.RecentIDs/2, 1) }

// room waits until another event may be in flight. It reports false once the consumer has stopped.
func (f *flow) room(s *subscription, quit <-chan struct{}) bool {
	for {
		f.mu.Lock()
		fits := f.held <= s.c.opts.MaxMessage
		f.mu.Unlock()
		if fits && s.ledger.ahead() < most(s) {
			return f.k.running.Err() == nil
		}
		if f.bursts != nil {
			f.bursts.relieve(s)
		}
		select {
		case <-f.space:
		case <-quit:
			return false
		}
	}
}

// begin saves the first position, and retries until the store accepts it. It reports false if the consumer stops first.
func (f *flow) begin(s *subscription) bool {
	for n := 0; ; n++ {
		err := s.ledger.save(f.k.handling)
		if err == nil {
			return true
		}
		f.problem(err)
		if sleep(f.k.running, f.k.o.Retry.delay(n)) != nil {
			return false
		}
	}
}

// admit processes one item of the subscription.
func (f *flow) admit(s *subscription, it item) {
	if !f.begun {
		// The start position is saved before any event is handled, so that nothing after it can be lost.
		if !f.begin(s) {
			return
		}
		f.begun = true
	}
	j := &job{f: f, place: it.place}
	switch {
	case it.gap != nil:
		f.problem(it.gap)
		s.ledger.settle(it.place)
		return
	case it.note != nil:
		f.problem(it.note)
		var payload *PayloadError
		if !errors.As(it.note, &payload) {
			s.ledger.settle(it.place)
			return
		}
		j.o, j.grave = payload.Occurrence, payload
	default:
		var err error
		if j.o, err = occurrence(it.occurrence); err != nil {
			j.grave = &PayloadError{Occurrence: j.o, Err: err}
			f.problem(j.grave)
		}
	}
	if j.o.Timestamp.IsZero() {
		s.ledger.date(it.place, time.Now())
	} else {
		s.ledger.date(it.place, j.o.Timestamp.Time)
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
	if err := f.keyed(j); err != nil && j.grave == nil {
		j.grave = err
	}
	f.k.submit(j)
}

// release subtracts the size of events that are no longer held.
func (f *flow) release(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held -= n
}

// keyed sets the key of j. An event whose key cannot be determined is given up, since it may belong after others.
func (f *flow) keyed(j *job) (err error) {
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

// settle completes j, which was handled or became a dead letter.
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

// save writes the watermark once it has moved, at most once every saveEvery.
func (f *flow) save() {
	ledger := &f.sub.Load().ledger
	for {
		select {
		case <-f.changed:
		case <-f.k.running.Done():
			return
		}
		if err := ledger.save(f.k.handling); err != nil {
			f.problem(err)
			wake(f.changed)
		}
		if sleep(f.k.running, saveEvery) != nil {
			return
		}
	}
}

const (
	// retryEvery is how often the store is queried for due dead letters.
	retryEvery = 5 * time.Second
	// maxLetters is how many dead letters are retried concurrently.
	maxLetters = 16
)

// retry hands due dead letters to the handler (CON-4).
func (f *flow) retry() {
	ticks := time.NewTicker(retryEvery)
	defer ticks.Stop()
	for {
		if err := f.takeDue(); err != nil {
			f.problem(&CommitError{Key: f.key(), Err: err})
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
	// The store's answer lacks letters that were finished before the query, unless they are due again by then.
	f.mu.Lock()
	maps.DeleteFunc(f.letters, func(_ uint64, inHand bool) bool { return !inHand })
	f.mu.Unlock()
	ctx, cancel := f.k.storing()
	defer cancel()
	due, err := f.k.o.Store.DueDeadLetters(ctx, f.key(), 0, maxLetters)
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

// end saves the watermark one last time and closes the subscription.
func (f *flow) end(ctx context.Context) error {
	s := f.sub.Load()
	if s == nil {
		return nil
	}
	err := s.ledger.save(ctx)
	s.close()
	return err
}

// problem reports a problem outside the handlers (CON-8).
func (f *flow) problem(err error) {
	f.k.metrics.problem(f, problemOf(err))
	if f.k.o.OnProblem != nil {
		f.k.o.OnProblem(err)
		return
	}
	f.log.Warn("a problem while consuming", "err", err)
}
