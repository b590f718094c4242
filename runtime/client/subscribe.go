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
	// coalescing is non-nil if events are joined. It has at most one element.
	coalescing []Coalescing
	carrier    carry.Carrier // nil: events/*
	foreign    bool          // only the carrier knows the events; event type and cursor are missing
	// Consume sets these fields. The changed channel receives a value when there is progress to save.
	store   clientstore.CursorStore // nil: the client's
	changed chan struct{}
}

// A SubscribeOption configures one subscription.
type SubscribeOption func(*subscribeOptions)

// WithMode sets the delivery mode: "webhook", "push" or "poll". If it is empty or "auto", the client chooses the mode.
// See CLI-1.
func WithMode(mode string) SubscribeOption {
	return func(o *subscribeOptions) {
		if mode == "auto" {
			mode = ""
		}
		o.mode = mode
	}
}

// WithCursor starts delivery after cursor and ignores the saved cursor.
func WithCursor(cursor string) SubscribeOption {
	return func(o *subscribeOptions) { o.cursor = cursor }
}

// FromNow starts delivery with new events and ignores the saved cursor.
func FromNow() SubscribeOption { return func(o *subscribeOptions) { o.fromNow = true } }

// WithCursorKey sets the key of the subscription in the cursor store. The default key is derived from the event name
// and the arguments, so a subscription with changed arguments starts from now. Set a key to continue after such a
// change, or to use one store for several servers or for several identical subscriptions.
func WithCursorKey(key string) SubscribeOption { return func(o *subscribeOptions) { o.key = key } }

// WithMaxAge skips events older than d when delivery starts from a cursor or resumes after an interruption. Skipped
// events may be reported as a gap. See CUR-5.
func WithMaxAge(d time.Duration) SubscribeOption {
	return func(o *subscribeOptions) { o.maxAge = max(d, 0) }
}

// WithManualAck disables automatic commits. The cursor is then committed only when Ack is called, not when the
// application requests the next item. See CLI-6.
func WithManualAck() SubscribeOption { return func(o *subscribeOptions) { o.manualAck = true } }

// NotBy excludes events caused by the given actors, who are named as in the payload. An agent can use it to ignore the
// events that it caused itself. NotBy sets the argument notBy, which event types with an x-actor accept. For other
// event types, subscribing fails with a [NoActorError]. See ACTOR-2.
func NotBy(actors ...string) SubscribeOption {
	return func(o *subscribeOptions) { o.notBy = append(o.notBy, actors...) }
}

// A Subscription provides the methods that do not depend on the event type. Generated subscriptions and
// [TypedSubscription] provide Events; their Subscription method returns the Subscription. Its methods are safe for
// concurrent use.
type Subscription struct {
	core *subscription
}

// A TypedSubscription delivers the occurrences of an event type with arguments A and payloads P. [Subscribe] returns
// it. The functions of generated packages return other types with the same methods. The methods are safe for concurrent
// use, but only one iteration can run at a time.
type TypedSubscription[A, P any] Subscription

// Subscription returns the untyped subscription, which provides the methods Ack, Cursor, Mode and Status.
func (s *TypedSubscription[A, P]) Subscription() *Subscription { return (*Subscription)(s) }

// Close ends the subscription. See [Subscription.Close].
func (s *TypedSubscription[A, P]) Close() error { return s.Subscription().Close() }

// Events returns an iterator over occurrences and errors. A [GapError], [RecoverableError], [PayloadError] or
// [CommitError] is yielded between occurrences, and the iteration continues. Any other error ends the iteration, as
// [Final] reports. After Close, the iteration ends without an error.
//
// Requesting the next item commits the previous one (CLI-6). After a break, another call to Events continues the
// iteration without losing events. Until then, events wait in a bounded buffer, which applies backpressure to the
// server. The last item before the break is committed when the next iteration requests an item, or by Ack.
//
// Each event is a separate, non-nil value. If it is yielded with an error, it contains the arguments and the known
// fields of the affected occurrence.
func (s *TypedSubscription[A, P]) Events() iter.Seq2[*events.Event[A, P], error] {
	return untyped.Seq[*events.Event[A, P]](s.core.iterate)
}

// Close ends the subscription and its iteration, and returns once the subscription has stopped. It aborts a stream
// immediately. In webhook mode, Close unsubscribes, which takes up to 3 s if the server does not answer. Uncommitted
// events are received again by a later subscription that starts from the store. The error is always nil.
func (s *Subscription) Close() error {
	s.core.close()
	return nil
}

// Ack commits the last item that the iteration returned, and all items before it, without requesting the next one. It
// does nothing without a cursor store or for a type without cursors. It returns the store's error. See CLI-6.
func (s *Subscription) Ack() error { return s.core.ledger.commit(s.core.ctx) }

// Mode returns the delivery mode in use: "webhook", "push" or "poll".
func (s *Subscription) Mode() string { return s.core.snapshot().Mode }

// Cursor returns the position after the last item that the iteration returned. Before the first item, it is the position
// at which the subscription began. It is "" if the position is unknown or the type has no cursors. A subscription that
// starts at this cursor misses no events. In poll mode, it may repeat events of the current batch.
func (s *Subscription) Cursor() string { return s.core.ledger.position() }

// Status returns the state of the subscription.
func (s *Subscription) Status() Status { return s.core.snapshot() }

