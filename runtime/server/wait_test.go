package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// waited is the structured content of a read tool or the wait tool.
type waited struct {
	Events []struct {
		EventID, Name string
		Data          incident
	}
	Cursor    string
	Truncated bool
}

func (w waited) ids() (ids []string) {
	for _, e := range w.Events {
		ids = append(ids, e.EventID)
	}
	return ids
}

// tool calls a tool as a client does.
func tool(t *testing.T, s *Server, name, arguments string) *jsonrpc.Response {
	t.Helper()
	if err := s.AddWaitTool(); err != nil {
		t.Fatal(err)
	}
	return connect(t, s).send("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,%s}`, name, arguments, statelessMeta))
}

// mustWait is a call that has to succeed.
func mustWait(t *testing.T, s *Server, name, arguments string) waited {
	t.Helper()
	return wantWaited(t, tool(t, s, name, arguments))
}

func wantWaited(t *testing.T, res *jsonrpc.Response) waited {
	t.Helper()
	var r struct {
		IsError           bool
		StructuredContent waited
	}
	if err := json.Unmarshal(res.Result, &r); err != nil || r.IsError {
		t.Fatalf("%s %v %v", res.Result, res.Error, err)
	}
	return r.StructuredContent
}

func waitArgs(cursor string, wait, limit int, events ...string) string {
	list := make([]string, len(events))
	for i, e := range events {
		if list[i] = e; !strings.HasPrefix(e, "{") {
			list[i] = fmt.Sprintf(`{"name":%q}`, e)
		}
	}
	args := fmt.Sprintf(`{"events":[%s],"waitSeconds":%d`, strings.Join(list, ","), wait)
	if cursor != "" {
		args += fmt.Sprintf(`,"cursor":%q`, cursor)
	}
	if limit > 0 {
		args += fmt.Sprintf(`,"maxEvents":%d`, limit)
	}
	return args + "}"
}

// A reconnected caller goes on where its last result ended, whichever process of the store it reaches.
func TestWaitReconnects(t *testing.T) {
	s := newServer(t, Options{})
	if err := s.AddWaitTool(); err != nil {
		t.Fatal(err)
	}
	e := register(t, s, "e", Hooks[filterArgs, incident]{})
	first := connect(t, s)
	first.initialize()
	cursor := wantWaited(t, first.send("tools/call", `{"name":"events_wait","arguments":`+waitArgs("", 0, 0, "e")+`}`)).Cursor
	first.conn.Close()
	emit(t, e, incident{ID: "1"})
	again := connect(t, s)
	got := wantWaited(t, again.send("tools/call", `{"name":"events_wait","arguments":`+waitArgs(cursor, 5, 0, "e")+`,`+statelessMeta+`}`))
	wantStrings(t, "ids", got.ids(), "1")
}

// COAL-3: a wait begins in the past within what the type's log keeps, and tells of what that may lack; what follows
// comes with it.
func TestCOAL3WaitSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{Retention: Retention{MaxAge: time.Hour}})
		e := register(t, s, "e", Hooks[filterArgs, incident]{}, WithRetention(Retention{MaxCount: 3}))
		wait := func(more string) waited {
			t.Helper()
			return mustWait(t, s, WaitTool, `{"events":[{"name":"e"}],`+more+`}`)
		}
		emit(t, e, incident{ID: "1"})
		if got := wait(`"waitSeconds":0,"since":"10m"`); strings.Join(got.ids(), " ") != "1" || !got.Truncated {
			t.Errorf("before the server's log began: %+v", got)
		}
		time.Sleep(90 * time.Minute) // it is evicted
		if got := wait(`"waitSeconds":0,"since":"10m"`); len(got.Events) != 0 || got.Truncated {
			t.Errorf("while nothing happened: %+v", got)
		}
		emit(t, e, incident{ID: "2"})
		time.Sleep(time.Minute)
		time.AfterFunc(3*time.Second, func() { emit(t, e, incident{ID: "3"}) })
		time.AfterFunc(9*time.Second, func() { emit(t, e, incident{ID: "4"}) })
		got := wait(`"waitSeconds":30,"quietSeconds":5,"since":"2m"`)
		if strings.Join(got.ids(), " ") != "2 3" || got.Truncated {
			t.Errorf("%+v", got)
		}
		time.Sleep(time.Minute)
		if got := wait(`"waitSeconds":0,"since":"10m"`); strings.Join(got.ids(), " ") != "2 3 4" || !got.Truncated {
			t.Errorf("as many as the log keeps: %+v", got)
		}
	})
}

