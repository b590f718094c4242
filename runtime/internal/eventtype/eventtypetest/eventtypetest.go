// Package eventtypetest provides event types for tests of the server's internal packages. It makes no compatibility
// promise.
package eventtypetest

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// An Incident is the payload of the event types.
type Incident struct {
	ID       string `json:"id"`
	Severity string `json:"severity,omitzero"`
	Service  string `json:"service,omitzero"`
}

// InputSchema is the default schema of the arguments.
const InputSchema = `{"type":"object","properties":{"severity":{"type":"string","enum":["P1","P2","P3"]},"service":{"type":"string"},` +
	`"any":{"type":"array","items":{"type":"string"}}},"additionalProperties":false}`

type filter struct {
	Severity *string  `json:"severity,omitzero"`
	Service  *string  `json:"service,omitzero"`
	Any      []string `json:"any,omitzero"`
}

var rules = []events.MatchRule{{Argument: "severity", Path: "/severity"}, {Argument: "service", Path: "/service"},
	{Argument: "any", Path: "/severity", Op: events.MatchIn}}

// Options configures a [Type]. If Options is the zero value, the type has neither a log nor a check.
type Options struct {
	// Emits gives the type a log.
	Emits bool
	// Kept is the retention of the log. If it is zero, the log retains all entries.
	Kept topic.Kept
	// Log opens the log. The default is a log in memory.
	Log func(name string, o store.LogOptions) (store.EventLog, error)
	// Checks gives the type a check with an interval of one second.
	Checks bool
	// InputSchema is the schema of the arguments. The default is the constant [InputSchema].
	InputSchema string
	// Fingerprint identifies the type's schemas. Unhooked disables webhook delivery.
	Fingerprint string
	Unhooked    bool
}

// A Type is an event type for tests. It implements [eventtype.Type] and [feed.Host].
type Type struct {
	t     testing.TB
	name  string
	log   *topic.Topic
	feeds feed.Feeds
	def   atomic.Pointer[Definition] // nil once removed

	mu     sync.Mutex
	closed *events.Error
	items  []feed.Item
	fail   error
	after  int // of so many items on pages of one each
	asked  int
	delay  time.Duration
}

