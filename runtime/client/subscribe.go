package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strconv"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/carry"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/untyped"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

type subscribeOptions struct {
	mode      string
	cursor    string
	fromNow   bool
	key       string
	maxAge    time.Duration // negative: not sent
	manualAck bool
	wait      bool // for a server that is away, before it has accepted
	// coalescing is not nil where events are joined; it has one element at most.
	coalescing []Coalescing
	carrier    carry.Carrier // nil: events/*
	foreign    bool          // nothing but the carrier knows what is received: there is no event type and no cursor
	// For Consume: where it keeps the cursor and the rest, and what wakes it when there is something to save.
	store   clientstore.CursorStore // nil: that of the client
	changed chan struct{}
}

// A SubscribeOption sets a detail of one subscription.
type SubscribeOption func(*subscribeOptions)

// WithMode forces the delivery mode, "webhook", "push" or "poll"; empty or "auto" chooses. See
// CLI-1.
func WithMode(mode string) SubscribeOption {
	return func(o *subscribeOptions) {
		if mode == "auto" {
			mode = ""
		}
		o.mode = mode
	}
}

// WithCursor starts after cursor, whatever the cursor store holds.
func WithCursor(cursor string) SubscribeOption {
	return func(o *subscribeOptions) { o.cursor = cursor }
}

// FromNow starts without history, whatever the cursor store holds.
func FromNow() SubscribeOption { return func(o *subscribeOptions) { o.fromNow = true } }

// WithCursorKey sets the key under which the cursor store keeps this subscription. The default is
// made of the event name and the arguments, so that other arguments begin now; set one to go on
// all the same, or when one store serves several servers or several equal subscriptions.
func WithCursorKey(key string) SubscribeOption { return func(o *subscribeOptions) { o.key = key } }

// WithMaxAge leaves out what happened longer ago than d when delivery starts from a cursor or
// resumes after a loss; what it leaves out may be reported as a gap. See CUR-5.
func WithMaxAge(d time.Duration) SubscribeOption {
	return func(o *subscribeOptions) { o.maxAge = max(d, 0) }
}

// WithManualAck commits the cursor only when Ack is called, not when the application asks for the next item. See
// CLI-6.
func WithManualAck() SubscribeOption { return func(o *subscribeOptions) { o.manualAck = true } }

// A Subscription is what every subscription can do, whatever its event type. It has no Events: the generated
// subscriptions and [TypedSubscription] have that, and their method Subscription returns it. Its methods are safe
// for concurrent use.
type Subscription struct {
	core *subscription
}

// A TypedSubscription delivers the occurrences of one event type with arguments A and payloads P, for one set of
// arguments. [Subscribe] returns it; the functions of generated packages return types of their own with the same
// methods. The methods are safe for concurrent use, but only one iteration runs at a time.
type TypedSubscription[A, P any] Subscription

// Subscription returns what does not depend on the event type: Ack, Cursor, Mode and Status.
func (s *TypedSubscription[A, P]) Subscription() *Subscription { return (*Subscription)(s) }

// Close ends the subscription: see [Subscription.Close].
func (s *TypedSubscription[A, P]) Close() error { return s.Subscription().Close() }

// Events iterates over what arrives: occurrences and errors. A [GapError], [RecoverableError],
// [PayloadError] or [CommitError] stands between occurrences and the iteration goes on; after any
// other error it ends, and so it does, without an error, after Close. [Final] tells them apart.
//
// Asking for the next item commits the one before (CLI-6). An iteration may be left with break and
// taken up again with another call: nothing is lost, what arrives meanwhile waits in a bounded
// buffer that pushes back on the server, and the item at which it was left is committed when the
// next one asks, or by Ack.
//
// Each item is an occurrence of its own, never nil: beside an error it has the arguments, and what is
// known of the occurrence that the error is about.
func (s *TypedSubscription[A, P]) Events() iter.Seq2[*events.Event[A, P], error] {
	return untyped.Seq[*events.Event[A, P]](s.core.iterate)
}

// Close ends the subscription and its iteration. It returns when nothing of the subscription runs any more: the
// stream is aborted at once; a callback is unsubscribed, for which Close waits up to 3 s where the server does not
// answer. What was handed out and not committed is received again by a later subscription that starts from the
// store. The error is always nil.
func (s *Subscription) Close() error {
	s.core.close()
	return nil
}

// Ack commits the item that was handed out last, and all before it, without asking for the next. Without a cursor
// store, or for a type without cursors, it does nothing. The error is that of the store. See CLI-6.
func (s *Subscription) Ack() error { return s.core.ledger.commit(s.core.ctx) }

// Mode returns the delivery mode in use: "webhook", "push" or "poll".
func (s *Subscription) Mode() string { return s.core.snapshot().Mode }

