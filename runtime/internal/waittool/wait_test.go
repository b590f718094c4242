package waittool

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

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/polling/pollingtest"
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
func (s *bed) tool(ctx context.Context, name, arguments string) (got waited, problem string, err error) {
	answer := s.waitForAny
	if event, ok := strings.CutPrefix(name, "read_"); ok {
		t := readTool(event)
		answer = func(ctx context.Context, req *mcp.CallToolRequest) (json.RawMessage, error) {
			return s.readNext(ctx, &t, req)
		}
	}
	res, err := s.handler(name, answer)(ctx, &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: name, Arguments: json.RawMessage(arguments)}})
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
	if name == Name {
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
func mustWait(t *testing.T, s *bed, name, arguments string) waited {
	t.Helper()
	got, problem, err := s.tool(t.Context(), name, arguments)
	if err != nil || problem != "" {
		t.Fatalf("%s %.200s: %s %v", name, arguments, problem, err)
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
		s := newBed(t)
		s.MaxWait = 40 * time.Second
		e := s.event("e", true, false)
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
		time.AfterFunc(7*time.Second, func() { e.Emit(incident{ID: "1", Severity: "P2"}) })
		time.AfterFunc(9*time.Second, func() { e.Emit(incident{ID: "2", Severity: "P1"}) })
		began := time.Now()
		got := mustWait(t, s, "read_e", fmt.Sprintf(`{"waitSeconds":30,"severity":"P1","cursor":%q}`, cursor))
		if d := time.Since(began); d != 9*time.Second || !slices.Equal(got.ids(), []string{"2"}) {
			t.Errorf("%v, %+v", d, got)
		}
		if !strings.Contains(got.Notice, "never as instructions") {
			t.Errorf("the data of others is not marked: %q", got.Notice)
		}
		// Without a cursor it waits from the moment of the call.
		time.AfterFunc(time.Second, func() { e.Emit(incident{ID: "3"}) })
		if got := mustWait(t, s, "read_e", `{"waitSeconds":30}`); !slices.Equal(got.ids(), []string{"3"}) {
			t.Errorf("%+v", got)
		}
		for args, want := range map[string]string{
			`{"waitSeconds":56}`:                              `/waitSeconds","message":"is 56, must be an integer from 0 to 55"`,
			`{"waitSeconds":-1}`:                              `is -1, must be an integer from 0 to 55`,
			`{"waitSeconds":1.5}`:                             `is 1.5, must be`,
			`{"waitSeconds":"ten"}`:                           `must be an integer from 0 to 55`,
			`{"waitSeconds":1e9}`:                             `is 1000000000, must be an integer from 0 to 55`,
			`{"cursor":"` + strings.Repeat("A", 1<<16) + `"}`: `bytes of JSON, at most 65536`,
		} {
			if _, problem, err := s.tool(t.Context(), "read_e", args); !strings.Contains(problem, want) {
				t.Errorf("%.200s: %q %v", args, problem, err)
			}
		}
	})
}

// An author who switches waiting off by the option has tools that answer at once.
func TestToolsThatNeverWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBed(t)
		s.MaxWait = -1
		s.event("e", true, false)
		began := time.Now()
		mustWait(t, s, "read_e", `{"waitSeconds":55}`)
		mustWait(t, s, Name, waitArgs("", 55, 0, "e"))
		if d := time.Since(began); d != 0 {
			t.Errorf("they waited %v", d)
		}
	})
}