// What refuses a poll refuses to wait for it, and nothing is left of it.
func TestWaitRefuses(t *testing.T) {
	s := newServer(t, Options{
		Visible: func(_ context.Context, _, event string) bool { return event != "hidden" },
		Authorize: func(_ context.Context, _, event string, args json.RawMessage) error {
			if strings.Contains(string(args), "P3") {
				return events.Forbidden("not P3")
			}
			if strings.Contains(string(args), "P2") {
				return events.NewError(events.KindNotFound, nil)
			}
			return nil
		},
	})
	for _, name := range []string{"e", "hidden"} {
		register(t, s, name, Hooks[filterArgs, incident]{})
	}
	register(t, s, "pushed", Hooks[filterArgs, incident]{}, WithoutPoll())
	for args, want := range map[string]string{
		`{"events":[{"name":"e"},{"name":"hidden"}]}`:             `events/1: NotFound: no such event type: \"hidden\"; the event types are e"`,
		`{"events":[{"name":"e"},{"name":"pushed"}]}`:             `events/1: Unsupported`,
		`{"events":[{"name":"e"},{"name":"E"}]}`:                  `events/1: NotFound: no such event type: \"E\"; did you mean \"e\"? the event types are e"`,
		`{"events":[{"name":"e","arguments":{"severity":"P3"}}]}`: `events/0: Forbidden`,
		`{"events":[{"name":"e","arguments":{"severity":"P2"}}]}`: `events/0: NotFound"`, // a hook's
		`{"events":[{"name":"e","arguments":{"severity":"P9"}}]}`: `events/0: InvalidParams`,
	} {
		if res := tool(t, s, WaitTool, args); !strings.Contains(string(res.Result), `"isError":true`) || !strings.Contains(string(res.Result), want) {
			t.Errorf("%s: %s, want %s", args, res.Result, want)
		}
	}
	if n := len(s.Subscriptions()); n > 1 {
		t.Errorf("%d subscriptions are left of refused calls: %v", n, s.Subscriptions())
	}
}

// LIST-4: the description of the wait tool lists what its caller can wait for, within a bound.
func TestWaitToolList(t *testing.T) {
	s := newServer(t, Options{Visible: func(_ context.Context, _, event string) bool { return event != "secret" }})
	register(t, s, "open", Hooks[filterArgs, incident]{})
	register(t, s, "secret", Hooks[filterArgs, incident]{})
	register(t, s, "pushed", Hooks[filterArgs, incident]{}, WithoutPoll())
	c := connect(t, s)
	c.initialize()
	if res := c.send("tools/list", `{}`); strings.Contains(string(res.Result), WaitTool) {
		t.Error("the wait tool is there without AddWaitTool")
	}
	if err := s.AddWaitTool(); err != nil {
		t.Fatal(err)
	}
	describe := func() string {
		t.Helper()
		res := connect(t, s).send("tools/list", `{`+statelessMeta+`}`)
		var r struct {
			Tools      []mcp.Tool
			CacheScope string
		}
		if err := json.Unmarshal(res.Result, &r); err != nil || len(r.Tools) != 1 || r.Tools[0].Name != WaitTool || r.CacheScope != "private" {
			t.Fatalf("%s %v", res.Result, err)
		}
		if !r.Tools[0].Annotations.ReadOnlyHint {
			t.Error("it only reads")
		}
		return r.Tools[0].Description
	}
	got := describe()
	if !strings.Contains(got, "\n- open: An incident. Arguments: {") || strings.Contains(got, "secret:") || strings.Contains(got, "pushed") {
		t.Errorf("%s", got)
	}
	if err := (&Server{}).AddWaitTool(); err == nil {
		t.Error("a server that only emits serves a tool")
	}
}
