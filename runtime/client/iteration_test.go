package client

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// CLI-10: the policy sees each new occurrence before the application does, and what it refuses is
// withheld and counted.
func TestCLI10Policy(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		f.stream = numbered(3)
		asked := []string{}
		cl := connect(t, f, c, Options{Policy: func(_ context.Context, o events.Occurrence) error {
			asked = append(asked, o.ID+string(o.Raw))
			if o.ID == "e2" {
				return errors.New("no")
			}
			return nil
		}})
		s := subscribe(t, cl, WithCursor("c0"))
		read(t, s).want("e1", "e3")
		synctest.Wait()
		if st := s.Subscription().Status(); st.Withheld != 1 || !slices.Equal(asked, []string{`e1{"n":"e1"}`, `e2{"n":"e2"}`, `e3{"n":"e3"}`}) {
			t.Errorf("%+v, asked %v", st, asked)
		}
	})
}

// An iteration left with break is taken up where it was; only one runs at a time; Close within it
// ends it without an error.
func TestIteration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(true)
		f.stream = numbered(6)
		cl := connect(t, f, carriers[0], Options{})
		s := subscribe(t, cl)
		var got []string
		for range 2 {
			for ev, err := range s.Events() {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, ev.ID)
				for _, err := range s.Events() {
					if !errors.Is(err, errIterating) {
						t.Error(err)
					}
				}
				if len(got)%2 == 0 {
					break
				}
			}
		}
		for ev, err := range s.Events() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, ev.ID)
			s.Close()
		}
		if strings.Join(got, " ") != "e1 e2 e3 e4 e5" {
			t.Errorf("got %v", got)
		}
		for range s.Events() {
			t.Error("an item after Close")
		}
	})
}

// A payload that does not fit the types is reported in its place, with what was received.
func TestPayloadError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(true)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			st.active("c0")
			st.send(wire.NotificationEvent, `{"eventId":"e1","name":"tick","timestamp":"2026-11-20T08:00:00Z","data":{"n":[1]},"cursor":"c1"}`)
			st.send(wire.NotificationEvent, `{"eventId":"e2","name":"tick","timestamp":"yesterday","data":{"n":"x"},"cursor":"c2"}`)
			st.send(wire.NotificationEvent, `{"eventId":"e3","name":"tick","timestamp":"2026-11-20T08:00:00Z","cursor":"c3"}`)
			st.send(wire.NotificationEvent, `{"eventId":"e4","name":"tock","timestamp":"2026-11-20T08:00:00Z","data":{"n":"x"},"cursor":"c4"}`)
			st.event("e5", "c5")
			return hold(st)
		}
		cl := connect(t, f, carriers[0], Options{})
		type payload struct {
			N string `json:"n"`
		}
		s, err := Subscribe(t.Context(), cl, events.Type[json.RawMessage, payload]{Info: events.Info{Name: "tick"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for ev, err := range s.Events() {
			var pe *PayloadError
			if errors.As(err, &pe) {
				got = append(got, "bad "+pe.Occurrence.ID)
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, ev.ID)
			break
		}
		if strings.Join(got, ", ") != "bad e1, bad e2, bad e3, bad e4, e5" {
			t.Errorf("got %v", got)
		}
	})
}