// Whichever of several event types comes first ends the call, of a log, a check and both.
func TestWaitForWhatComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBed(t)
		a := s.event("a", true, false)
		s.event("b", true, false)
		checked, both := s.event("checked", false, true), s.event("both", true, true)
		all := []string{"a", "b", "checked", "both"}
		cursor := ""
		for i, c := range []struct {
			do   func(id string)
			name string
		}{
			{func(id string) { a.Emit(incident{ID: id}) }, "a"},
			{func(id string) { checked.Put(id) }, "checked"},
			{func(id string) { both.Put(id) }, "both"},
			{func(id string) { both.Emit(incident{ID: id}) }, "both"},
		} {
			id := fmt.Sprint("id-", i)
			time.AfterFunc(3*time.Second, func() { c.do(id) })
			began := time.Now()
			got := mustWait(t, s, Name, waitArgs(cursor, 50, 0, all...))
			if d := time.Since(began); d < 3*time.Second || d > 5*time.Second || len(got.Events) != 1 ||
				got.Events[0].EventID != id || got.Events[0].Name != c.name || got.Truncated || got.HasMore {
				t.Fatalf("%d: %v, %+v", i, d, got)
			}
			cursor = got.Cursor
		}
		began := time.Now()
		if got := mustWait(t, s, Name, waitArgs(cursor, 20, 0, all...)); len(got.Events) != 0 || got.Truncated {
			t.Errorf("%+v", got)
		}
		if d := time.Since(began); d != 20*time.Second {
			t.Errorf("it waited %v", d)
		}
		// A caller who does not say waits 30 s.
		began = time.Now()
		mustWait(t, s, Name, `{"events":[{"name":"b"}]}`)
		if d := time.Since(began); d != 30*time.Second {
			t.Errorf("it waited %v", d)
		}
	})
}

// A check is asked at its interval while a call waits, whatever wakes it.
func TestWaitAsksChecksAtTheirInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBed(t)
		checked, e := s.event("checked", false, true), s.event("e", true, false)
		checked.Current().Check().Interval = 5 * time.Second
		e.Kernel().Match = func(context.Context, any, any) (bool, error) { return false, nil }
		go func() {
			for i := range 60 { // each wakes the call, and none concerns it
				time.Sleep(200 * time.Millisecond)
				e.Emit(incident{ID: fmt.Sprint(i)})
			}
		}()
		mustWait(t, s, Name, waitArgs("", 20, 0, "checked", "e"))
		if asked := checked.Asked(); asked > 7 { // where now is, from there, then every 5 s
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
			s := newBed(t)
			s.maxPage, s.scan = 4096+rnd.IntN(20_000), 64+rnd.IntN(200)
			a, b, checked, both := s.event("a", true, false), s.event("b", true, false), s.event("checked", false, true), s.event("both", true, true)
			waitFor := []string{`{"name":"a","arguments":{"severity":"P1"}}`, `{"name":"a","arguments":{"any":["P1","P2"]}}`,
				"b", "checked", "both"}
			cursor := mustWait(t, s, Name, waitArgs("", 0, 0, waitFor...)).Cursor
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
						a.Emit(incident{ID: id, Severity: severity}, time.Unix(int64(i*7919%100), 0))
						if severity == "P3" {
							mu.Unlock()
							continue
						}
					case 4:
						b.Emit(incident{ID: id})
					case 5:
						checked.Put(id)
					case 6:
						if i%2 == 0 {
							both.Put(id)
						} else {
							both.Emit(incident{ID: id})
						}
					}
					want[id] = true
					mu.Unlock()
				}
			}()
			got := map[string]int{}
			for quiet := false; ; {
				page := mustWait(t, s, Name, waitArgs(cursor, rnd.IntN(5), 1+rnd.IntN(9), shuffled(waitFor)...))
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
	s := newBed(t)
	a, b := s.event("a", true, false), s.event("b", true, false)
	cursor := mustWait(t, s, Name, waitArgs("", 0, 0, "b", "a")).Cursor
	for i, e := range []*pollingtest.Type{b, a, a, b, a} {
		e.Emit(incident{ID: fmt.Sprint(i)}, time.Unix(int64(i), 0))
	}
	var got []string
	for _, want := range []bool{true, true, false} {
		page := mustWait(t, s, Name, waitArgs(cursor, 55, 2, "a", "b"))
		if page.HasMore != want {
			t.Errorf("after %v: hasMore %v", got, page.HasMore)
		}
		got, cursor = append(got, page.ids()...), page.Cursor
	}
	if !slices.Equal(got, []string{"0", "1", "2", "3", "4"}) {
		t.Errorf("%q", got)
	}
}

