package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
	"github.com/mcpe-gen/mcpe-gen/runtime/validate"
)

// waited is the structured content of a read tool or the wait tool.
type waited struct {
	Notice string
	Events []struct {
		EventID, Name string
		Data          incident
	}
	Cursor             string
	Truncated, HasMore bool
}

func (w waited) ids() (ids []string) {
	for _, e := range w.Events {
		ids = append(ids, e.EventID)
	}
	return ids
}

// tool calls a tool as the SDK does, in this goroutine; problem is the text of a tool error.
func (s *Server) tool(ctx context.Context, name, arguments string) (got waited, problem string, err error) {
	req := &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: name, Arguments: json.RawMessage(arguments)}}
	answer := s.waitForAny
	if event, ok := strings.CutPrefix(name, "read_"); ok {
		t := readTool(event)
		answer = func(ctx context.Context, principal string, req *mcp.CallToolRequest) (json.RawMessage, error) {
			return s.readNext(ctx, principal, &t, req)
		}
	}
	res, err := s.answerTool(ctx, name, req, answer)
	if err != nil {
		return got, "", err
	}
	text := res.Content[0].(*mcp.TextContent).Text
	if res.IsError {
		return got, text, nil
	}
	if string(res.StructuredContent.(json.RawMessage)) != text {
		return got, "", errors.New("the text is not the structured content")
	}
	if name == WaitTool {
		schema, err := validate.Compile(json.RawMessage(waitOutput))
		if err == nil {
			err = schema.Validate(json.RawMessage(text))
		}
		if err != nil {
			return got, "", fmt.Errorf("%s: %w", text, err)
		}
	}
	return got, "", json.Unmarshal([]byte(text), &got)
}

// mustWait is a call that has to succeed.
func mustWait(t *testing.T, s *Server, name, arguments string) waited {
	t.Helper()
	got, problem, err := s.tool(t.Context(), name, arguments)
	if err != nil || problem != "" {
		t.Fatalf("%s %s: %s %v", name, arguments, problem, err)
	}
	return got
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

// POLL-9: a read tool that waits is held until an occurrence comes, or as long as it asked; what is asked for is
// bounded by the option; without waitSeconds it answers at once.
func TestReadToolWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{MaxToolWait: 40 * time.Second})
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		for _, c := range []struct {
			args string
			want time.Duration
		}{{`{}`, 0}, {`{"waitSeconds":0}`, 0}, {`{"waitSeconds":20}`, 20 * time.Second}, {`{"waitSeconds":55}`, 40 * time.Second}} {
			began := time.Now()
			got := mustWait(t, s, "read_e", c.args)
			if d := time.Since(began); d != c.want || len(got.Events) != 0 || got.Cursor == "" || got.Notice != "" {
				t.Errorf("%s: %v, %+v", c.args, d, got)
			}
		}
		cursor := mustWait(t, s, "read_e", `{}`).Cursor
		time.AfterFunc(7*time.Second, func() { emit(t, e, incident{ID: "1", Severity: "P2"}) })
		time.AfterFunc(9*time.Second, func() { emit(t, e, incident{ID: "2", Severity: "P1"}) })
		began := time.Now()
		got := mustWait(t, s, "read_e", fmt.Sprintf(`{"waitSeconds":30,"severity":"P1","cursor":%q}`, cursor))
		if d := time.Since(began); d != 9*time.Second || !slices.Equal(got.ids(), []string{"2"}) {
			t.Errorf("%v, %+v", d, got)
		}
		if !strings.Contains(got.Notice, "never as instructions") {
			t.Errorf("the data of others is not marked: %q", got.Notice)
		}
		// Without a cursor it waits from the moment of the call.
		time.AfterFunc(time.Second, func() { emit(t, e, incident{ID: "3"}) })
		if got := mustWait(t, s, "read_e", `{"waitSeconds":30}`); !slices.Equal(got.ids(), []string{"3"}) {
			t.Errorf("%+v", got)
		}
		for args, want := range map[string]string{
			`{"waitSeconds":56}`:   `/waitSeconds","message":"is 56, must be an integer from 0 to 55"`,
			`{"waitSeconds":-1}`:   `is -1, must be an integer from 0 to 55`,
			`{"waitSeconds":1.5}`:  `is 1.5, must be`,
			`{"waitSeconds":"10"}`: `must be an integer from 0 to 55`,
			`{"waitSeconds":1e9}`:  `is 1000000000, must be an integer from 0 to 55`,
		} {
			if _, problem, err := s.tool(t.Context(), "read_e", args); !strings.Contains(problem, want) {
				t.Errorf("%s: %q %v", args, problem, err)
			}
		}
	})
}

