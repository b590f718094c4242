package history_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/evolve"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/history"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

const (
	wide     = `{"type":"object","properties":{"id":{"type":"string"},"level":{"type":"number"}}}`
	additive = `{"type":"object","properties":{"id":{"type":"string"},"level":{"type":"number"},"added":{"type":"string"}}}`
	wider    = `{"type":"object","properties":{"id":{"type":"number"}}}`
	narrow   = `{"type":"object","properties":{"id":{"type":"string"}}}`
	input    = `{"type":"object","properties":{"severity":{"type":"string"}}}`
	tighter  = `{"type":"object","properties":{"severity":{"type":"string","enum":["P1"]}}}`
)

// A build is a process that serves the event type "e" of a store.
type build struct {
	t      *testing.T
	memory *history.Memory
	log    *topic.Topic
}

func start(t *testing.T, s store.Store) *build {
	t.Helper()
	log, err := topic.Open(&topic.Type{Name: "e"}, topic.Options{Slots: 8, Open: func(appended func([]store.Entry)) (store.EventLog, error) {
		return s.OpenLog(t.Context(), "e", store.LogOptions{Appended: appended})
	}})
	if err != nil {
		t.Fatal(err)
	}
	return &build{t, history.Of(s, time.Now, evolve.Features), log}
}

func descriptor(input, payload string) wire.Descriptor {
	fingerprint, _ := wire.Fingerprint(json.RawMessage(input), json.RawMessage(payload))
	return wire.Descriptor{Name: "e", InputSchema: json.RawMessage(input), PayloadSchema: json.RawMessage(payload), Meta: map[string]any{wire.MetaFingerprint: fingerprint}}
}

