package subscriber

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// An eventType is a type with an emitter and without rules, whose definition can be changed.
type eventType struct {
	log *topic.Topic
	def Definition // nil: removed
}

func (et *eventType) Name() string           { return "e" }
func (et *eventType) Current() Definition    { return et.def }
func (et *eventType) Topic() *topic.Topic    { return et.log }
func (et *eventType) Head() store.Position   { return et.log.Head() }
func (et *eventType) Feeds() *feed.Feeds     { return nil }
func (et *eventType) Refuses() *events.Error { return nil }

type definition struct{ topic.Type }

func (d *definition) Kernel() *topic.Type { return &d.Type }
func (d *definition) Check() *feed.Check  { return nil }
func (d *definition) Webhooks() bool      { return true }
func (d *definition) Lineage() uint64     { return 0 }

func (d *definition) Fingerprint() string { return "f" }
func (d *definition) Changed() string     { return "" }

func newDefinition(t *testing.T, inputSchema string) *definition {
	t.Helper()
	input, err := validate.Compile(json.RawMessage(inputSchema))
	if err != nil {
		t.Fatal(err)
	}
	decode := func(json.RawMessage) (any, error) { return new(any), nil }
	return &definition{topic.Type{Name: "e", NameJSON: []byte(`"e"`), MaxArguments: 1000, Input: input,
		DecodeArguments: decode, DecodePayload: decode, Encodable: func(json.RawMessage) error { return nil }}}
}

func newEventType(t *testing.T) *eventType {
	t.Helper()
	d := newDefinition(t, `{"type":"object"}`)
	log, err := topic.Open(&d.Type, topic.Options{Slots: 8, Open: func(appended func([]store.Entry)) (store.EventLog, error) {
		return memory.New().OpenLog(t.Context(), "e", store.LogOptions{Appended: appended})
	}})
	if err != nil {
		t.Fatal(err)
	}
	return &eventType{log: log, def: d}
}

func (et *eventType) append(t *testing.T, id string) {
	t.Helper()
	e := store.Entry{EventID: id, Timestamp: events.NewTime(time.Now()), Data: json.RawMessage(`{}`)}
	if _, err := et.log.Append(context.Background(), e, nil, false); err != nil {
		t.Fatal(err)
	}
}

func newReader(t *testing.T, et *eventType) *logReader {
	t.Helper()
	a, err := parse(et.def, json.RawMessage(`{"service":"api"}`))
	if err != nil {
		t.Fatal(err)
	}
	r := new(Subscriptions).newLogReader(et, Identity{ID: "sub_1", Principal: "ada", Event: "e"}, a)
	t.Cleanup(r.Close)
	return r
}

// Trap 3: what is appended between a read and the parking that follows is met. logReader.Park carries
// it, by topic.Reader.ParkAt.
func TestTrap3Park(t *testing.T) {
	et := newEventType(t)
	r := newReader(t, et)
	et.append(t, "x1")
	if r.Park(0) {
		t.Error("a reader behind the head parks")
	}
	if !r.Park(1) {
		t.Error("a reader at the head does not park")
	}
}

// Trap 3, EVOL-3: a reader parks under the present definition. binding.arguments carries it.
func TestTrap3ParkUnderThePresentDefinition(t *testing.T) {
	et := newEventType(t)
	r := newReader(t, et)
	d := newDefinition(t, `{"type":"object","properties":{"service":{}}}`)
	et.def = d
	et.log.Redefine(&d.Type, false)
	if !r.Park(0) || r.latest().Def != et.def {
		t.Error("a reader does not take over the definition")
	}
}

// EVOL-1, EVOL-2: a reader of a type that is gone, or whose arguments are not valid any more, finds
// nothing, passes over nothing and does not park: it ends, or another process serves it. binding.arguments carries it.
func TestEVOLReaderWithoutDefinition(t *testing.T) {
	for name, def := range map[string]Definition{
		"removed":  nil,
		"narrowed": newDefinition(t, `{"type":"object","properties":{"service":{"type":"number"}}}`),
	} {
		et := newEventType(t)
		r := newReader(t, et)
		et.append(t, "x1")
		et.def = def
		if f, err := r.Read(t.Context(), 0, 10); !errors.Is(err, errUnread) {
			t.Errorf("%s: found %+v, %v", name, f, err)
		}
		if r.Park(0) {
			t.Errorf("%s: parks", name)
		}
	}
}