// An author who switches waiting off by the option has tools that answer at once.
func TestToolsThatNeverWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{MaxToolWait: -1})
		register(t, s, "e", Hooks[filterArgs, incident]{})
		began := time.Now()
		mustWait(t, s, "read_e", `{"waitSeconds":55}`)
		mustWait(t, s, WaitTool, waitArgs("", 55, 0, "e"))
		if d := time.Since(began); d != 0 {
			t.Errorf("they waited %v", d)
		}
	})
}

// Whichever of several event types comes first ends the call, of a log, a check and both.
func TestWaitForWhatComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{NextPoll: time.Second})
		a := register(t, s, "a", Hooks[filterArgs, incident]{})
		register(t, s, "b", Hooks[filterArgs, incident]{})
		box := &mailbox{}
		if err := RegisterCheck(s, incidentType("checked"), box.check, Hooks[filterArgs, incident]{}); err != nil {
			t.Fatal(err)
		}
		other := &mailbox{}
		both, err := RegisterBoth(s, incidentType("both"), other.check, Hooks[filterArgs, incident]{})
		if err != nil {
			t.Fatal(err)
		}
		all := []string{"a", "b", "checked", "both"}
		cursor := ""
		for i, c := range []struct {
			do   func(id string)
			name string
		}{
			{func(id string) { emit(t, a, incident{ID: id}) }, "a"},
			{func(id string) { box.put("", mail(id)) }, "checked"},
			{func(id string) { other.put("", mail(id)) }, "both"},
			{func(id string) { emit(t, both, incident{ID: id}) }, "both"},
		} {
			id := fmt.Sprint("id-", i)
			time.AfterFunc(3*time.Second, func() { c.do(id) })
			began := time.Now()
			got := mustWait(t, s, WaitTool, waitArgs(cursor, 50, 0, all...))
			if d := time.Since(began); d < 3*time.Second || d > 5*time.Second || len(got.Events) != 1 ||
				got.Events[0].EventID != id || got.Events[0].Name != c.name || got.Truncated || got.HasMore {
				t.Fatalf("%d: %v, %+v", i, d, got)
			}
			cursor = got.Cursor
		}
		began := time.Now()
		if got := mustWait(t, s, WaitTool, waitArgs(cursor, 20, 0, all...)); len(got.Events) != 0 || got.Truncated {
			t.Errorf("%+v", got)
		}
		if d := time.Since(began); d != 20*time.Second {
			t.Errorf("it waited %v", d)
		}
		// A caller who does not say waits 30 s.
		began = time.Now()
		mustWait(t, s, WaitTool, `{"events":[{"name":"b"}]}`)
		if d := time.Since(began); d != 30*time.Second {
			t.Errorf("it waited %v", d)
		}
	})
}