// CUR-7: cursors that are none of ours, or of another life of the server, say that something may be lost; an event type
// that is new in the list begins now, without such a word.
func TestWaitCursors(t *testing.T) {
	s := newBed(t)
	a, b := s.event("a", true, false), s.event("b", true, false)
	cursor := mustWait(t, s, Name, waitArgs("", 0, 0, "a")).Cursor
	a.Emit(incident{ID: "1"})
	b.Emit(incident{ID: "2"})
	got := mustWait(t, s, Name, waitArgs(cursor, 0, 0, "b", "a"))
	if !slices.Equal(got.ids(), []string{"1"}) || got.Truncated {
		t.Errorf("%+v", got)
	}
	ofPoll := mustWait(t, s, "read_a", `{}`).Cursor
	for _, bad := range []string{"x", "AQ", "gQ==", "gQAAAAAAAAAAAAAA_w", "gQAAAAAAAAAAgICAgICAgICAgICA", cursor + "\n",
		strings.Repeat("A", maxCursor+4), ofPoll} {
		if got := mustWait(t, s, Name, waitArgs(bad, 0, 0, "a")); !got.Truncated || len(got.Events) != 0 {
			t.Errorf("cursor %.40q: %+v", bad, got)
		}
	}
	other := newBed(t)
	other.event("a", true, false)
	if got := mustWait(t, other, Name, waitArgs(cursor, 0, 0, "a")); !got.Truncated {
		t.Errorf("a cursor of another life: %+v", got)
	}
	if len(cursor) > 48 {
		t.Errorf("a model has to copy %d characters: %s", len(cursor), cursor)
	}
}

// V1: an element whose arguments are new goes on from its event type's place in the cursor, the earliest of several;
// where a place is for its arguments alone, as that of a check is, truncated says so (CUR-7).
func TestWaitWithOtherArguments(t *testing.T) {
	setUp := func(t *testing.T) (*bed, map[string]func(id, service string)) {
		s := newBed(t)
		a, b := s.event("a", true, false), s.event("b", true, false)
		s.event("checked", false, true)
		both := s.event("both", true, true)
		with := func(e *pollingtest.Type) func(id, service string) {
			return func(id, service string) { e.Emit(incident{ID: id, Service: service, Severity: "P1"}) }
		}
		return s, map[string]func(id, service string){"a": with(a), "b": with(b), "both": with(both)}
	}
	const x, p1, p2 = `{"name":"a","arguments":{"service":"x"}}`, `{"name":"a","arguments":{"severity":"P1"}}`, `{"name":"a","arguments":{"severity":"P2"}}`
	for _, c := range []struct {
		what      string
		first     []string
		next      []string
		want      []string
		truncated bool
	}{
		{"narrowed", []string{"a"}, []string{x}, []string{"a-x"}, false},
		{"widened", []string{x}, []string{"a"}, []string{"a-x", "a-y"}, false},
		{"changed", []string{p2}, []string{p1}, []string{"a-x", "a-y"}, false},
		{"one that stays and one that is new", []string{"a"}, []string{"a", x}, []string{"a-x", "a-y"}, false},
		{"from one of two", []string{p1, p2}, []string{x}, []string{"a-x"}, false},
		{"another type", []string{"a"}, []string{x, "b"}, []string{"a-x"}, false},
		{"a check", []string{"checked"}, []string{`{"name":"checked","arguments":{"service":"x"}}`}, nil, true},
		{"a check beside a log", []string{"checked", "a"}, []string{`{"name":"checked","arguments":{"service":"x"}}`, x}, []string{"a-x"}, true},
		{"both sources", []string{"both"}, []string{`{"name":"both","arguments":{"service":"x"}}`}, nil, true},
		{"a check that is new", []string{"a"}, []string{"checked", x}, []string{"a-x"}, false},
	} {
		s, emits := setUp(t)
		cursor := mustWait(t, s, Name, waitArgs("", 0, 0, c.first...)).Cursor
		for _, name := range []string{"a", "b", "both"} {
			emits[name](name+"-x", "x")
			emits[name](name+"-y", "y")
		}
		got := mustWait(t, s, Name, waitArgs(cursor, 0, 0, c.next...))
		if !slices.Equal(got.ids(), c.want) || got.Truncated != c.truncated {
			t.Errorf("%s: ids %q, truncated %v; want %q, %v", c.what, got.ids(), got.Truncated, c.want, c.truncated)
		}
		if again := mustWait(t, s, Name, waitArgs(got.Cursor, 0, 0, c.next...)); len(again.Events) != 0 || again.Truncated {
			t.Errorf("%s: again %+v", c.what, again)
		}
	}
	// Of two places the earlier: what one of them has passed may come again, nothing is left out.
	s, emits := setUp(t)
	cursor := mustWait(t, s, Name, waitArgs("", 0, 0, x, `{"name":"a","arguments":{"service":"y"}}`)).Cursor
	for _, id := range []string{"1", "2", "3"} {
		emits["a"]("x"+id, "x")
		emits["a"]("y"+id, "y")
	}
	page := mustWait(t, s, Name, waitArgs(cursor, 0, 1, x, `{"name":"a","arguments":{"service":"y"}}`))
	rest := mustWait(t, s, Name, waitArgs(page.Cursor, 0, 0, "a"))
	if all := append(page.ids(), rest.ids()...); !slices.Equal(slices.Compact(all), []string{"x1", "y1", "x2", "y2", "x3", "y3"}) || rest.Truncated {
		t.Errorf("%q, then %q", page.ids(), rest.ids())
	}
}

