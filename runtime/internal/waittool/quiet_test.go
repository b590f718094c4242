package waittool

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/polling/pollingtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
)

// COAL-3: both kinds of tools give one answer for a burst where they are asked to, within their own wait; nothing is
// joined otherwise.
func TestCOAL3Burst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBed(t)
		e, other := s.event("e", true, false), s.event("other", true, false)
		s.MaxWait = 40 * time.Second
		burst := func(emit func(i int), at ...int) {
			for i, seconds := range at {
				time.AfterFunc(time.Duration(seconds)*time.Second, func() { emit(i) })
			}
		}
		n := 0
		var mu sync.Mutex
		emit := func(int) {
			mu.Lock()
			defer mu.Unlock()
			n++
			e.Emit(incident{ID: fmt.Sprint(n)})
		}
		for _, c := range []struct {
			args  string
			at    []int
			want  int
			after time.Duration
		}{
			{`"waitSeconds":30`, []int{3, 4}, 1, 3 * time.Second},
			{`"waitSeconds":30,"quietSeconds":0`, []int{3, 4}, 1, 3 * time.Second},
			{`"waitSeconds":30,"quietSeconds":null`, []int{3, 4}, 1, 3 * time.Second},
			{`"waitSeconds":30,"quietSeconds":5`, []int{3, 5, 9}, 3, 14 * time.Second},
			{`"waitSeconds":10,"quietSeconds":5`, []int{3, 6, 9}, 3, 10 * time.Second},
			{`"waitSeconds":10,"quietSeconds":55`, []int{3, 6, 11}, 2, 10 * time.Second},
			{`"waitSeconds":55,"quietSeconds":55`, []int{3, 6, 39, 41}, 3, 40 * time.Second}, // the server's bound
			{`"waitSeconds":30,"quietSeconds":5,"maxEvents":2`, []int{3, 4, 5}, 2, 4 * time.Second},
			{`"waitSeconds":30,"quietSeconds":5`, nil, 0, 30 * time.Second},
		} {
			for _, tool := range []string{"read_e", Name} {
				args := "{" + c.args + "}"
				if tool == Name {
					args = `{"events":[{"name":"other"},{"name":"e"}],` + c.args + "}"
				}
				burst(emit, c.at...)
				began := time.Now()
				got := mustWait(t, s, tool, args)
				if len(got.Events) != c.want || time.Since(began) != c.after || got.Truncated || got.HasMore {
					t.Errorf("%s %s: %+v after %v", tool, args, got, time.Since(began))
				}
				time.Sleep(time.Minute)
			}
		}
		burst(func(i int) { []*pollingtest.Type{e, other}[i%2].Emit(incident{ID: fmt.Sprint("b", i)}) }, 1, 4, 8, 20)
		if got := mustWait(t, s, Name, `{"events":[{"name":"other"},{"name":"e"}],"quietSeconds":6}`); !slices.Equal(got.ids(), []string{"b0", "b1", "b2"}) {
			t.Errorf("of two types: %q", got.ids())
		}
		s.MaxWait = -1 // never waits
		began := time.Now()
		mustWait(t, s, "read_e", `{"waitSeconds":30,"quietSeconds":5}`)
		mustWait(t, s, Name, `{"events":[{"name":"e"}],"quietSeconds":5}`)
		if d := time.Since(began); d != 0 {
			t.Errorf("they waited %v", d)
		}
	})
}