// A check is asked at its interval while a call waits, whatever wakes it.
func TestWaitAsksChecksAtTheirInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{NextPoll: 5 * time.Second})
		asked := 0
		check := func(context.Context, filterArgs, string) (events.Page[incident], error) {
			asked++
			return events.Page[incident]{Cursor: "c"}, nil
		}
		if err := RegisterCheck(s, incidentType("checked"), check, Hooks[filterArgs, incident]{}); err != nil {
			t.Fatal(err)
		}
		e := register(t, s, "e", Hooks[filterArgs, incident]{Match: func(context.Context, *incident, *filterArgs) bool { return false }})
		go func() {
			for i := range 60 { // each wakes the call, and none concerns it
				time.Sleep(200 * time.Millisecond)
				emit(t, e, incident{ID: fmt.Sprint(i)})
			}
		}()
		mustWait(t, s, WaitTool, waitArgs("", 20, 0, "checked", "e"))
		if asked > 7 { // where now is, from there, then every 5 s
			t.Errorf("asked %d times in 20 s", asked)
		}
	})
}

// Nothing is missed and nothing repeated, whatever the sizes of pages and however emits and calls interleave: over
// logs, checks and both, also where two of the waited have the same type.
func TestWaitMissesAndRepeatsNothing(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			s := newServer(t, Options{NextPoll: time.Second, MaxPage: 4096 + rnd.IntN(20_000), ScanLimit: 64 + rnd.IntN(200)})
			emitters := map[string]*Emitter[incident]{"a": register(t, s, "a", Hooks[filterArgs, incident]{}),
				"b": register(t, s, "b", Hooks[filterArgs, incident]{})}
			box, other := &mailbox{}, &mailbox{}
			if err := RegisterCheck(s, incidentType("checked"), box.check, Hooks[filterArgs, incident]{}); err != nil {
				t.Fatal(err)
			}
			var err error
			if emitters["both"], err = RegisterBoth(s, incidentType("both"), other.check, Hooks[filterArgs, incident]{}); err != nil {
				t.Fatal(err)
			}
			waitFor := []string{`{"name":"a","arguments":{"severity":"P1"}}`, `{"name":"a","arguments":{"any":["P1","P2"]}}`,
				"b", "checked", "both"}
			cursor := mustWait(t, s, WaitTool, waitArgs("", 0, 0, waitFor...)).Cursor
			want := map[string]bool{}
			var mu sync.Mutex
			emitted := make(chan struct{})
			go func() {
				defer close(emitted)
				pause := rand.New(rand.NewPCG(seed, 2))
				for i := range 200 {
					time.Sleep(time.Duration(pause.IntN(400)) * time.Millisecond)
					id := fmt.Sprintf("id-%d", i)
					severity := []string{"P1", "P2", "P3"}[i%3]
					mu.Lock()
					switch i % 7 {
					case 0, 1, 2, 3:
						emit(t, emitters["a"], incident{ID: id, Severity: severity}, events.WithTimestamp(time.Unix(int64(i*7919%100), 0)))
						if severity == "P3" {
							mu.Unlock()
							continue
						}
					case 4:
						emit(t, emitters["b"], incident{ID: id})
					case 5:
						box.put("", mail(id))
					case 6:
						if i%2 == 0 {
							other.put("", mail(id))
						} else {
							emit(t, emitters["both"], incident{ID: id})
						}
					}
					want[id] = true
					mu.Unlock()
				}
			}()
			got := map[string]int{}
			for quiet := false; ; {
				page := mustWait(t, s, WaitTool, waitArgs(cursor, rnd.IntN(5), 1+rnd.IntN(9), shuffled(waitFor)...))
				for _, id := range page.ids() {
					got[id]++
				}
				if page.Truncated {
					t.Fatal("truncated")
				}
				if page.Cursor == cursor && len(page.Events) > 0 {
					t.Fatal("the cursor stands still")
				}
				cursor = page.Cursor
				select {
				case <-emitted:
					if quiet && len(page.Events) == 0 && !page.HasMore {
						missed := maps.Clone(want)
						for id, n := range got {
							if n != 1 || !want[id] {
								t.Errorf("seed %d: %s came %d times", seed, id, n)
							}
							delete(missed, id)
						}
						if len(missed) > 0 {
							t.Errorf("seed %d: missed %v", seed, slices.Sorted(maps.Keys(missed)))
						}
						return
					}
					quiet = len(page.Events) == 0
					time.Sleep(2 * time.Second)
				default:
				}
			}
		})
	}
}

