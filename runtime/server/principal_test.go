package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

type requestValue struct{}

// OCC-4: Transform's result goes to everybody with equal arguments, so the hook cannot learn who
// came first: neither the principal nor a value of the request. Match is asked for each of them.
// Poll, push and webhook share this.
func TestTransformIsImpersonal(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		var asked journal
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{
			Match: func(ctx context.Context, p *incident, _ *filterArgs) bool {
				asked.add(hook.Principal(ctx))
				return p.ID != hook.Principal(ctx) // nobody hears of oneself
			},
			Transform: func(ctx context.Context, p *incident, _ *filterArgs) error {
				value, _ := ctx.Value(requestValue{}).(string)
				p.Secret = hook.Principal(ctx) + value
				return nil
			},
		})
		c := pollFrom(t, w.Server, nil, "").Cursor
		ann, bob := streamAs(t, w.Server, "ann", `{"name":"e"}`), streamAs(t, w.Server, "bob", `{"name":"e"}`)
		w.subscribe("cid", params(plain, secretA, ""))
		synctest.Wait()
		emit(t, e, incident{ID: "x"})
		w.settle(time.Second)
		seen := asked.lines()
		for _, who := range []string{"ann", "bob", "cid"} {
			if strings.Count(strings.Join(seen, " "), who) != 1 {
				t.Errorf("Match was asked for %q", seen)
			}
		}
		emit(t, e, incident{ID: "ann"})
		w.settle(time.Second)

		r, err := w.inside().Call(context.WithValue(t.Context(), requestValue{}, "dan's"), port.Request{Method: wire.MethodPoll, Principal: "dan",
			Params: json.RawMessage(fmt.Sprintf(`{"name":"e","cursor":%q}`, *c)), ID: json.RawMessage("1")})
		if err != nil {
			t.Fatal(err)
		}
		wantStrings(t, "ann", ann.ids(), "x")
		wantStrings(t, "bob", bob.ids(), "x", "ann")
		if got := string(bob.frames()[1].params.Data); got != `{"id":"x"}` {
			t.Errorf("push: %s", got)
		}
		if got := string(w.r.last().body.Data); got != `{"id":"ann"}` {
			t.Errorf("webhook: %s", got)
		}
		if strings.Contains(string(r), "secret") || !strings.Contains(string(r), `{"id":"ann"}`) {
			t.Errorf("poll: %s", r)
		}
	})
}

// SRV-1: a check declared shared is asked for nobody, also where somebody's poll asks it.
func TestSharedCheckIsImpersonal(t *testing.T) {
	s := newServer(t, Options{})
	m := &mailbox{}
	registerMailbox(t, s, m, WithSharedCheck())
	c := pollAs(t, s, "ann", `{"name":"e"}`).Cursor
	pollAs(t, s, "bob", fmt.Sprintf(`{"name":"e","cursor":%q}`, *c))
	wantStrings(t, "asked", m.questions(), "/", "/0")
}