// COAL-3: an agent that acts first and waits afterwards misses nothing that is retained, and hears of what is not.
func TestCOAL3Since(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBed(t)
		e := s.event("e", true, false, topic.Kept{MaxAge: time.Hour, MaxCount: 4})
		s.event("checked", false, true)
		e.Emit(incident{ID: "old"})
		time.Sleep(20 * time.Minute)
		began := time.Now()
		e.Emit(incident{ID: "1", Severity: "P1"})
		time.Sleep(time.Minute)
		e.Emit(incident{ID: "2", Severity: "P2"})
		time.Sleep(time.Minute)
		for since, want := range map[string]string{
			"5m": "1 2", "2m": "1 2", "90s": "2", "1m30s": "2", "59s": "", "21m59s": "1 2", "22m": "old 1 2", "999h": "old 1 2",
			began.Format(time.RFC3339):                                                  "1 2",
			began.UTC().Format("2006-01-02t15:04:05.000z"):                              "1 2",
			began.Add(time.Millisecond).Format(time.RFC3339Nano):                        "2",
			time.Now().In(time.FixedZone("", 3600)).Format("2006-01-02T15:04:05Z07:00"): "",
		} {
			for tool, args := range map[string]string{"read_e": `{"since":%q}`, Name: `{"events":[{"name":"e"}],"waitSeconds":0,"since":%q}`} {
				got := mustWait(t, s, tool, fmt.Sprintf(args, since))
				if strings.Join(got.ids(), " ") != want || got.Truncated || got.HasMore || got.Cursor == "" {
					t.Errorf("%s since %s: %+v, want %s", tool, since, got, want)
				}
			}
		}
		if got := mustWait(t, s, "read_e", `{"since":"5m","severity":"P2"}`); strings.Join(got.ids(), " ") != "2" {
			t.Errorf("with arguments of the type: %+v", got)
		}
		// What is there is given at once, and what is not is waited for; the cursor goes on behind it.
		at := time.Now()
		got := mustWait(t, s, "read_e", `{"since":"90s","waitSeconds":30,"maxEvents":1}`)
		time.AfterFunc(3*time.Second, func() { e.Emit(incident{ID: "3"}) })
		next := mustWait(t, s, "read_e", fmt.Sprintf(`{"cursor":%q,"waitSeconds":30}`, got.Cursor))
		if strings.Join(append(got.ids(), next.ids()...), " ") != "2 3" || time.Since(at) != 3*time.Second {
			t.Errorf("%+v, %+v after %v", got, next, time.Since(at))
		}
		time.Sleep(5 * time.Second)
		time.AfterFunc(3*time.Second, func() { e.Emit(incident{ID: "4"}) })
		got = mustWait(t, s, Name, `{"events":[{"name":"e"}],"since":"1s","quietSeconds":1}`)
		if strings.Join(got.ids(), " ") != "4" || got.Truncated {
			t.Errorf("%+v", got)
		}
		e.Emit(incident{ID: "5"})
		e.Emit(incident{ID: "6"})
		for args, want := range map[string]string{
			`{"events":[{"name":"e"}],"waitSeconds":0,"since":"10m"}`:                    "3 4 5 6, true", // two were evicted
			`{"events":[{"name":"e"},{"name":"checked"}],"waitSeconds":0,"since":"20s"}`: "3 4 5 6, true", // a check has no past
			`{"events":[{"name":"e"}],"waitSeconds":0,"since":"20s","cursor":null}`:      "3 4 5 6, true", // others were evicted for their number
			`{"events":[{"name":"checked"}],"waitSeconds":0,"since":"20s"}`:              ", true",
		} {
			got := mustWait(t, s, Name, args)
			if text := fmt.Sprintf("%s, %v", strings.Join(got.ids(), " "), got.Truncated); text != want {
				t.Errorf("%s: %s, want %s", args, text, want)
			}
		}
		e.Kernel().NoReplay = true
		time.AfterFunc(3*time.Second, func() { e.Emit(incident{ID: "7"}) })
		if got := mustWait(t, s, Name, `{"events":[{"name":"e"}],"since":"10m"}`); strings.Join(got.ids(), " ") != "7" || !got.Truncated {
			t.Errorf("without replay: %+v", got)
		}
	})
}