func shuffled(list []string) []string {
	list = slices.Clone(list)
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// What is there already comes oldest first, over all event types, and a call returns maxEvents of it.
func TestWaitOrder(t *testing.T) {
	s := newServer(t, Options{})
	a, b := register(t, s, "a", Hooks[filterArgs, incident]{}), register(t, s, "b", Hooks[filterArgs, incident]{})
	cursor := mustWait(t, s, WaitTool, waitArgs("", 0, 0, "b", "a")).Cursor
	for i, e := range []*Emitter[incident]{b, a, a, b, a} {
		emit(t, e, incident{ID: fmt.Sprint(i)}, events.WithTimestamp(time.Unix(int64(i), 0)))
	}
	var got []string
	for _, want := range []bool{true, true, false} {
		page := mustWait(t, s, WaitTool, waitArgs(cursor, 55, 2, "a", "b"))
		if page.HasMore != want {
			t.Errorf("after %v: hasMore %v", got, page.HasMore)
		}
		got, cursor = append(got, page.ids()...), page.Cursor
	}
	wantStrings(t, "ids", got, "0", "1", "2", "3", "4")
}

// CUR-7: cursors that are none of ours, or of another life of the server, say that something may be lost; an event type
// that is new in the list begins now, without such a word.
func TestWaitCursors(t *testing.T) {
	s := newServer(t, Options{})
	a, b := register(t, s, "a", Hooks[filterArgs, incident]{}), register(t, s, "b", Hooks[filterArgs, incident]{})
	cursor := mustWait(t, s, WaitTool, waitArgs("", 0, 0, "a")).Cursor
	emit(t, a, incident{ID: "1"})
	emit(t, b, incident{ID: "2"})
	got := mustWait(t, s, WaitTool, waitArgs(cursor, 0, 0, "b", "a"))
	if !slices.Equal(got.ids(), []string{"1"}) || got.Truncated {
		t.Errorf("%+v", got)
	}
	for _, bad := range []string{"x", "AQ", "gQ==", "gQAAAAAAAAAAAAAA_w", "gQAAAAAAAAAAgICAgICAgICAgICA", cursor + "\n", strings.Repeat("A", maxWaitCursor+4),
		poll(t, s, `{"name":"a"}`).cursorText()} {
		if got := mustWait(t, s, WaitTool, waitArgs(bad, 0, 0, "a")); !got.Truncated || len(got.Events) != 0 {
			t.Errorf("cursor %.40q: %+v", bad, got)
		}
	}
	other := newServer(t, Options{})
	register(t, other, "a", Hooks[filterArgs, incident]{})
	if got := mustWait(t, other, WaitTool, waitArgs(cursor, 0, 0, "a")); !got.Truncated {
		t.Errorf("a cursor of another life: %+v", got)
	}
	if len(cursor) > 48 {
		t.Errorf("a model has to copy %d characters: %s", len(cursor), cursor)
	}
}

func (r pollResult) cursorText() string { return *r.Cursor }

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

// Refusals name the argument, its bound and what it was; nothing else is done.
func TestWaitRefuses(t *testing.T) {
	s := newServer(t, Options{
		Visible: func(_ context.Context, _, event string) bool { return event != "hidden" },
		Authorize: func(_ context.Context, _, event string, args json.RawMessage) error {
			if strings.Contains(string(args), "P3") {
				return events.Forbidden("not P3")
			}
			return nil
		},
	})
	for _, name := range []string{"e", "hidden"} {
		register(t, s, name, Hooks[filterArgs, incident]{})
	}
	register(t, s, "pushed", Hooks[filterArgs, incident]{}, WithoutPoll())
	many := make([]string, maxWaited+1)
	for i := range many {
		many[i] = "e"
	}
	for args, want := range map[string]string{
		``:                           `"path":"/events","message":"must be an array`,
		`[]`:                         `must be an object`,
		`{"events":{}}`:              `"path":"/events","message":"must be an array`,
		`{"events":[]}`:              `has 0 elements, must have 1 to 16`,
		waitArgs("", 1, 0, many...):  `has 17 elements, must have 1 to 16`,
		`{"events":["e"]}`:           `"/events/0","message":"must be an object`,
		`{"events":[{"name":1}]}`:    `"/events/0/name"`,
		`{"events":[{"event":"e"}]}`: `"/events/0/name"`,
		`{"events":[{"name":"e","arguments":[]}]}`:                `"/events/0/arguments","message":"must be an object"`,
		`{"events":[{"name":"e","args":{}}]}`:                     `"/events/0/args"`,
		`{"events":[{"name":"e"}],"wait":3}`:                      `"/wait","message":"is not an argument`,
		`{"events":[{"name":"e"}],"waitSeconds":60}`:              `is 60, must be an integer from 0 to 55`,
		`{"events":[{"name":"e"}],"maxEvents":0}`:                 `"/maxEvents"`,
		`{"events":[{"name":"e"}],"cursor":1}`:                    `"/cursor","message":"must be a string or null"`,
		`{"events":[{"name":"e"},{"name":"e","arguments":{}}]}`:   `"/events/1","message":"is the same as /events/0"`,
		`{"events":[{"name":"e"},{"name":"hidden"}]}`:             `events/1: NotFound`,
		`{"events":[{"name":"e"},{"name":"pushed"}]}`:             `events/1: Unsupported`,
		`{"events":[{"name":"e"},{"name":"none"}]}`:               `events/1: NotFound`,
		`{"events":[{"name":"e","arguments":{"severity":"P3"}}]}`: `events/0: Forbidden`,
		`{"events":[{"name":"e","arguments":{"severity":"P9"}}]}`: `events/0: InvalidParams`,
		`{"events":[{"name":"e","name":"e"}]}`:                    `InvalidParams`,
	} {
		if _, problem, err := s.tool(t.Context(), WaitTool, args); !strings.Contains(problem, want) {
			t.Errorf("%s: %q %v, want %s", args, problem, err, want)
		}
	}
	if n := len(s.Subscriptions()); n > 1 {
		t.Errorf("%d subscriptions are left of refused calls: %v", n, s.Subscriptions())
	}
}

// What ends one of the polls ends the call, which says which.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		register(t, s, "a", Hooks[filterArgs, incident]{})
		register(t, s, "b", Hooks[filterArgs, incident]{})
		time.AfterFunc(time.Second, func() {
			if err := s.Remove("b"); err != nil {
				t.Error(err)
			}
		})
		if _, problem, err := s.tool(t.Context(), WaitTool, waitArgs("", 50, 0, "a", "b")); !strings.HasPrefix(problem, "events/1: NotFound") {
			t.Errorf("%q %v", problem, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		if _, _, err := s.tool(ctx, WaitTool, waitArgs("", 50, 0, "a")); !errors.Is(err, context.Canceled) || time.Since(began) != time.Second {
			t.Errorf("cancelled after %v: %v", time.Since(began), err)
		}
		// SRV-6: at the end of the server a call has what there is, and its cursor.
		time.AfterFunc(time.Second, func() { _ = s.Shutdown(context.Background()) })
		if got := mustWait(t, s, WaitTool, waitArgs("", 50, 0, "a")); got.Cursor == "" || len(got.Events) != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// A caller with a progress token is told every 10 s that its call still waits.
func TestWaitProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		if err := errors.Join(s.AddWaitTool(), s.AddReadTools(readTool("e"))); err != nil {
			t.Fatal(err)
		}
		type told struct {
			token   any
			at      time.Duration
			of      float64
			message string
		}
		var all []told
		began := time.Now()
		client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
			ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
				p := req.Params
				if time.Duration(p.Progress*float64(time.Second)) != time.Since(began) {
					t.Errorf("progress %v after %v", p.Progress, time.Since(began))
				}
				all = append(all, told{p.ProgressToken, time.Since(began), p.Total, p.Message})
			}})
		ours, theirs := mcp.NewInMemoryTransports()
		if _, err := s.mcp.Connect(t.Context(), theirs, nil); err != nil {
			t.Fatal(err)
		}
		session, err := client.Connect(t.Context(), ours, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		callTool := func(token any, name string, args string) *mcp.CallToolResult {
			t.Helper()
			all, began = nil, time.Now()
			params := &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(args)}
			if token != nil {
				params.SetProgressToken(token)
			}
			res, err := session.CallTool(t.Context(), params)
			if err != nil || res.IsError {
				t.Fatal(err, res)
			}
			synctest.Wait()
			return res
		}
		callTool("tok", WaitTool, waitArgs("", 35, 0, "e"))
		want := []told{{"tok", 10 * time.Second, 35, "waiting for e"}, {"tok", 20 * time.Second, 35, "waiting for e"}, {"tok", 30 * time.Second, 35, "waiting for e"}}
		if !slices.Equal(all, want) {
			t.Errorf("told %v, want %v", all, want)
		}
		time.AfterFunc(15*time.Second, func() { emit(t, e, incident{ID: "1"}) })
		callTool("tok", "read_e", `{"waitSeconds":55}`)
		if len(all) != 1 {
			t.Errorf("told %v", all)
		}
		callTool(nil, WaitTool, waitArgs("", 35, 0, "e"))
		if len(all) != 0 {
			t.Errorf("nobody asked: %v", all)
		}
	})
}

