package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
)

// cardNumber is what only ann may see.
const cardNumber = "4111-1111"

// onlyForAnn lets ann see everything, bob see no secret, and dan see nothing. For eve the id decides what goes wrong.
func onlyForAnn(_ context.Context, principal string, p *incident, _ *filterArgs) (*incident, error) {
	switch {
	case principal == "ann":
		return p, nil
	case principal == "dan":
		return nil, nil
	case principal == "eve" && p.ID == "fails":
		return p, errors.New("the directory of permissions is away")
	case principal == "eve" && p.ID == "panics":
		panic("the directory of permissions is nil")
	case principal == "eve" && p.ID == "breaks":
		p.Secret += strings.Repeat("*", 20) // maxLength is 20
		return p, nil
	}
	p.Secret = ""
	return p, nil
}

// everyWay reads what a principal gets of the event "e" that came after the cursor of now, each way in a bubble's
// world.
var everyWay = map[string]func(w *world, principal string) (read func() string){
	"poll": func(w *world, principal string) func() string {
		c := pollAs(w.t, w.Server, principal, `{"name":"e"}`).Cursor
		return func() string {
			raw, rerr := call(w.Server, principal, wire.MethodPoll, fmt.Sprintf(`{"name":"e","cursor":%q}`, *c))
			return fmt.Sprint(string(raw), rerr)
		}
	},
	"held poll": func(w *world, principal string) func() string {
		c := pollAs(w.t, w.Server, principal, `{"name":"e"}`).Cursor
		answer := make(chan string, 1)
		go func() {
			raw, refused := call(w.Server, principal, wire.MethodPoll, fmt.Sprintf(`{"name":"e","cursor":%q,"timeoutMs":5000}`, *c))
			if refused != nil {
				w.t.Errorf("the held poll: %v", refused)
			}
			var page struct{ Cursor string }
			if err := json.Unmarshal(raw, &page); err != nil {
				w.t.Error(err)
			}
			// The first event answers the held poll. The next one brings those that were emitted later.
			time.Sleep(500 * time.Millisecond)
			rest, rerr := call(w.Server, principal, wire.MethodPoll, fmt.Sprintf(`{"name":"e","cursor":%q}`, page.Cursor))
			answer <- fmt.Sprint(string(raw), string(rest), rerr)
		}()
		synctest.Wait()
		return func() string { return <-answer }
	},
	"push": func(w *world, principal string) func() string {
		l := streamAs(w.t, w.Server, principal, `{"name":"e"}`)
		synctest.Wait()
		return func() string { return raw(l) }
	},
	"replay by push": func(w *world, principal string) func() string {
		c := pollAs(w.t, w.Server, principal, `{"name":"e"}`).Cursor
		return func() string {
			l := streamAs(w.t, w.Server, principal, fmt.Sprintf(`{"name":"e","cursor":%q}`, *c))
			synctest.Wait()
			return raw(l)
		}
	},
	"webhook": func(w *world, principal string) func() string {
		w.subscribe(principal, params(plain+principal, secretA, ""))
		return func() string { return posted(w, principal) }
	},
	"replay by webhook": func(w *world, principal string) func() string {
		s := w.subscribe(principal, params(plain+principal, secretA, ""))
		return func() string {
			n := len(posted(w, principal))
			if err := w.Admin().Replay(w.t.Context(), s.ID, *s.Cursor, 0); err != nil {
				w.t.Error(err)
			}
			w.settle(time.Second)
			return posted(w, principal)[n:]
		}
	},
	"follower": func(w *world, principal string) func() string {
		f, err := w.inside().Follow(w.t.Context(), port.FollowRequest{Event: "e", Principal: principal, Mode: "test"})
		if err != nil {
			w.t.Fatal(err)
		}
		return func() string {
			defer f.Close()
			var text strings.Builder
			for {
				ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
				found, err := f.Next(ctx)
				cancel()
				if err != nil {
					return text.String()
				}
				for _, o := range found.Occurrences {
					fmt.Fprintf(&text, `{"eventId":%q,"data":%s}`, o.ID, o.Raw)
				}
			}
		}
	},
	"read tool": func(w *world, principal string) func() string {
		return tooled(w, principal, "read_e", func(cursor string) string { return fmt.Sprintf(`{"cursor":%q}`, cursor) }, `{}`)
	},
	"wait tool that joins a burst": func(w *world, principal string) func() string {
		events := `"events":[{"name":"e"}],"waitSeconds":5,"quietSeconds":1`
		return tooled(w, principal, WaitTool, func(cursor string) string { return fmt.Sprintf(`{%s,"cursor":%q}`, events, cursor) }, `{"events":[{"name":"e"}],"waitSeconds":0}`)
	},
}

// raw is what a stream has written.
func raw(l *live) string {
	var all strings.Builder
	for _, f := range l.frames() {
		all.WriteString(f.raw)
	}
	return all.String()
}

// posted is what the principal's callback got, but challenges.
func posted(w *world, principal string) string {
	var all strings.Builder
	for _, d := range w.r.all() {
		if strings.HasSuffix(d.url, principal) {
			all.Write(d.raw)
		}
	}
	return all.String()
}

