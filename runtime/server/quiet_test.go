package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A lockedLog is what a server logs.
type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// take returns what was logged since it was last called.
func (l *lockedLog) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.b.Reset()
	return l.b.String()
}

// V8: neither a caller's mistake nor a decision of a hook's is an error of the server's, by whatever method or tool it
// comes; a hook's panic, an internal error and what a hook says beyond its decision are logged.
func TestQuietLog(t *testing.T) {
	var log lockedLog
	fails := func() error { return nil }
	s := newServer(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Visible: func(_ context.Context, _, event string) bool { return event != "hidden" },
		Authorize: func(_ context.Context, _, event string, args json.RawMessage) error {
			if strings.Contains(string(args), "P3") {
				return events.Forbidden("not P3")
			}
			return fails()
		}})
	for _, name := range []string{"e", "hidden"} {
		register(t, s, name, Hooks[filterArgs, incident]{})
	}
	if err := errors.Join(s.AddWaitTool(), s.AddReadTools(readTool("e"), readTool("hidden"))); err != nil {
		t.Fatal(err)
	}
	legacy := connect(t, s)
	legacy.initialize()
	modern := connect(t, s)
	call := func(method, params string) {
		t.Helper()
		legacy.send(method, params)
		modern.send(method, strings.TrimSuffix(params, "}")+map[bool]string{true: "", false: ","}[params == "{}"]+statelessMeta+"}")
	}
	mistakes := []string{`"name":"none"`, `"name":"hidden"`, `"name":"e","arguments":{"severity":"P9"}`, `"name":"e","arguments":{"severity":"P3"}`}
	for _, m := range mistakes {
		for _, method := range []string{"events/poll", "events/stream", "events/subscribe", "events/unsubscribe"} {
			call(method, "{"+m+"}")
		}
		call("tools/call", `{"name":"events_wait","arguments":{"events":[{"name":"e"},{`+m+`}],"waitSeconds":0}}`)
	}
	for _, args := range []string{`{"severity":"P9"}`, `{"severity":"P3"}`, `{"waitSeconds":99}`, `{"cursor":1}`} {
		call("tools/call", `{"name":"read_e","arguments":`+args+`}`)
		call("tools/call", `{"name":"read_hidden","arguments":`+args+`}`)
	}
	for _, args := range []string{`{}`, `{"events":[]}`, `{"events":[{"name":"e"}],"waitSeconds":99}`} {
		call("tools/call", `{"name":"events_wait","arguments":`+args+`}`)
	}
	call("tools/list", `{}`)
	call("events/list", `{"cursor":"x"}`)
	if got := log.take(); strings.Contains(got, "level=ERROR") || strings.Contains(got, "error=<nil>") {
		t.Errorf("%s", got)
	}
	for what, f := range map[string]func() error{
		"a secret cause":  func() error { return fmt.Errorf("a secret cause: %w", events.Forbidden("no")) },
		"the database is": func() error { return errors.New("the database is gone") },
		"boom":            func() error { panic("boom") },
	} {
		fails = f
		for _, answer := range []func() string{
			func() string {
				return string(legacy.send("tools/call", `{"name":"events_wait","arguments":{"events":[{"name":"e"}],"waitSeconds":0}}`).Result)
			},
			func() string { return string(legacy.send("tools/call", `{"name":"read_e","arguments":{}}`).Result) },
		} {
			if got := answer(); strings.Contains(got, what) || !strings.Contains(got, `"isError":true`) {
				t.Errorf("%s: answered by %s", what, got)
			}
			if got := log.take(); strings.Count(got, "level=ERROR") != 1 || !strings.Contains(got, what) {
				t.Errorf("%s: logged %q", what, got)
			}
		}
	}
	fails = func() error { return nil }
	if err := s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	log.take()
	call("tools/call", `{"name":"events_wait","arguments":{"events":[{"name":"e"}],"waitSeconds":0}}`)
	call("events/poll", `{"name":"e"}`)
	if got := log.take(); strings.Contains(got, "level=ERROR") {
		t.Errorf("after the end: %s", got)
	}
}