// Subscribe subscribes to t with args and returns once the server has accepted the subscription. At that point, the
// callback is subscribed, the stream is active or the first poll has been answered, so later events are received. The
// subscription ends when ctx is done, when it or c is closed, or when the server terminates it.
//
// If the server refuses the subscription, the error is an [*events.Error]. [NoCompatibleDeliveryModeError] and
// [ErrNoEvents] mean that the server cannot deliver the events. Subscribe returns any failure that occurs before the
// server has accepted. After a later failure, the client automatically reconnects and resubscribes.
func Subscribe[A, P any](ctx context.Context, c *Client, t events.Type[A, P], args A, o ...SubscribeOption) (*TypedSubscription[A, P], error) {
	s, err := c.subscribeTyped(ctx, t.Name, t.Fingerprint, &args, o)
	return (*TypedSubscription[A, P])(s), err
}

// init sets the hooks through which generated code subscribes and iterates.
func init() {
	untyped.Subscribe = func(ctx context.Context, c any, name, fingerprint string, args, options any) (any, error) {
		return c.(*Client).subscribeTyped(ctx, name, fingerprint, args, options.([]SubscribeOption))
	}
	untyped.Iterate = func(s any) untyped.Iteration { return s.(*Subscription).core.iterate }
}

// subscribeTyped is [Subscribe] without type parameters. The args argument is a pointer to the arguments.
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

// encodeArguments returns args as a JSON object, or nil for null.
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
		refused: map[string]bool{wire.ModeWebhook: c.webhooks == nil}, pauses: backoffState{Backoff: c.opts.Backoff}}
	c.availabilities.reset()
	for _, o := range options {
		o(&s.opts)
	}
	if s.opts.coalescing != nil && s.opts.changed == nil {
		return nil, errors.New("client: WithCoalescing is for Consume; an iteration gets each event as it comes")
	}
	if err := s.addNotBy(); err != nil {
		return nil, err
	}
	if err := s.restore(ctx); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	if err := c.startSubscription(s); err != nil {
		s.cancel(err)
		return nil, err
	}
	if err := <-s.ready; err != nil {
		<-s.done
		if last := s.snapshot().LastError; s.opts.wait && last != nil && ctx.Err() != nil {
			err = newWaitedError(err, last)
		}
		return nil, err
	}
	return s, nil
}

// addNotBy adds the actors of NotBy to the arguments.
func (s *subscription) addNotBy() error {
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

// startSubscription registers s and starts it.
func (c *Client) startSubscription(s *subscription) error {
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
	c.runInBackground(func() {
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
		s.ledger.setStart(clientstore.Saved{Cursor: s.cursor}, false)
	case s.ledger.store != nil:
		saved, ok, err := s.ledger.store.Load(ctx, s.ledger.key)
		if err != nil {
			return fmt.Errorf("client: loading cursor %q: %w", s.ledger.key, err)
		}
		if ok {
			s.cursor = saved.Cursor
			s.ledger.setStart(saved, true)
			for _, id := range saved.EventIDs {
				s.seen.add(id)
			}
		}
	}
	return nil
}

// defaultKey returns the cursor key derived from the event type and the arguments.
func defaultKey(name string, args json.RawMessage) string {
	canonical, err := wire.Canonical(args)
	if err != nil {
		canonical = args
	}
	sum := sha256.Sum256(canonical)
	return name + "?" + hex.EncodeToString(sum[:8])
}

// iterate implements Events. It yields newly allocated events of the same pointer type as like, which is a pointer to
// an events.Event.
func (s *subscription) iterate(like any, yield func(ev any, err error) bool) {
	t := reflect.TypeOf(like).Elem()
	s.eachItem(func(it item, err error) bool {
		if err != nil {
			return yield(s.newEvent(t).Addr().Interface(), err)
		}
		return yield(s.toEvent(t, it))
	})
}

// eachItem yields the items for the application. An error ends the iteration.
func (s *subscription) eachItem(yield func(it item, err error) bool) {
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

// newEvent returns a new value of type t with the subscription's arguments.
func (s *subscription) newEvent(t reflect.Type) reflect.Value {
	ev := reflect.New(t).Elem()
	ev.FieldByName("Arguments").Set(s.typed)
	return ev
}

// toEvent converts an item to the value that the application receives, a pointer to a t.
func (s *subscription) toEvent(t reflect.Type, it item) (any, error) {
	switch {
	case it.note != nil:
		return s.newEvent(t).Addr().Interface(), it.note
	case it.gap != nil:
		return s.newEvent(t).Addr().Interface(), it.gap
	}
	o, err := toOccurrence(it.occurrence)
	return s.decodeEvent(t, o, err)
}

// decodeEvent converts an occurrence to the value that the application receives, a pointer to a t. The err argument is
// an earlier error for the same occurrence, or nil.
func (s *subscription) decodeEvent(t reflect.Type, o events.Occurrence, err error) (any, error) {
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

// checkData returns an error unless raw is an object (OCC-1). Otherwise JSON null would be decoded as a payload's zero
// value.
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

// decodePayload decodes raw into v. If v is a *json.RawMessage, it stores raw unchanged.
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

// toOccurrence converts an occurrence to an events.Occurrence, even if its timestamp is invalid.
func toOccurrence(o *wire.Occurrence) (events.Occurrence, error) {
	made := events.Occurrence{ID: o.EventID, Name: o.Name, Raw: o.Data, Meta: o.Meta}
	if o.Cursor != nil {
		made.Cursor = *o.Cursor
	}
	at, err := events.ParseTime(o.Timestamp)
	made.Timestamp = at
	return made, err
}