// COAL-3: what cannot be is refused, by the name of the argument.
func TestCOAL3Refuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBed(t)
		s.event("e", true, false)
		for args, want := range map[string]string{
			`"since":"10m","cursor":"x"`:                  `"path":"/since","message":"cannot be beside cursor`,
			`"since":10`:                                  `"path":"/since","message":"must be a string or null"`,
			`"since":""`:                                  `"path":"/since","message":"is , must be a duration such as`,
			`"since":"10"`:                                `"path":"/since","message":"is 10, must be a duration such as`,
			`"since":"yesterday"`:                         `must be a duration such as`,
			`"since":"2026-13-01T00:00:00Z"`:              `must be a duration such as`,
			`"since":"-5m"`:                               `"path":"/since","message":"is -5m, must be more than 0"`,
			`"since":"0s"`:                                `must be more than 0`,
			`"since":"2000-01-01T00:00:01Z"`:              `"path":"/since","message":"is 2000-01-01T00:00:01Z, after the server's time 2000-01-01T00:00:00Z"`,
			`"since":"` + strings.Repeat("9", 5000):       ``,
			`"quietSeconds":56,"waitSeconds":3`:           `"path":"/quietSeconds","message":"is 56, must be an integer from 0 to 55"`,
			`"quietSeconds":-1,"waitSeconds":3`:           `"path":"/quietSeconds","message":"is -1, must be`,
			`"quietSeconds":"5s","waitSeconds":3`:         `"path":"/quietSeconds","message":"is \"5s\", must be`,
			`"quietSeconds":5,"waitSeconds":0`:            `"path":"/quietSeconds","message":"needs waitSeconds of at least 1`,
			`"since":"` + strings.Repeat("9", 5000) + `"`: `/since`,
		} {
			for tool, all := range map[string]string{"read_e": "{" + args + "}", Name: `{"events":[{"name":"e"}],` + args + "}"} {
				if _, problem, err := s.tool(t.Context(), tool, all); want == "" && problem == "" || !strings.Contains(strings.ReplaceAll(problem, `\\"`, `"`), want) || len(problem) > 1000 {
					t.Errorf("%s %.100s: %.2000q %v, want %s", tool, all, problem, err, want)
				}
			}
		}
		if _, problem, _ := s.tool(t.Context(), "read_e", `{"quietSeconds":5}`); !strings.Contains(problem, `needs waitSeconds of at least 1`) {
			t.Errorf("a read tool that does not wait: %q", problem)
		}
		// A request of the wait tool is bounded as others are.
		if _, problem, _ := s.tool(t.Context(), Name, waitArgs(strings.Repeat("A", maxCursor+s.MaxParams), 0, 0, "e")); !strings.Contains(problem, "bytes of JSON, at most") {
			t.Errorf("%.200q", problem)
		}
	})
}

// COAL-3: a read tool without the arguments has none: the type may have arguments of these names.
func TestCOAL3OfTheType(t *testing.T) {
	s := newBed(t)
	s.event("e", true, false)
	info := events.Info{Name: "e", InputSchema: json.RawMessage(`{"type":"object","properties":{"since":{"type":"number"},"quietSeconds":{"type":"number"}}}`),
		PayloadSchema: json.RawMessage(`{"type":"object"}`)}
	tool := readtool.New(info, "read_e", "cursor", "maxEvents")
	p, how, err := toolParams(&tool, json.RawMessage(`{"since":1,"quietSeconds":2,"waitSeconds":3}`))
	if err != nil || string(p.Arguments) != `{"quietSeconds":2,"since":1}` || how.since != nil || how.quiet != 0 || *how.wait != 3*time.Second {
		t.Errorf("%s, %+v, %v", p.Arguments, how, err)
	}
	named := tool
	named.QuietArgument, named.SinceArgument = "joinFor", "from"
	p, how, err = toolParams(&named, json.RawMessage(`{"since":1,"from":"3m","joinFor":2,"waitSeconds":3}`))
	if err != nil || string(p.Arguments) != `{"since":1}` || how.since.Age != 3*time.Minute || how.quiet != 2*time.Second {
		t.Errorf("%s, %+v, %v", p.Arguments, how, err)
	}
	for _, c := range []struct{ wait, quiet, since string }{
		{"", "q", ""}, {"w", "w", ""}, {"w", "cursor", ""}, {"w", "maxEvents", ""}, {"w", "q", "q"}, {"w", "q", "w"}, {"w", "", "cursor"},
	} {
		bad := named
		bad.WaitArgument, bad.QuietArgument, bad.SinceArgument = c.wait, c.quiet, c.since
		if checkTool(&bad) == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	if err := checkTool(&named); err != nil {
		t.Error(err)
	}
	// What the schemas say is what is taken.
	schema, err := validate.Compile(json.RawMessage(waitInput))
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]bool{`"quietSeconds":0`: true, `"quietSeconds":55`: true, `"quietSeconds":56`: false, `"since":null`: true, `"since":"10m"`: true, `"since":10`: false} {
		all := `{"events":[{"name":"e"}],` + args + `}`
		if _, err := decodeWait(json.RawMessage(all)); (err == nil) != want || (schema.Validate(json.RawMessage(all)) == nil) != want {
			t.Errorf("%s: %v, %v", all, err, schema.Validate(json.RawMessage(all)))
		}
	}
}