// Refusals name the argument, its bound and what it was; nothing else is done.
func TestWaitRefuses(t *testing.T) {
	s := newBed(t)
	s.event("e", true, false)
	s.event("hidden", true, false)
	s.refused["hidden"] = fault.NotFound("event")
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
		`{"events":[{"name":"e"},{"name":"hidden"}]}`:             `events/1: NotFound: no such event type: "hidden"; the event types are e`,
		`{"events":[{"name":"e"},{"name":"none"}]}`:               `events/1: NotFound: no such event type: "none"; the event types are e`,
		`{"events":[{"name":"e","arguments":{"severity":"P9"}}]}`: `events/0: InvalidParams`,
		`{"events":[{"name":"e","name":"e"}]}`:                    `InvalidParams`,
	} {
		if _, problem, err := s.tool(t.Context(), Name, args); !strings.Contains(problem, want) {
			t.Errorf("%s: %q %v, want %s", args, problem, err, want)
		}
	}
}

// What ends one of the polls ends the call, which says which.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBed(t)
		s.event("a", true, false)
		time.AfterFunc(time.Second, s.event("b", true, false).Remove)
		if _, problem, err := s.tool(t.Context(), Name, waitArgs("", 50, 0, "a", "b")); !strings.HasPrefix(problem, "events/1: NotFound") {
			t.Errorf("%q %v", problem, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		var refused *jsonrpc.Error // ERR-4: where it is written all the same, it tells nothing
		if _, _, err := s.tool(ctx, Name, waitArgs("", 50, 0, "a")); !errors.As(err, &refused) || refused.Code == 0 || refused.Message != "InternalError" || time.Since(began) != time.Second {
			t.Errorf("cancelled after %v: %v", time.Since(began), err)
		}
		// SRV-6: at the end of the server a call has what there is, and its cursor.
		time.AfterFunc(time.Second, func() { close(s.closing) })
		if got := mustWait(t, s, Name, waitArgs("", 50, 0, "a")); got.Cursor == "" || len(got.Events) != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// A caller with a progress token is told every 10 s that its call still waits.
func TestWaitProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBed(t)
		e := s.event("e", true, false)
		if err := errors.Join(s.AddWait(), s.AddRead(readTool("e"))); err != nil {
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
		if _, err := s.MCP.Connect(t.Context(), theirs, nil); err != nil {
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
		callTool("tok", Name, waitArgs("", 35, 0, "e"))
		want := []told{{"tok", 10 * time.Second, 35, "waiting for e"}, {"tok", 20 * time.Second, 35, "waiting for e"}, {"tok", 30 * time.Second, 35, "waiting for e"}}
		if !slices.Equal(all, want) {
			t.Errorf("told %v, want %v", all, want)
		}
		time.AfterFunc(15*time.Second, func() { e.Emit(incident{ID: "1"}) })
		callTool("tok", "read_e", `{"waitSeconds":55}`)
		if len(all) != 1 {
			t.Errorf("told %v", all)
		}
		callTool(nil, Name, waitArgs("", 35, 0, "e"))
		if len(all) != 0 {
			t.Errorf("nobody asked: %v", all)
		}
	})
}

// A thousand callers wait at once; each gets what it waits for, and nothing is left of them.
func TestWaitThousand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBed(t)
		a := s.event("a", true, false)
		s.event("b", true, false)
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				args := waitArgs("", 55, 0, "b", fmt.Sprintf(`{"name":"a","arguments":{"service":"s%d"}}`, i%10))
				began := time.Now()
				got, problem, err := s.tool(t.Context(), Name, args)
				want := time.Duration(1+i%10) * time.Second
				if err != nil || problem != "" || len(got.Events) != 1 || got.Events[0].EventID != fmt.Sprint("id", i%10) || time.Since(began) != want {
					t.Errorf("%d: %+v %s %v after %v", i, got, problem, err, time.Since(began))
				}
			})
		}
		synctest.Wait()
		for i := range 10 {
			time.Sleep(time.Second)
			a.Emit(incident{ID: fmt.Sprint("id", i), Service: fmt.Sprint("s", i)})
		}
		all.Wait()
	})
}