func (b *build) recall(input, payload string) *history.Recollection {
	b.t.Helper()
	r, err := b.memory.Recall(b.t.Context(), descriptor(input, payload), b.log)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// register recalls and commits, and returns the change and the floor as text.
func (b *build) register(input, payload string) string {
	b.t.Helper()
	r := b.recall(input, payload)
	if err := r.Commit(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	return fmt.Sprint(r.Changed, " ", b.log.Floor())
}

func (b *build) emit(n int) {
	b.t.Helper()
	for range n {
		if _, err := b.log.Append(b.t.Context(), store.Entry{EventID: fmt.Sprint(time.Now().UnixNano()), Timestamp: events.NewTime(time.Now()), Data: json.RawMessage(`{}`)}, true); err != nil {
			b.t.Fatal(err)
		}
	}
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// SUB-11, EVOL-2: a durable store of one process shows a later start what has changed incompatibly, and payloads of
// other schemas are not replayed until the schemas change once more; a crash before Commit forgets nothing.
func TestLatest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e.db")
	restart := func(f func(*build)) {
		t.Helper()
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		f(start(t, s))
	}
	restart(func(b *build) {
		want(t, "first", b.register(input, wide), " 0")
		b.emit(3)
	})
	restart(func(b *build) { want(t, "the same", b.register(input, wide), " 0") })
	restart(func(b *build) { want(t, "additive", b.register(input, additive), " 0") })
	restart(func(b *build) {
		r := b.recall(input, narrow) // and then it crashes
		want(t, "narrowed", fmt.Sprint(r.Changed, b.log.Floor()), fault.FeaturePayload+"3")
		want(t, "told", r.Outcome, "schemas are incompatible with the stored ones (payloadSchema/properties/added: field removed or renamed): "+
			"3 older events are not replayed, and webhook subscriptions of the older schemas end once no process serves them")
	})
	restart(func(b *build) {
		b.emit(1)
		want(t, "after the crash", b.register(input, narrow), fault.FeaturePayload+" 4")
		b.emit(1)
	})
	restart(func(b *build) { want(t, "restarted", b.register(input, narrow), " 4") })
	restart(func(b *build) {
		r := b.recall(tighter, wider)
		want(t, "told of those that are replayed", r.Outcome, "schemas are incompatible with the stored ones (inputSchema/properties/severity: accepts 1 listed values only): "+
			"1 older events are not replayed, and webhook subscriptions of the older schemas end once no process serves them")
	})
	restart(func(b *build) {
		want(t, "told", b.recall(tighter, narrow).Outcome, "schemas are incompatible with the stored ones (inputSchema/properties/severity: accepts 1 listed values only): "+
			"webhook subscriptions of the older schemas end once no process serves them")
		want(t, "other arguments", b.register(tighter, narrow), fault.FeatureInput+" 4")
	})
	restart(func(b *build) {
		r := b.recall(tighter, narrow)
		b.log.Raise(5) // as when a removed type is restored
		if err := r.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	restart(func(b *build) {
		want(t, "what was raised", b.register(tighter, narrow), " 5")
		// Stored data: other builds read and write this log and the members of its newest entry.
		r, err := b.memory.Recall(t.Context(), wire.Descriptor{Name: "other"}, nil)
		if err != nil || r.Changed != "" || r.Commit(t.Context()) != nil {
			t.Errorf("a type without a log: %v", err)
		}
	})
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log, err := s.OpenLog(t.Context(), "type/e", store.LogOptions{MaxCount: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, head, _ := log.Bounds(t.Context())
	page, err := log.Read(t.Context(), head-1, 1)
	if err != nil || len(page.Entries) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	want(t, "the newest entry", string(page.Entries[0].Data), `{"inputSchema":`+tighter+`,"payloadSchema":`+narrow+`,"floor":5}`)
}

// A store that is not durable remembers nothing.
func TestNothingRemembered(t *testing.T) {
	b := start(t, memory.New())
	b.emit(1)
	for _, payload := range []string{wide, narrow} {
		want(t, payload, b.register(input, payload), " 0")
	}
}

// REP-16: builds that run side by side, in any order, compare new schemas with the latest; schemas that are already
// in the history change nothing, and each build has a separate floor.
func TestSideBySide(t *testing.T) {
	c := memcluster.New()
	s := c.Open()
	a := start(t, s)
	want(t, "first", a.register(input, wide), " 0")
	a.emit(2)
	want(t, "additive", start(t, c.Open()).register(input, additive), " 0")
	b := start(t, c.Open())
	want(t, "narrowed", b.register(input, narrow), fault.FeaturePayload+" 2")
	b.emit(1)
	want(t, "the older restarted", start(t, c.Open()).register(input, wide), " 0")
	want(t, "the narrower restarted", start(t, c.Open()).register(input, narrow), " 2")
	known, err := s.History(t.Context(), "e")
	if err != nil || len(known) != 3 {
		t.Fatalf("%+v, %v", known, err)
	}
}

// REP-16: replicas of a new build that start concurrently decide on the stored history: its schemas are entered once.
func TestStartingTogether(t *testing.T) {
	c := memcluster.New()
	first := c.Open()
	b := start(t, first)
	b.register(input, wide)
	b.emit(1)
	var all sync.WaitGroup
	for range 8 {
		replica := start(t, c.Open())
		all.Go(func() {
			replica.register(input, narrow)
			if n := replica.log.Floor(); n != 1 {
				t.Errorf("floor %d", n)
			}
		})
	}
	all.Wait()
	known, err := first.History(t.Context(), "e")
	if err != nil || len(known) != 2 || known[1].Floor != 1 {
		t.Fatalf("%+v, %v", known, err)
	}
}

// A failure of the store is an error of the registration.
func TestFailingStore(t *testing.T) {
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "e.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := start(t, s)
	r := b.recall(input, wide)
	b.emit(1)
	s.Close()
	if err := r.Commit(t.Context()); err == nil || !strings.Contains(err.Error(), "adding to its history of schemas") {
		t.Errorf("%v", err)
	}
	if _, err := history.Of(closedStore{memory.New()}, time.Now, evolve.Features).Recall(t.Context(), descriptor(input, wide), nil); !errors.Is(err, errClosed) || !strings.Contains(err.Error(), "reading its history of schemas") {
		t.Errorf("%v", err)
	}
}

var errClosed = errors.New("it is closed")

// A closedStore is a durable store whose logs cannot be opened.
type closedStore struct{ *memory.Store }

func (closedStore) Durable() bool { return true }

func (closedStore) OpenLog(context.Context, string, store.LogOptions) (store.EventLog, error) {
	return nil, errClosed
}