// tooled calls a tool, first without a cursor, then from the cursor that it returned.
func tooled(w *world, principal, name string, from func(cursor string) string, now string) func() string {
	call := func(arguments string) string {
		asking = principal
		c := connect(w.t.(*testing.T), w.Server)
		defer c.conn.Close()
		return string(c.send("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,%s}`, name, arguments, statelessMeta)).Result)
	}
	var first struct{ StructuredContent waited }
	if err := json.Unmarshal([]byte(call(now)), &first); err != nil {
		w.t.Fatal(err)
	}
	return func() string { return call(from(first.StructuredContent.Cursor)) }
}

// asking is the principal of calls of tools: one bubble calls one after the other.
var asking string

// OCC-6: PerPrincipal decides what a principal may see of an event, whichever way it reads. What it withholds, fails or
// panics for reaches nobody in any form, and hooks fail for one principal only.
func TestPerPrincipal(t *testing.T) {
	for way, open := range everyWay {
		t.Run(way, func(t *testing.T) {
			var logged journal
			bubble(t, func(o *Options) {
				o.Principal = func(context.Context, *mcp.RequestExtra) string { return asking }
				o.Logger = slog.New(slog.NewTextHandler(&logged, nil))
			}, func(t *testing.T, w *world) {
				e := register(t, w.Server, "e", Hooks[filterArgs, incident]{PerPrincipal: onlyForAnn})
				if err := errors.Join(w.AddReadTools(readTool("e")), w.AddWaitTool()); err != nil {
					t.Fatal(err)
				}
				read := map[string]func() string{}
				for _, who := range []string{"ann", "bob", "dan", "eve"} {
					read[who] = open(w, who)
				}
				for _, id := range []string{"whole", "fails", "panics", "breaks", "last"} {
					emit(t, e, incident{ID: id, Secret: cardNumber})
				}
				w.settle(time.Second)
				for _, who := range slices.Sorted(maps.Keys(read)) {
					got := read[who]()
					want := map[string][]string{"ann": {"whole", "fails", "panics", "breaks", "last"}, "bob": {"whole", "fails", "panics", "breaks", "last"}, "eve": {"whole", "last"}}[who]
					for _, id := range []string{"whole", "fails", "panics", "breaks", "last"} {
						if strings.Contains(got, `"`+id+`"`) != slices.Contains(want, id) {
							t.Errorf("%s gets of %s: %s", who, id, got)
						}
					}
					if n := strings.Count(got, cardNumber); (n > 0) != (who == "ann") {
						t.Errorf("%s sees the secret %d times: %s", who, n, got)
					}
				}
			})
			log := strings.Join(logged.lines(), "\n")
			for _, part := range []string{"the directory of permissions is away", "the directory of permissions is nil", "result of PerPrincipal"} {
				if !strings.Contains(log, part) {
					t.Errorf("not logged: %s", part)
				}
			}
			if strings.Contains(log, cardNumber) {
				t.Error("the log has the secret")
			}
		})
	}
}

// Write keeps a line of a log.
func (j *journal) Write(line []byte) (int, error) {
	j.add(string(line))
	return len(line), nil
}

// OCC-6: PerPrincipal gets what Transform made, and a copy that others do not see; a stream hears that something is
// withheld because of a fault, and nothing of what a principal may not see.
func TestPerPrincipalAfterTransform(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{
			Transform: func(_ context.Context, p *incident, _ *filterArgs) error {
				p.Service += "t"
				return nil
			},
			PerPrincipal: func(ctx context.Context, principal string, p *incident, a *filterArgs) (*incident, error) {
				if PrincipalOf(ctx) != principal || a.Severity == nil {
					t.Errorf("for %q in a context of %q with arguments %v", principal, PrincipalOf(ctx), a)
				}
				p.Service += principal
				return p, map[bool]error{true: events.Forbidden("not you")}[principal == "eve"]
			},
		})
		var all []*live
		for _, who := range []string{"ann", "bob", "ann", "dan", "eve", ""} {
			all = append(all, streamAs(t, w.Server, who, `{"name":"e","arguments":{"severity":"P1"}}`))
		}
		synctest.Wait()
		emit(t, e, incident{ID: "x", Severity: "P1"})
		synctest.Wait()
		for i, want := range []string{"tann", "tbob", "tann", "tdan", "", "t"} {
			frames := all[i].frames()
			var got incident
			json.Unmarshal(frames[1].params.Data, &got)
			if got.Service != want || len(frames) != 2 {
				t.Errorf("stream %d: %s", i, frames[1].raw)
			}
		}
		if got := all[4].frames()[1]; got.method != wire.NotificationError || string(got.params.Error.Data) != `{"reason":"not you"}` || strings.Contains(got.raw, `"x"`) {
			t.Errorf("eve: %s", got.raw)
		}
	})
}