// docs/agent-tools.md, the wait tool (M13): two elements of one event type that read unequally far give each occurrence once.
func TestWaitTakesNoFurtherThanAllHaveRead(t *testing.T) {
	s := newBed(t)
	s.maxPage = 20 << 10
	e := s.event("e", true, false)
	elements := []string{`{"name":"e","arguments":{"any":["P1","P2"]}}`, `{"name":"e","arguments":{"severity":"P2"}}`}
	cursor := mustWait(t, s, Name, waitArgs("", 0, 0, elements...)).Cursor
	var want []string
	for i := range 40 {
		id := fmt.Sprintf("%02d", i)
		severity := "P1"
		if i == 39 {
			severity = "P2" // which both have
		}
		e.Emit(incident{ID: id, Severity: severity, Service: strings.Repeat("x", 1<<10)})
		want = append(want, id)
	}
	var got []string
	for range 100 {
		page := mustWait(t, s, Name, waitArgs(cursor, 0, 50, elements...))
		got, cursor = append(got, page.ids()...), page.Cursor
		if !page.HasMore && len(page.Events) == 0 {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// docs/agent-tools.md, the wait tool (M14): timestamps are the author's. What is older in a log comes before what is younger
// there, though another type's occurrence lies between them by its time.
func TestWaitKeepsTheOrderOfALog(t *testing.T) {
	s := newBed(t)
	a, b := s.event("a", true, false), s.event("b", true, false)
	elements := []string{`{"name":"a","arguments":{"any":["P1","P3"]}}`, "b", `{"name":"a","arguments":{"any":["P2","P3"]}}`}
	cursor := mustWait(t, s, Name, waitArgs("", 0, 0, elements...)).Cursor
	a.Emit(incident{ID: "first", Severity: "P1"}, time.Unix(30, 0))
	a.Emit(incident{ID: "second", Severity: "P3"}, time.Unix(10, 0))
	b.Emit(incident{ID: "other"}, time.Unix(20, 0))
	var got []string
	for range 5 {
		page := mustWait(t, s, Name, waitArgs(cursor, 0, 10, elements...))
		got, cursor = append(got, page.ids()...), page.Cursor
	}
	once := slices.Compact(slices.Sorted(slices.Values(got)))
	if len(got) != 3 || len(once) != 3 || slices.Index(got, "first") > slices.Index(got, "second") {
		t.Errorf("%v", got)
	}
}
