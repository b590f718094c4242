// Package pollingtest is event types to poll, for the tests of package polling and of what stands on it. It makes no
// promise of compatibility.
package pollingtest

import (
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
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/polling"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// An Incident is the payload.
type Incident struct {
	ID       string `json:"id"`
	Severity string `json:"severity,omitzero"`
	Service  string `json:"service,omitzero"`
}

// InputSchema is that of the arguments.
const InputSchema = `{"type":"object","properties":{"severity":{"type":"string","enum":["P1","P2","P3"]},"service":{"type":"string"},` +
	`"any":{"type":"array","items":{"type":"string"}}},"additionalProperties":false}`

type filter struct {
	Severity *string  `json:"severity,omitzero"`
	Service  *string  `json:"service,omitzero"`
	Any      []string `json:"any,omitzero"`
}

var rules = []events.MatchRule{{Argument: "severity", Path: "/severity"}, {Argument: "service", Path: "/service"},
	{Argument: "any", Path: "/severity", Op: events.MatchIn}}

// A Type is an event type. It implements [polling.Type].
type Type struct {
	Name string
	// Check is its check; nil without one. Its interval is a second.
	Check *feed.Check
	// Held counts the polls that wait, and Failed those that ended with an error.
	Held, Failed atomic.Int64
	// Passed is how far the last poll came in the log.
	Passed atomic.Uint64
	// Closing ends all polls.
	Closing chan struct{}

	t      testing.TB
	log    *topic.Topic
	feeds  feed.Feeds
	kernel atomic.Pointer[topic.Type]

	mu    sync.Mutex
	items []feed.Item
	fail  error
	after int // of so many items on pages of one each
	asked int
}

// New makes an event type whose occurrences are emitted, found by a check, or both. Its log keeps everything, or what
// kept says.
func New(t testing.TB, name string, emits, checks bool, kept ...topic.Kept) *Type {
	t.Helper()
	e := &Type{Name: name, t: t, Closing: make(chan struct{})}
	e.Redefine(InputSchema)
	if emits {
		var err error
		keeps := append(kept, topic.Kept{MaxCount: math.MaxInt})[0]
		e.log, err = topic.Open(e.Kernel(), topic.Options{Slots: 64, Kept: keeps, Open: func(appended func([]store.Entry)) (store.EventLog, error) {
			return memory.NewLog(store.LogOptions{MaxAge: keeps.MaxAge, MaxCount: keeps.MaxCount, Appended: appended}), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	e.feeds.Init(e)
	if checks {
		e.Check = &feed.Check{Ask: e.ask, Emits: emits, Interval: time.Second}
		e.feeds.Adopt(e.Check)()
	}
	return e
}

// Redefine registers it again, with another schema of arguments.
func (e *Type) Redefine(inputSchema string) {
	e.t.Helper()
	input, err := validate.Compile([]byte(inputSchema))
	if err != nil {
		e.t.Fatal(err)
	}
	name, _ := json.Marshal(e.Name)
	k := &topic.Type{Name: e.Name, NameHash: wire.NameHash(e.Name), NameJSON: name, MaxArguments: 1 << 10, Input: input,
		DecodeArguments: func(raw json.RawMessage) (any, error) { a := new(filter); return a, codec.Decode(raw, a) },
		DecodePayload:   func(raw json.RawMessage) (any, error) { p := new(Incident); return p, codec.Decode(raw, p) },
		Encodable:       func(json.RawMessage) error { return nil }}
	for _, m := range rules {
		r, err := topic.NewRule(m)
		if err != nil {
			e.t.Fatal(err)
		}
		k.Rules = append(k.Rules, r)
	}
	e.kernel.Store(k)
	if e.log != nil {
		e.log.Redefine(k, false)
	}
}

// Refuse makes occurrences of an id ones that cannot be sent.
func (e *Type) Refuse(id string, err error) {
	k := e.Kernel()
	k.Transform = func(_ context.Context, p, _ any) error {
		if p.(*Incident).ID == id {
			return err
		}
		return nil
	}
}

// Remove removes it.
func (e *Type) Remove() {
	e.kernel.Store(nil)
	if e.log != nil {
		e.log.SignalAll()
	}
}

// Request is a poll with arguments that may be held for so long, of up to 50 occurrences.
func (e *Type) Request(arguments string, wait time.Duration) (*polling.Request, error) {
	k := e.Kernel()
	if k == nil {
		return nil, fault.NotFound("event")
	}
	a, err := k.Parse(json.RawMessage(arguments))
	if err != nil {
		return nil, err
	}
	q := &polling.Request{Type: e, Args: a, Check: e.Check, ID: wire.SubscriptionID(wire.ModePoll, "", "", e.Name, a.Canonical()),
		Limit: 50, MaxPage: 1 << 20, Scan: 1000, Wait: wait, Closing: e.Closing, NextPoll: time.Second}
	if e.log != nil {
		_, q.Head = e.log.Bounds()
	}
	return q, nil
}

// Emit appends an occurrence, of now or of another time.
func (e *Type) Emit(i Incident, at ...time.Time) {
	e.t.Helper()
	data, err := codec.Encode(&i)
	if err != nil {
		e.t.Fatal(err)
	}
	e.feeds.Emitted(i.ID)
	entry := store.Entry{EventID: i.ID, Timestamp: events.NewTime(append(at, time.Now())[0]), Data: data}
	if _, err := e.log.Append(context.Background(), entry, nil, true); err != nil {
		e.t.Error(err)
	}
}

// Put adds an occurrence to what the check finds.
func (e *Type) Put(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	data, _ := json.Marshal(Incident{ID: id})
	e.items = append(e.items, feed.Item{ID: id, Time: time.Now(), Data: data})
}

// Fail makes the check fail; nil ends that.
func (e *Type) Fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail, e.after = err, 0
}

// FailAfter makes the check give pages of one item, and fail after the first n of all; nil ends that.
func (e *Type) FailAfter(n int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail, e.after = err, n
}

// Asked is how often the check was asked.
func (e *Type) Asked() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked
}

func (e *Type) ask(_ context.Context, _ any, cursor string) (p feed.Page, err error) {
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

// Topic and what follows implement [polling.Type] and [feed.Host].
func (e *Type) Topic() *topic.Topic { return e.log }

func (e *Type) Feeds() *feed.Feeds { return &e.feeds }

func (e *Type) Kernel() *topic.Type { return e.kernel.Load() }

func (e *Type) Hold(n int) { e.Held.Add(int64(n)) }

func (e *Type) Polled(_ context.Context, _ *polling.Request, a *polling.Answer, err error) {
	if err != nil {
		e.Failed.Add(1)
	} else if a.FromLog {
		e.Passed.Store(uint64(a.Passed))
	}
}

func (e *Type) Begin() (done func(), ok bool) { return func() {}, true }

func (e *Type) Log() *fault.Log { return &fault.Log{Logger: slog.New(slog.DiscardHandler)} }
