package mcpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

type noArguments struct{}

type incident struct {
	ID string `json:"id"`
}

var created = events.Type[noArguments, incident]{Info: events.Info{Name: "incident.created", Description: "An incident.",
	InputSchema:   json.RawMessage(`{"type":"object","additionalProperties":false}`),
	PayloadSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string","minLength":1}},"required":["id"]}`)}}

func register(t *testing.T, es *server.Server) *server.Emitter[incident] {
	t.Helper()
	e, err := server.Register(es, created, server.Hooks[noArguments, incident]{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// MCPC-SRV-4: a typed payload of any event type goes to one session as a server event.
func TestServerEvents(t *testing.T) {
	for _, version := range eras {
		bubble(t, mcpc.Options{}, nil, func(g *rig) {
			e := register(t, g.es)
			check := created
			check.Name = "incident.checked"
			if err := server.RegisterCheck(g.es, check, func(context.Context, noArguments, string) (events.Page[incident], error) {
				return events.Page[incident]{Cursor: "1"}, nil
			}, server.Hooks[noArguments, incident]{}); err != nil {
				t.Fatal(err)
			}
			p, q, plain := g.dial(version), g.dial(version), g.dial(version)
			_ = plain
			q.Call("_mcpc_init", `{}`)
			p.Call("count", `{"steps":0,"mcpc_params":{"session_id":"talk","task_id":"t"}}`)
			p.heard()
			all := g.a.Sessions()
			i := slices.IndexFunc(all, func(s mcpc.Session) bool { return s.ID == "talk" })
			if len(all) != 2 || i < 0 {
				t.Fatalf("sessions %+v", all)
			}
			ctx := t.Context()
			if err := mcpc.SendEvent(ctx, g.a, all[i], e, incident{"i1"}); err != nil {
				t.Fatal(err)
			}
			if err := mcpc.SendEventNamed(ctx, g.a, all[i], "incident.checked", incident{"i2"}); err != nil {
				t.Fatal(err)
			}
			if err := mcpc.SendEvent(ctx, g.a, all[i], e, incident{}); !errors.Is(err, events.ErrInvalidPayload) {
				t.Errorf("invalid payload: %v", err)
			}
			if err := mcpc.SendEventNamed(ctx, g.a, all[i], "incident.checked", noArguments{}); !errors.Is(err, events.ErrInvalidPayload) {
				t.Errorf("another type: %v", err)
			}
			if err := mcpc.SendEventNamed(ctx, g.a, all[i], "no.such", incident{"i"}); !errors.Is(err, events.ErrNotFound) {
				t.Errorf("unknown: %v", err)
			}
			equal(t, version, p.heard()[1:], ` incident.created {"id":"i1"}`, ` incident.checked {"id":"i2"}`)
			if m := p.messages[1]; m.Type != "server_event" || m.SessionID != "talk" || m.ToolName != "" {
				t.Errorf("%+v", m)
			}
			equal(t, "the other", q.heard())
			p.HangUp()
			synctest.Wait()
			if err := mcpc.SendEvent(ctx, g.a, all[i], e, incident{"i3"}); !errors.Is(err, mcpc.ErrUnreachable) {
				t.Errorf("a session that is over: %v", err)
			}
		})
	}
}

// MCPC-SRV-4: one Emit reaches the sessions that speak MCPC, where the author forwards the type, and
// the subscription ends with the session.
func TestForward(t *testing.T) {
	bubble(t, mcpc.Options{Forward: func(event string) bool { return event == "incident.created" }}, nil, func(g *rig) {
		early := g.dial(modern)
		early.Call("_mcpc_init", `{}`)
		e := register(t, g.es) // after the session has come
		late, unasked, plain := g.dial(legacy), g.dial(legacy), g.dial(legacy)
		unasked.Call("count", withTask(0, "t")) // speaks MCPC without a check
		synctest.Wait()
		late.Call("is_mcpc_enabled", `{}`)
		// Whoever was answered is sent what occurs from then on.
		if err := e.Emit(t.Context(), incident{"i1"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for name, p := range map[string]*peer{"early": early, "late": late} {
			equal(t, name, p.heard(), ` incident.created {"id":"i1"}`)
		}
		equal(t, "unasked", unasked.heard(), `t complete {"total":0}`, ` incident.created {"id":"i1"}`)
		equal(t, "plain", plain.heard())
		early.HangUp()
		unasked.HangUp()
		late.HangUp()
		synctest.Wait()
		if subs := g.es.Subscriptions(); len(subs) > 0 {
			t.Errorf("subscriptions are left: %+v", subs)
		}
	})
}

// Switching MCPC on adds the type mcpc.task and changes nothing else that events/list says.
func TestTypesStayAsTheyAre(t *testing.T) {
	list := func(on bool) (names []string, rest string) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, serverQuiet(), mcpc.Options{}, nil)
			defer g.stop()
			register(t, g.es)
			if !on {
				if err := g.es.Remove("mcpc.task"); err != nil {
					t.Fatal(err)
				}
			}
			p := g.dial(legacy)
			var r struct{ Events []json.RawMessage }
			if err := json.Unmarshal(p.RPC("events/list", `{}`).Result, &r); err != nil {
				t.Fatal(err)
			}
			for _, d := range r.Events {
				var head struct{ Name string }
				_ = json.Unmarshal(d, &head)
				names = append(names, head.Name)
				if head.Name != "mcpc.task" {
					rest += string(d)
				}
			}
		})
		return names, rest
	}
	with, rest := list(true)
	_, without := list(false)
	slices.Sort(with)
	if !slices.Equal(with, []string{"incident.created", "mcpc.task"}) || rest != without {
		t.Errorf("%v\n%s\n%s", with, rest, without)
	}
}

// MCPC-SRV-4: what waits for a slow session is not sent after the access was taken away.
func TestForwardAfterRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused, open atomic.Bool
		so := server.Options{Authorize: func(context.Context, string, string, json.RawMessage) error {
			if refused.Load() {
				return events.Forbidden("")
			}
			return nil
		}}
		g := newRig(t, so, mcpc.Options{Forward: func(event string) bool { return event == "incident.created" }}, nil)
		defer g.stop()
		e := register(t, g.es)
		var connection string
		stop := port.Of(g.es).OnOutlet(func(o port.Outlet) { connection = o.Session })
		p := g.dial(modern)
		p.Call("_mcpc_init", `{}`)
		synctest.Wait()
		stop()
		var sent []string
		closed := port.Of(g.es).OpenOutlet(port.Outlet{Session: connection, Send: func(m port.Message) bool {
			if open.Load() {
				sent = append(sent, string(m.Raw))
			}
			return open.Load()
		}})
		defer closed()
		for _, id := range []string{"i1", "i2", "i3"} {
			if err := e.Emit(t.Context(), incident{id}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		refused.Store(true)
		if err := g.es.Reauthorize(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		open.Store(true)
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(sent) > 0 {
			t.Errorf("sent after the refusal: %q", sent)
		}
	})
}

// OCC-7: SendEvent runs no hooks, so it removes private members.
func TestSendEventPrivate(t *testing.T) {
	bubble(t, mcpc.Options{}, nil, func(g *rig) {
		type person struct {
			Name   string            `json:"name"`
			Pay    json.Number       `json:"pay,omitzero"`
			People []person          `json:"people,omitzero"`
			Teams  map[string]person `json:"teams,omitzero"`
		}
		hired := events.Type[noArguments, person]{Info: events.Info{Name: "person.hired", Description: "A person.",
			InputSchema: created.InputSchema, PayloadSchema: json.RawMessage(`{"type":"object"}`)}}
		published.Of(&hired.Info).Private = published.Private{{"/pay": published.Remove, "/people": 1, "/teams": 2}, {"*": 3}, {"/open": published.Keep, "*": 3}, {"/pay": published.Remove}}
		e, err := server.Register(g.es, hired, server.Hooks[noArguments, person]{PerPrincipal: func(_ context.Context, _ string, p *person, _ *noArguments) (*person, error) {
			return p, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		p := g.dial(modern)
		p.Call("_mcpc_init", `{}`)
		to := g.a.Sessions()[0]
		ann := person{Name: "ann", Pay: "1.50", People: []person{{Name: "bob", Pay: "2"}}, Teams: map[string]person{"red": {Name: "cy", Pay: "3"}, "open": {Name: "di", Pay: "4.0"}}}
		if err := mcpc.SendEvent(t.Context(), g.a, to, e, ann); err != nil {
			t.Error(err)
		}
		if err := mcpc.SendEventNamed(t.Context(), g.a, to, "person.hired", ann); err != nil {
			t.Error(err)
		}
		want := ` person.hired {"name":"ann","people":[{"name":"bob"}],"teams":{"open":{"name":"di","pay":4.0},"red":{"name":"cy"}}}`
		equal(t, "sent", p.heard(), want, want)
	})
}