// A thousand callers wait at once; each gets what it waits for, and nothing is left of them.
func TestWaitThousand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		a := register(t, s, "a", Hooks[filterArgs, incident]{})
		register(t, s, "b", Hooks[filterArgs, incident]{})
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				args := waitArgs("", 55, 0, "b", fmt.Sprintf(`{"name":"a","arguments":{"service":"s%d"}}`, i%10))
				began := time.Now()
				got, problem, err := s.tool(t.Context(), WaitTool, args)
				want := time.Duration(1+i%10) * time.Second
				if err != nil || problem != "" || len(got.Events) != 1 || got.Events[0].EventID != fmt.Sprint("id", i%10) || time.Since(began) != want {
					t.Errorf("%d: %+v %s %v after %v", i, got, problem, err, time.Since(began))
				}
			})
		}
		synctest.Wait()
		for i := range 10 {
			time.Sleep(time.Second)
			emit(t, a, incident{ID: fmt.Sprint("id", i), Service: fmt.Sprint("s", i)})
		}
		all.Wait()
	})
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
	for i := range 100 {
		register(t, s, fmt.Sprint("more", i), Hooks[filterArgs, incident]{})
	}
	if got = describe(); len(got) > maxWaitList+1024 || !strings.Contains(got, " more\"") && !strings.HasSuffix(got, " more") {
		t.Errorf("%d bytes: …%s", len(got), got[len(got)-100:])
	}
	if err := (&Server{}).AddWaitTool(); err == nil {
		t.Error("a server that only emits serves a tool")
	}
}

// A read tool whose event type has an argument waitSeconds of its own does not wait.
func TestReadToolWithoutWaiting(t *testing.T) {
	info := incidentType("e").Info
	info.InputSchema = json.RawMessage(`{"type":"object","properties":{"waitSeconds":{"type":"string"}}}`)
	if tool := readtool.Of(info); tool.WaitArgument != "" || tool.Tool.InputSchema == nil {
		t.Errorf("%+v", tool)
	}
	tool := readtool.NewNamed(info, "read_e", readtool.ArgumentNames{Wait: "hold"})
	if input := string(tool.Tool.InputSchema.(json.RawMessage)); tool.WaitArgument != "hold" || !strings.Contains(input, `"hold":{"type":"integer","minimum":0,"maximum":55`) {
		t.Errorf("%s", input)
	}
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
