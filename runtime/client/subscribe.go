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
	notBy     []string // actors whose events are excluded
	wait      bool     // for an unavailable server, until the subscription is accepted
	// coalescing is non-nil if events are joined; it has at most one element.
	coalescing []Coalescing
	carrier    carry.Carrier // nil: events/*
	foreign    bool          // only the carrier knows the events; event type and cursor are missing
	// Set by Consume: its store, and the channel that signals that there is something to save.
	store   clientstore.CursorStore // nil: the client's
	changed chan struct{}
}

// A SubscribeOption configures one subscription.
type SubscribeOption func(*subscribeOptions)

// WithMode forces the delivery mode: "webhook", "push" or "poll". Empty or "auto" lets the client choose. See CLI-1.
func WithMode(mode string) SubscribeOption {
	return func(o *subscribeOptions) {
		if mode == "auto" {
			mode = ""
		}
		o.mode = mode
	}
}

// WithCursor starts after cursor and ignores the saved cursor.
func WithCursor(cursor string) SubscribeOption {
	return func(o *subscribeOptions) { o.cursor = cursor }
}

// FromNow starts without history and ignores the saved cursor.
func FromNow() SubscribeOption { return func(o *subscribeOptions) { o.fromNow = true } }

// WithCursorKey sets the key under which the cursor store keeps this subscription. The default is derived from the
// event name and the arguments, so that a subscription with changed arguments starts from now. Set a key to continue in
// spite of that, or if one store serves several servers or several equal subscriptions.
func WithCursorKey(key string) SubscribeOption { return func(o *subscribeOptions) { o.key = key } }

// WithMaxAge skips events older than d when delivery starts from a cursor or resumes after a loss. Skipped events may
// be reported as a gap. See CUR-5.
func WithMaxAge(d time.Duration) SubscribeOption {
	return func(o *subscribeOptions) { o.maxAge = max(d, 0) }
}

// WithManualAck commits the cursor only when Ack is called, not when the application requests the next item. See CLI-6.
func WithManualAck() SubscribeOption { return func(o *subscribeOptions) { o.manualAck = true } }

// NotBy excludes events that one of the actors caused. It sets the argument notBy that event types with an x-actor
// have, so that an agent that names itself does not react to its own actions. Names are those of the payload's actor.
// For an event type that names no actor, subscribing fails with a [NoActorError]. See ACTOR-2.
func NotBy(actors ...string) SubscribeOption {
	return func(o *subscribeOptions) { o.notBy = append(o.notBy, actors...) }
}

// A Subscription has the methods that do not depend on the event type. It has no Events: the generated subscriptions
// and [TypedSubscription] do, and their method Subscription returns it. Its methods are safe for concurrent use.
type Subscription struct {
	core *subscription
}

// A TypedSubscription delivers the occurrences of one event type with arguments A and payloads P, for one set of
// arguments. [Subscribe] returns it; the functions of generated packages return separate types with the same methods.
// The methods are safe for concurrent use, but only one iteration runs at a time.
type TypedSubscription[A, P any] Subscription

// Subscription returns the methods that do not depend on the event type: Ack, Cursor, Mode and Status.
func (s *TypedSubscription[A, P]) Subscription() *Subscription { return (*Subscription)(s) }

// Close ends the subscription: see [Subscription.Close].
func (s *TypedSubscription[A, P]) Close() error { return s.Subscription().Close() }

// Events iterates over occurrences and errors. A [GapError], [RecoverableError], [PayloadError] or [CommitError] is
// yielded between occurrences, and the iteration continues. Any other error ends it. After Close it ends without an
// error. [Final] reports which errors end it.
//
// Requesting the next item commits the previous one (CLI-6). An iteration can be left with break and continued with
// another call without losing events. Meanwhile events wait in a bounded buffer, which applies backpressure to the
// server. The item at which the iteration was left is committed when the next iteration requests an item, or by Ack.
//
// Each item is a separate, non-nil occurrence. Along with an error it holds the arguments and the known fields of the
// occurrence that the error concerns.
func (s *TypedSubscription[A, P]) Events() iter.Seq2[*events.Event[A, P], error] {
	return untyped.Seq[*events.Event[A, P]](s.core.iterate)
}

// Close ends the subscription and its iteration, and returns once the subscription has fully stopped. A stream is
// aborted immediately; a callback is unsubscribed, for which Close waits up to 3 s if the server does not answer.
// Events handed out but not committed are received again by a later subscription that starts from the store. The error
// is always nil.
func (s *Subscription) Close() error {
	s.core.close()
	return nil
}

// Ack commits the last item handed out, and all items before it, without requesting the next one. Without a cursor
// store, or for a type without cursors, it does nothing. It returns the store's error. See CLI-6.
func (s *Subscription) Ack() error { return s.core.ledger.commit(s.core.ctx) }