// New returns an event type with the name.
func New(t testing.TB, name string, o Options) *Type {
	t.Helper()
	e := &Type{t: t, name: name}
	d := &Definition{fingerprint: o.Fingerprint, unhooked: o.Unhooked, kernel: kernel(t, name, cmp.Or(o.InputSchema, InputSchema))}
	if o.Checks {
		d.check = &feed.Check{Ask: e.ask, Emits: o.Emits, Interval: time.Second}
	}
	e.def.Store(d)
	if o.Emits {
		if o.Kept == (topic.Kept{}) {
			o.Kept.MaxCount = math.MaxInt
		}
		if o.Log == nil {
			o.Log = func(_ string, lo store.LogOptions) (store.EventLog, error) { return memory.NewLog(lo), nil }
		}
		var err error
		e.log, err = topic.Open(d.kernel, topic.Options{Slots: 64, Kept: o.Kept, Open: func(appended func([]store.Entry)) (store.EventLog, error) {
			return o.Log(name, store.LogOptions{MaxAge: o.Kept.MaxAge, MaxCount: o.Kept.MaxCount, Appended: appended})
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	e.feeds.Init(e, feed.Bounds{})
	e.feeds.Adopt(d.check)()
	return e
}

// A Definition is a registration of a [Type]. It implements [eventtype.Definition].
type Definition struct {
	kernel      *topic.Type
	check       *feed.Check
	fingerprint string
	unhooked    bool
}

func (d *Definition) Kernel() *topic.Type { return d.kernel }
func (d *Definition) Check() *feed.Check  { return d.check }
func (d *Definition) Webhooks() bool      { return !d.unhooked }
func (d *Definition) Changed() string     { return "" }
func (d *Definition) Fingerprint() string { return d.fingerprint }

func kernel(t testing.TB, name, inputSchema string) *topic.Type {
	t.Helper()
	input, err := validate.Compile([]byte(inputSchema))
	if err != nil {
		t.Fatal(err)
	}
	quoted, _ := json.Marshal(name)
	k := &topic.Type{Name: name, NameHash: wire.NameHash(name), NameJSON: quoted, MaxArguments: 1 << 10, Input: input,
		DecodeArguments: func(raw json.RawMessage) (any, error) { a := new(filter); return a, codec.Decode(raw, a) },
		DecodePayload:   func(raw json.RawMessage) (any, error) { p := new(Incident); return p, codec.Decode(raw, p) },
		Encodable:       func(json.RawMessage, *validate.Members) error { return nil }}
	for _, m := range rules {
		r, err := topic.NewRule(m)
		if err != nil {
			t.Fatal(err)
		}
		k.Rules = append(k.Rules, r)
	}
	return k
}

// Redefine registers the type again with a different schema of the arguments.
func (e *Type) Redefine(inputSchema string) {
	e.t.Helper()
	d := *e.def.Load()
	d.kernel = kernel(e.t, e.name, inputSchema)
	e.define(&d)
}

// Unhook registers the type again, without webhook delivery. Hook registers it again, with webhook delivery.
func (e *Type) Unhook() { e.hook(false) }
func (e *Type) Hook()   { e.hook(true) }

func (e *Type) hook(offered bool) {
	d := *e.def.Load()
	d.unhooked = !offered
	e.define(&d)
}

// Reprint registers the type again with a different fingerprint.
func (e *Type) Reprint(fingerprint string) {
	d := *e.def.Load()
	d.fingerprint = fingerprint
	e.define(&d)
}

func (e *Type) define(d *Definition) {
	if d.check != nil {
		check := *d.check
		d.check = &check
	}
	e.def.Store(d)
	stop := e.feeds.Adopt(d.check)
	defer stop()
	if e.log != nil {
		e.log.Redefine(d.kernel, false)
	}
}

// Refuse makes each delivery of the occurrence with the given id fail with err.
func (e *Type) Refuse(id string, err error) {
	k := e.Kernel()
	k.Transform = func(_ context.Context, p, _ any) error {
		if p.(*Incident).ID == id {
			return err
		}
		return nil
	}
}

// Remove removes the type.
func (e *Type) Remove() {
	e.def.Store(nil)
	if e.log != nil {
		e.log.SignalAll()
	}
}

// Arguments parses the arguments of a subscription with the current registration.
func (e *Type) Arguments(raw string) (eventtype.Arguments, error) {
	d := e.def.Load()
	if d == nil {
		return eventtype.Arguments{}, fault.NotFound("event")
	}
	return eventtype.Parse(d, json.RawMessage(raw))
}

// Close makes Refuses return the error of c. If c is nil, Close reopens the type.
func (e *Type) Close(c *eventtype.Closing) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed = nil; c != nil {
		e.closed = c.Err
	}
}

// Emit appends an occurrence with the given time or the current time.
func (e *Type) Emit(i Incident, at ...time.Time) {
	e.t.Helper()
	data, err := codec.Encode(&i)
	if err != nil {
		e.t.Fatal(err)
	}
	e.feeds.Emitted(i.ID)
	entry := store.Entry{EventID: i.ID, Timestamp: events.NewTime(append(at, time.Now())[0]), Data: data}
	if _, err := e.log.Append(context.Background(), entry, true); err != nil {
		e.t.Error(err)
	}
}

// Put adds an occurrence to the results of the check.
func (e *Type) Put(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	data, _ := json.Marshal(Incident{ID: id})
	e.items = append(e.items, feed.Item{ID: id, Time: time.Now(), Data: data})
}

// Fail makes the check return err. A nil err makes the check succeed.
func (e *Type) Fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail, e.after = err, 0
}

// FailAfter makes the check return pages of one item and fail with err after the first n items. If err is nil, the
// check stops failing.
func (e *Type) FailAfter(n int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail, e.after = err, n
}

// Delay makes each call to the check take the time d.
func (e *Type) Delay(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.delay = d
}

// Asked returns the number of calls to the check.
func (e *Type) Asked() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked
}

func (e *Type) ask(ctx context.Context, _ any, cursor string) (p feed.Page, err error) {
	e.mu.Lock()
	delay := e.delay
	e.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return p, ctx.Err()
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	from := len(e.items)
	if cursor != "" {
		from, err = strconv.Atoi(cursor)
	}
	if paged := e.fail != nil && e.after > 0; paged && err == nil && from < min(e.after, len(e.items)) {
		return feed.Page{Items: slices.Clone(e.items[from : from+1]), Cursor: strconv.Itoa(from + 1), HasMore: from+1 < len(e.items)}, nil
	}
	if err != nil || e.fail != nil {
		return p, e.fail
	}
	return feed.Page{Items: slices.Clone(e.items[from:]), Cursor: strconv.Itoa(len(e.items))}, nil
}

// Name and the following methods implement [eventtype.Type].
func (e *Type) Name() string { return e.name }

func (e *Type) Current() eventtype.Definition {
	if d := e.def.Load(); d != nil {
		return d
	}
	return nil
}

func (e *Type) Topic() *topic.Topic { return e.log }

func (e *Type) Head() (head store.Position) {
	if e.log != nil {
		head = e.log.Head()
	}
	return head
}

func (e *Type) Feeds() *feed.Feeds { return &e.feeds }

func (e *Type) Refuses() *events.Error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// Kernel returns the log kernel's view of the type, or nil after the type has been removed. Tests can change it before
// it is used.
func (e *Type) Kernel() *topic.Type {
	if d := e.def.Load(); d != nil {
		return d.kernel
	}
	return nil
}

// Begin and Log implement [feed.Host].
func (e *Type) Begin() (done func(), ok bool) { return func() {}, true }

func (e *Type) Log() *fault.Log { return &fault.Log{Logger: slog.New(slog.DiscardHandler)} }