// COAL-3: calls one after another lose nothing and repeat nothing, whatever they collect and wherever the first of them
// begins: of a log from the past on, of checks and of both.
func TestCOAL3LosesAndRepeatsNothing(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 3))
			s := newBed(t)
			s.maxPage, s.scan = (5*33<<10)+2000+rnd.IntN(20_000), 64+rnd.IntN(200)
			a, b, both, checked := s.event("a", true, false), s.event("b", true, false), s.event("both", true, true), s.event("checked", false, true)
			want := map[string]bool{}
			var mu sync.Mutex
			emit := func(i int, past bool) {
				mu.Lock()
				defer mu.Unlock()
				id, severity := fmt.Sprint("id-", i), []string{"P1", "P2", "P3"}[i%3]
				switch i % 8 {
				case 0, 1, 2, 3:
					a.Emit(incident{ID: id, Severity: severity})
					want[id] = severity != "P3"
				case 4, 5:
					b.Emit(incident{ID: id})
					want[id] = true
				case 6:
					both.Emit(incident{ID: id})
					want[id] = true
				case 7:
					[]*pollingtest.Type{both, checked}[i/8%2].Put(id)
					want[id] = !past // a check has none
				}
			}
			for i := range 40 { // before since
				emit(i, true)
				want[fmt.Sprint("id-", i)] = false
			}
			time.Sleep(10 * time.Minute)
			since := fmt.Sprintf(`,"since":%q`, time.Now().Format(time.RFC3339Nano))
			for i := 40; i < 80; i++ {
				emit(i, true)
				time.Sleep(time.Duration(rnd.IntN(3)) * time.Second)
			}
			emitted := make(chan struct{})
			go func() {
				defer close(emitted)
				pause := rand.New(rand.NewPCG(seed, 2))
				for i := 80; i < 220; i++ {
					time.Sleep(time.Duration(pause.IntN(4000)+1) * time.Millisecond)
					emit(i, false)
				}
			}()
			waitFor := []string{`{"name":"a","arguments":{"severity":"P1"}}`, `{"name":"a","arguments":{"any":["P1","P2"]}}`, `{"name":"b"}`, `{"name":"checked"}`, `{"name":"both"}`}
			got, last, joined := map[string]int{}, map[string]int{}, 0
			for at, quiet := since, 0; quiet < 3; {
				wait := rnd.IntN(20)
				args := fmt.Sprintf(`{"events":[%s],"waitSeconds":%d,"maxEvents":%d%s`, strings.Join(shuffled(waitFor), ","), wait, 1+rnd.IntN(30), at)
				if wait > 0 {
					args += fmt.Sprintf(`,"quietSeconds":%d`, rnd.IntN(8))
				}
				page := mustWait(t, s, Name, args+"}")
				if page.Truncated != (at == since) { // of the checks
					t.Fatalf("seed %d: %s: truncated %v", seed, args, page.Truncated)
				}
				for _, e := range page.Events {
					got[e.EventID]++
					if i, _ := strconv.Atoi(e.EventID[len("id-"):]); e.Name != "both" && i < last[e.Name] {
						t.Errorf("seed %d: %d of %s comes after %d", seed, i, e.Name, last[e.Name])
					} else {
						last[e.Name] = i
					}
				}
				if len(page.Events) > 1 {
					joined++
				}
				at = fmt.Sprintf(`,"cursor":%q`, page.Cursor)
				select {
				case <-emitted:
					time.Sleep(2 * time.Second)
					if quiet++; len(page.Events) > 0 || page.HasMore {
						quiet = 0
					}
				default:
				}
			}
			for id, n := range got {
				if n != 1 || !want[id] {
					t.Errorf("seed %d: %s came %d times, wanted: %v", seed, id, n, want[id])
				}
			}
			for id, wanted := range want {
				if wanted && got[id] == 0 {
					t.Errorf("seed %d: %s is missed", seed, id)
				}
			}
			if joined == 0 {
				t.Errorf("seed %d: no two came together", seed)
			}
		})
	}
}