// OCC-6: a check's events have members for each principal as well, also where one check is asked for all. An event
// without an id is withheld, since a derived one would be a hash of the whole payload.
func TestPerPrincipalOfCheck(t *testing.T) {
	for name, o := range map[string][]TypeOption{"each": nil, "shared": {WithSharedCheck()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, w *world) {
				m := &mailbox{}
				if err := RegisterCheck(w.Server, incidentType("e"), m.check, Hooks[filterArgs, incident]{PerPrincipal: onlyForAnn}, append(o, WithNextPoll(time.Second))...); err != nil {
					t.Fatal(err)
				}
				var polls, pushes []func() string
				for _, who := range []string{"ann", "bob"} {
					polls, pushes = append(polls, everyWay["poll"](w, who)), append(pushes, everyWay["push"](w, who))
				}
				for _, who := range []string{"ann", "bob", ""} {
					for _, id := range []string{"one", "", "two"} {
						m.put(who, events.Item[incident]{ID: id, Timestamp: time.Now(), Data: incident{ID: "data", Secret: cardNumber}})
					}
				}
				w.settle(3 * time.Second)
				for _, ways := range [][]func() string{polls, pushes} {
					for i, read := range ways {
						got := read()
						if strings.Count(got, `"eventId"`) != 2 || !strings.Contains(got, "one") || !strings.Contains(got, "two") || strings.Contains(got, cardNumber) != (i == 0) {
							t.Errorf("%d: %s", i, got)
						}
					}
				}
			})
		})
	}
}

// OCC-6, CUR-8: cursors carry nothing that is made of a payload with private members: the same log gives the same
// cursors whatever is in them.
func TestPerPrincipalCursors(t *testing.T) {
	of := func(secret string, h Hooks[filterArgs, incident]) (proof uint32) {
		s := newServer(t, Options{Operators: operators.New()})
		e := register(t, s, "e", h)
		emit(t, e, incident{ID: "1", Secret: secret}, events.WithTimestamp(time.Unix(1e9, 0)))
		c, err := wire.ParseCursor(*poll(t, s, `{"name":"e"}`).Cursor)
		if err != nil {
			t.Fatal(err)
		}
		return c.Proof
	}
	private := Hooks[filterArgs, incident]{PerPrincipal: onlyForAnn}
	if of("a", private) != of("b", private) {
		t.Error("a cursor tells private members apart")
	}
	if of("a", Hooks[filterArgs, incident]{}) == of("b", Hooks[filterArgs, incident]{}) {
		t.Error("this does not test what it says")
	}
}

// secretType is an event type "e" whose member secret is private.
func secretType(private published.Private) events.Type[filterArgs, incident] {
	t := incidentType("e")
	published.Of(&t.Info).Private = private
	return t
}

// OCC-7: without PerPrincipal, nobody gets a private member, whichever way it reads.
func TestPrivateMembers(t *testing.T) {
	for way, open := range everyWay {
		t.Run(way, func(t *testing.T) {
			bubble(t, func(o *Options) {
				o.Principal = func(context.Context, *mcp.RequestExtra) string { return asking }
			}, func(t *testing.T, w *world) {
				e, err := Register(w.Server, secretType(published.Private{{"/secret": published.Remove}}), Hooks[filterArgs, incident]{})
				if err = errors.Join(err, w.AddReadTools(readTool("e")), w.AddWaitTool()); err != nil {
					t.Fatal(err)
				}
				read := open(w, "ann")
				emit(t, e, incident{ID: "one", Service: "db", Secret: cardNumber})
				w.settle(time.Second)
				if got := read(); !strings.Contains(got, `"one"`) || !strings.Contains(got, `"db"`) || strings.Contains(got, "ecret") || strings.Contains(got, cardNumber) {
					t.Errorf("ann gets: %s", got)
				}
			})
		})
	}
}

// OCC-7: an event is withheld if its private members cannot be removed, and cursors and ids do not tell them apart.
func TestPrivateMembersFailClosed(t *testing.T) {
	for name, private := range map[string]published.Private{
		"a required member": {{"/id": published.Remove}},
		"a damaged table":   {{"/secret": published.Remove, "/service": 7}},
		"an empty table":    {},
	} {
		s := newServer(t, Options{Operators: operators.New()})
		e, err := Register(s, secretType(private), Hooks[filterArgs, incident]{})
		if err != nil {
			t.Fatal(err)
		}
		c := poll(t, s, `{"name":"e"}`).Cursor
		emit(t, e, incident{ID: "one", Service: "db", Secret: cardNumber})
		raw, refused := call(s, "", wire.MethodPoll, fmt.Sprintf(`{"name":"e","cursor":%q}`, *c))
		if refused != nil || strings.Contains(string(raw), "one") || strings.Contains(string(raw), cardNumber) {
			t.Errorf("%s: %s %v", name, raw, refused)
		}
		if c, err := wire.ParseCursor(*poll(t, s, `{"name":"e"}`).Cursor); err != nil || c.Proof != 0 {
			t.Errorf("%s: the cursor has the proof %d, %v", name, c.Proof, err)
		}
	}
}