// Cursor returns the position after what was handed out, "" when none is known yet or the type has no cursors: a
// subscription that starts there misses nothing, and in poll mode repeats at most the batch that was under way.
func (s *Subscription) Cursor() string { return s.core.ledger.position() }

// Status returns what is known of the subscription.
func (s *Subscription) Status() Status { return s.core.snapshot() }

// Subscribe subscribes to t with args and returns when the server has accepted: the callback is subscribed, the
// stream active or the first poll answered, so that what happens after it returns is received. The subscription
// lives until ctx is done, Close is called on it or on c, or the server terminates it.
//
// A refusal is an [*events.Error]; [NoCompatibleDeliveryModeError] and [ErrNoEvents] say that the server cannot
// deliver. A failure before the server has accepted is returned. After a later one the client connects and
// subscribes again.
func Subscribe[A, P any](ctx context.Context, c *Client, t events.Type[A, P], args A, o ...SubscribeOption) (*TypedSubscription[A, P], error) {
	s, err := c.subscribeTyped(ctx, t.Name, t.Fingerprint, &args, o)
	return (*TypedSubscription[A, P])(s), err
}

// Generated code subscribes and iterates by package clientimpl.
func init() {
	untyped.Subscribe = func(ctx context.Context, c any, name, fingerprint string, args, options any) (any, error) {
		return c.(*Client).subscribeTyped(ctx, name, fingerprint, args, options.([]SubscribeOption))
	}
	untyped.Iterate = func(s any) untyped.Iteration { return s.(*Subscription).core.iterate }
}

// subscribeTyped is [Subscribe] with its types erased: args points to the arguments.
func (c *Client) subscribeTyped(ctx context.Context, name, fingerprint string, args any, o []SubscribeOption) (*Subscription, error) {
	typed := reflect.ValueOf(args).Elem()
	raw, err := encodeArguments(typed.Interface())
	if err != nil {
		return nil, fmt.Errorf("client: arguments of %s: %w", name, err)
	}
	s, err := c.subscribe(ctx, name, fingerprint, raw, o)
	if err != nil {
		return nil, err
	}
	s.typed = typed
	return &Subscription{s}, nil
}

// encodeArguments returns the JSON of args, nil for none.
func encodeArguments(args any) (json.RawMessage, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	if raw = bytes.TrimSpace(raw); string(raw) == "null" {
		return nil, nil
	}
	if len(raw) == 0 || raw[0] != '{' {
		return nil, errors.New("not a JSON object")
	}
	return raw, nil
}

func (c *Client) subscribe(ctx context.Context, name, fingerprint string, args json.RawMessage, options []SubscribeOption) (*subscription, error) {
	s := &subscription{c: c, name: name, args: args, fingerprint: fingerprint,
		opts: subscribeOptions{mode: c.opts.Mode, maxAge: -1, wait: c.opts.WaitForServer}, ready: make(chan error, 1), done: make(chan struct{}),
		inbox: newInbox(c.opts.Buffer, c.opts.MaxMessage), seen: newIDSet(c.opts.RecentIDs),
		refused: map[string]bool{wire.ModeWebhook: c.webhooks == nil}, pauses: pauses{Backoff: c.opts.Backoff}}
	c.presences.renew()
	for _, o := range options {
		o(&s.opts)
	}
	if s.opts.coalescing != nil && s.opts.changed == nil {
		return nil, errors.New("client: WithCoalescing is for Consume; an iteration gets each event as it comes")
	}
	if err := s.restore(ctx); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	if err := c.add(s); err != nil {
		s.cancel(err)
		return nil, err
	}
	if err := <-s.ready; err != nil {
		<-s.done
		if last := s.snapshot().LastError; s.opts.wait && last != nil && ctx.Err() != nil {
			err = errWaited(err, last)
		}
		return nil, err
	}
	return s, nil
}

// add enters s in the registry and starts it.
func (c *Client) add(s *subscription) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := context.Cause(c.ending); err != nil {
		return err
	}
	if key := s.ledger.key; key != "" {
		if _, used := c.keys[key]; used {
			return fmt.Errorf("%w: %q", ErrKeyInUse, key)
		}
		c.keys[key] = struct{}{}
	}
	c.nextID++
	s.id = strconv.Itoa(c.nextID)
	s.status.Since = time.Now()
	s.log = c.log.With("event", s.name, "subscription", s.id)
	c.subs[s] = struct{}{}
	stop := context.AfterFunc(c.ending, func() { s.cancel(context.Cause(c.ending)) })
	c.subsWG.Add(1)
	c.background(func() {
		defer c.subsWG.Done()
		defer stop()
		s.run()
	})
	return nil
}