// Mode returns the delivery mode in use: "webhook", "push" or "poll".
func (s *Subscription) Mode() string { return s.core.snapshot().Mode }

// Cursor returns the position after the last item handed out. It is "" while unknown, and if the type lacks cursors. A
// subscription that starts there misses nothing, and in poll mode repeats at most the batch that was in progress.
func (s *Subscription) Cursor() string { return s.core.ledger.position() }

// Status returns the state of the subscription.
func (s *Subscription) Status() Status { return s.core.snapshot() }

// Subscribe subscribes to t with args and returns once the server has accepted the subscription. By then the callback
// is subscribed, the stream is active or the first poll was answered, so that later events are received. The
// subscription lives until ctx is done, Close is called on it or on c, or the server terminates it.
//
// A refusal is an [*events.Error]; [NoCompatibleDeliveryModeError] and [ErrNoEvents] mean that the server cannot
// deliver. A failure before the server has accepted is returned. After a later failure the client reconnects and
// subscribes again by itself.
func Subscribe[A, P any](ctx context.Context, c *Client, t events.Type[A, P], args A, o ...SubscribeOption) (*TypedSubscription[A, P], error) {
	s, err := c.subscribeTyped(ctx, t.Name, t.Fingerprint, &args, o)
	return (*TypedSubscription[A, P])(s), err
}

// init connects package clientimpl, through which generated code subscribes and iterates.
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

// encodeArguments returns the JSON of args, nil for null.
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
	if err := s.leaveOut(); err != nil {
		return nil, err
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

// leaveOut adds the actors of NotBy to the arguments.
func (s *subscription) leaveOut() error {
	if len(s.opts.notBy) == 0 {
		return nil
	}
	if s.opts.carrier != nil {
		return &NoActorError{Event: s.name}
	}
	members := map[string]json.RawMessage{}
	if s.args != nil {
		if err := json.Unmarshal(s.args, &members); err != nil {
			return fmt.Errorf("client: arguments of %s: %w", s.name, err)
		}
	}
	if _, given := members[wire.NotBy]; given {
		return fmt.Errorf("client: arguments of %s have %s; leave that out, or the option NotBy", s.name, wire.NotBy)
	}
	actors, err := json.Marshal(s.opts.notBy)
	if err != nil {
		return fmt.Errorf("client: actors of NotBy: %w", err)
	}
	members[wire.NotBy] = actors
	s.args, err = json.Marshal(members)
	return err
}

// add registers s and starts it.
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

// restore determines the start position.
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

// defaultKey derives the cursor key from the event type and the arguments.
func defaultKey(name string, args json.RawMessage) string {
	canonical, err := wire.Canonical(args)
	if err != nil {
		canonical = args
	}
	sum := sha256.Sum256(canonical)
	return name + "?" + hex.EncodeToString(sum[:8])
}

// iterate implements Events: it yields fresh pointers of like's type, which is a pointer to an events.Event.
func (s *subscription) iterate(like any, yield func(ev any, err error) bool) {
	t := reflect.TypeOf(like).Elem()
	s.each(func(it item, err error) bool {
		if err != nil {
			return yield(s.newEvent(t).Addr().Interface(), err)
		}
		return yield(s.event(t, it))
	})
}

// each yields the items to show. An item with an error is the last.
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

// newEvent returns a new t with the subscription's arguments.
func (s *subscription) newEvent(t reflect.Type) reflect.Value {
	ev := reflect.New(t).Elem()
	ev.FieldByName("Arguments").Set(s.typed)
	return ev
}

// event converts an item to the application's form, a pointer to a t.
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

// decoded converts an occurrence to the application's form, a pointer to a t. A non-nil err is an earlier error of the
// occurrence.
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

// checkData returns an error unless raw is an object (OCC-1): a null would decode into any payload as its zero value.
func checkData(raw json.RawMessage) error {
	switch {
	case len(raw) == 0:
		return errors.New("no data")
	case raw[0] != '{':
		return fmt.Errorf("data is %s, not an object", kindOf(raw))
	}
	return nil
}

// kindOf returns the name of a value's JSON type.
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

// decodePayload decodes raw into v; a json.RawMessage receives raw unchanged.
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

// occurrence converts an occurrence to the application's form, even if its timestamp is invalid.
func occurrence(o *wire.Occurrence) (events.Occurrence, error) {
	made := events.Occurrence{ID: o.EventID, Name: o.Name, Raw: o.Data, Meta: o.Meta}
	if o.Cursor != nil {
		made.Cursor = *o.Cursor
	}
	at, err := events.ParseTime(o.Timestamp)
	made.Timestamp = at
	return made, err
}
