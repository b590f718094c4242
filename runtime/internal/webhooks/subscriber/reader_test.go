package subscriber

import (
	"errors"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
)

// newEventType is one with an emitter.
func newEventType(t *testing.T) *eventtypetest.Type {
	return eventtypetest.New(t, "e", eventtypetest.Options{Emits: true})
}

func newReader(t *testing.T, et *eventtypetest.Type) *logReader {
	t.Helper()
	a, err := et.Arguments(`{"service":"api"}`)
	if err != nil {
		t.Fatal(err)
	}
	r := new(Subscriptions).newLogReader(et, eventtype.Subscription{ID: "sub_1", Principal: "ada", Event: "e"}, a)
	t.Cleanup(r.Close)
	return r
}

// Trap 3: what is appended between a read and the parking that follows is met. logReader.Park carries
// it, by topic.Reader.ParkAt.
func TestTrap3Park(t *testing.T) {
	et := newEventType(t)
	r := newReader(t, et)
	et.Emit(eventtypetest.Incident{ID: "x1", Service: "api"})
	if r.Park(0) {
		t.Error("a reader behind the head parks")
	}
	if !r.Park(1) {
		t.Error("a reader at the head does not park")
	}
}

// Trap 3, EVOL-3: a reader parks under the present definition. reading.Binding carries it.
func TestTrap3ParkUnderThePresentDefinition(t *testing.T) {
	et := newEventType(t)
	r := newReader(t, et)
	et.Redefine(`{"type":"object","properties":{"service":{}}}`)
	if !r.Park(0) || r.Arguments().Def != et.Current() {
		t.Error("a reader does not take over the definition")
	}
}

// EVOL-1, EVOL-2: a reader of a type that is gone, or whose arguments are not valid any more, finds
// nothing, passes over nothing and does not park: it ends, or another process serves it. reading.Binding carries it.
func TestEVOLReaderWithoutDefinition(t *testing.T) {
	for name, change := range map[string]func(*eventtypetest.Type){
		"removed": (*eventtypetest.Type).Remove,
		"narrowed": func(et *eventtypetest.Type) {
			et.Redefine(`{"type":"object","properties":{"service":{"type":"number"}}}`)
		},
	} {
		et := newEventType(t)
		r := newReader(t, et)
		et.Emit(eventtypetest.Incident{ID: "x1", Service: "api"})
		change(et)
		if f, err := r.Read(t.Context(), 0, 10); !errors.Is(err, errUnread) {
			t.Errorf("%s: found %+v, %v", name, f, err)
		}
		if r.Park(0) {
			t.Errorf("%s: parks", name)
		}
	}
}