// restore finds where to start.
func (s *subscription) restore(ctx context.Context) error {
	if s.opts.foreign {
		return nil
	}
	s.ledger.changed = s.opts.changed
	if s.ledger.store = s.opts.store; s.ledger.store == nil {
		s.ledger.store = s.c.opts.Cursors
	}
	if s.ledger.store != nil {
		s.ledger.key = s.opts.key
		if s.ledger.key == "" {
			s.ledger.key = defaultKey(s.name, s.args)
		}
	}
	switch {
	case s.opts.fromNow:
	case s.opts.cursor != "":
		s.cursor = s.opts.cursor
		s.ledger.begin(clientstore.Saved{Cursor: s.cursor}, false)
	case s.ledger.store != nil:
		saved, ok, err := s.ledger.store.Load(ctx, s.ledger.key)
		if err != nil {
			return fmt.Errorf("client: loading cursor %q: %w", s.ledger.key, err)
		}
		if ok {
			s.cursor = saved.Cursor
			s.ledger.begin(saved, true)
			for _, id := range saved.EventIDs {
				s.seen.add(id)
			}
		}
	}
	return nil
}

// defaultKey names a subscription by its event type and arguments.
func defaultKey(name string, args json.RawMessage) string {
	canonical, err := wire.Canonical(args)
	if err != nil {
		canonical = args
	}
	sum := sha256.Sum256(canonical)
	return name + "?" + hex.EncodeToString(sum[:8])
}

// iterate is the iteration of Events: it yields fresh pointers of the type of like, which is a pointer to
// an events.Event.
func (s *subscription) iterate(like any, yield func(ev any, err error) bool) {
	t := reflect.TypeOf(like).Elem()
	s.each(func(it item, err error) bool {
		if err != nil {
			return yield(s.newEvent(t).Addr().Interface(), err)
		}
		return yield(s.event(t, it))
	})
}

// each yields the items to show; one with an error is the last.
func (s *subscription) each(yield func(it item, err error) bool) {
	if !s.iterating.TryLock() {
		yield(item{}, errIterating)
		return
	}
	defer s.iterating.Unlock()
	for {
		it, err := s.next(nil)
		if errors.Is(err, errUserClosed) {
			return
		}
		if !yield(it, err) || err != nil {
			return
		}
	}
}

// newEvent makes a t with the subscription's arguments.
func (s *subscription) newEvent(t reflect.Type) reflect.Value {
	ev := reflect.New(t).Elem()
	ev.FieldByName("Arguments").Set(s.typed)
	return ev
}

// event makes the application's form of an item, a pointer to a t.
func (s *subscription) event(t reflect.Type, it item) (any, error) {
	switch {
	case it.note != nil:
		return s.newEvent(t).Addr().Interface(), it.note
	case it.gap != nil:
		return s.newEvent(t).Addr().Interface(), it.gap
	}
	o, err := occurrence(it.occurrence)
	return s.decoded(t, o, err)
}

// decoded makes the application's form of an occurrence, a pointer to a t; err says what is wrong with it already.
func (s *subscription) decoded(t reflect.Type, o events.Occurrence, err error) (any, error) {
	ev := s.newEvent(t)
	*ev.FieldByName("Occurrence").Addr().Interface().(*events.Occurrence) = o
	data := ev.FieldByName("Data")
	if err == nil {
		err = checkData(o.Raw)
	}
	if err == nil {
		err = decodePayload(o.Raw, data.Addr().Interface())
	}
	if err != nil {
		data.SetZero()
		err = &PayloadError{Occurrence: o, Err: err}
	}
	return ev.Addr().Interface(), err
}

// checkData refuses what is no object (OCC-1): a null would decode into any payload as its zero value.
func checkData(raw json.RawMessage) error {
	switch {
	case len(raw) == 0:
		return errors.New("no data")
	case raw[0] != '{':
		return fmt.Errorf("data is %s, not an object", kindOf(raw))
	}
	return nil
}

// kindOf names the JSON type of a value.
func kindOf(raw json.RawMessage) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	}
	return "a number"
}

// decodePayload decodes raw into v; raw JSON stays as it came.
func decodePayload(raw json.RawMessage, v any) error {
	switch v := v.(type) {
	case *json.RawMessage:
		*v = raw
		return nil
	case json.Unmarshaler:
		return v.UnmarshalJSON(raw)
	}
	return codec.Decode(raw, v)
}

// occurrence makes the application's form of an occurrence, also when its timestamp is none.
func occurrence(o *wire.Occurrence) (events.Occurrence, error) {
	made := events.Occurrence{ID: o.EventID, Name: o.Name, Raw: o.Data, Meta: o.Meta}
	if o.Cursor != nil {
		made.Cursor = *o.Cursor
	}
	at, err := events.ParseTime(o.Timestamp)
	made.Timestamp = at
	return made, err
}
