package mcpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/peertest"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc"
)

var eras = []string{legacy, modern}

func equal(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// MCPC-WIRE-1, MCPC-SRV-1, MCPC-META-1: the call is answered with "created", before any update, in
// both forms of the metadata and both eras.
func TestCallbacks(t *testing.T) {
	for _, version := range eras {
		for name, c := range map[string]struct{ args, session, task string }{
			"to 0.2.4":   {`{"steps":2,"_metadata":{"mcpc_session_id":"s1","mcpc_task_id":"t1"}}`, "s1", "t1"},
			"from 0.2.5": {`{"steps":2,"mcpc_params":{"session_id":"s1","task_id":"t1"}}`, "s1", "t1"},
			"both":       {`{"steps":2,"mcpc_params":{"session_id":"s1"},"_metadata":{"mcpc_session_id":"s0","mcpc_task_id":"t1"}}`, "s1", "t1"},
			"empty":      {`{"steps":2,"mcpc_params":{}}`, "default", ""},
			"as text":    {`{"steps":"2","fail":null,"mcpc_params":{}}`, "default", ""}, // HOST-1
		} {
			t.Run(version+" "+name, func(t *testing.T) {
				var way mcpc.Way
				work := func(ctx context.Context, a arguments, tk *mcpc.Task[update]) (result, error) {
					way = tk.Way()
					return counts(ctx, a, tk)
				}
				bubble(t, mcpc.Options{}, work, func(g *rig) {
					p := g.dial(version)
					r := p.Call("count", c.args)
					created := messages(t, r)
					if len(created) != 1 || created[0].Event != "created" || r.IsError || string(r.Structured) != text(r) {
						t.Fatalf("answer %+v", r)
					}
					id := created[0].TaskID
					if c.task != "" && id != c.task || id == "" || created[0].SessionID != c.session || created[0].ToolName != "count" {
						t.Errorf("created %+v", created[0])
					}
					equal(t, "callbacks", p.heard(), id+` update {"step":1}`, id+` update {"step":2}`, id+` complete {"total":2}`)
					order := p.came()
					if order[len(order)-4][:3] != "id " {
						t.Errorf("order %v", order)
					}
					if way != mcpc.Callback {
						t.Errorf("the author was told %v", way)
					}
				})
			})
		}
	}
}

// MCPC-META-1: the metadata is not in the schema, is taken away before validation, and is checked.
func TestMetadataAndValidation(t *testing.T) {
	bubble(t, mcpc.Options{}, nil, func(g *rig) {
		p := g.dial(legacy)
		if list, _, _ := strings.Cut(string(p.RPC("tools/list", `{}`).Result), `"outputSchema"`); strings.Contains(list, "mcpc") || strings.Contains(list, "metadata") || !strings.Contains(list, `"count"`) || !strings.Contains(list, `"steps":{"type":"integer","minimum":0}`) { // without $ref (HOST-4)
			t.Errorf("tools/list: %s", list)
		}
		for args, want := range map[string]string{
			`{"steps":-1,"mcpc_params":{}}`:                                               "/steps",
			`{"mcpc_params":{}}`:                                                          "steps",
			`{"steps":1,"other":1,"mcpc_params":{}}`:                                      "other",
			`{"steps":1,"mcpc_params":7}`:                                                 "mcpc_params: must be an object",
			`{"steps":1,"mcpc_params":{"task_id":7}}`:                                     "mcpc_params.task_id",
			`{"steps":1,"_metadata":{"mcpc_task_id":"` + strings.Repeat("x", 300) + `"}}`: "at most 256",
		} {
			if r := p.Call("count", args); !r.IsError || !strings.Contains(text(r), want) {
				t.Errorf("%s: %+v", args, r)
			}
		}
		equal(t, "callbacks", p.heard())
	})
}

// MCPC-SRV-1: what goes wrong becomes "failed" with a message that tells nothing of the inside.
func TestFailures(t *testing.T) {
	work := func(ctx context.Context, a arguments, tk *mcpc.Task[update]) (result, error) {
		switch a.Fail {
		case "error":
			return result{}, errors.New("password is hunter2")
		case "panic":
			panic("password is hunter2")
		case "fail":
			return result{}, mcpc.Fail("No such report.", errors.New("password is hunter2"))
		case "typed":
			return result{}, events.Forbidden("not yours")
		case "update":
			return result{}, tk.Update(update{101})
		}
		<-ctx.Done()
		return result{}, ctx.Err()
	}
	for fail, want := range map[string]string{"error": `"The task failed."`, "panic": `"The task failed."`, "fail": `"No such report."`,
		"typed": `"Forbidden: {\"reason\":\"not yours\"}"`, "update": `"The task failed."`} {
		bubble(t, mcpc.Options{}, work, func(g *rig) {
			p := g.dial(legacy)
			p.Call("count", `{"steps":1,"fail":"`+fail+`","mcpc_params":{"task_id":"t"}}`)
			equal(t, fail, p.heard(), "t failed "+want)
			if r := p.Call("count", `{"steps":1,"fail":"`+fail+`","mcpc_params":{"task_id":"t"}}`); r.IsError {
				t.Errorf("the id is not free again: %s", text(r))
			}
		})
	}
}

// MCPC-SRV-3: tasks can be looked at and stopped, by their session alone, and are bounded.
func TestCheckStopAndBound(t *testing.T) {
	work := func(ctx context.Context, a arguments, tk *mcpc.Task[update]) (result, error) {
		if err := tk.Update(update{1}); err != nil {
			return result{}, err
		}
		<-ctx.Done()
		if a.Steps == 7 {
			return result{7}, nil // it has what it needs
		}
		return result{}, ctx.Err()
	}
	bubble(t, mcpc.Options{MaxTasks: 2}, work, func(g *rig) {
		p, q := g.dial(legacy), g.dial(legacy)
		p.Call("count", withTask(1, "a"))
		synctest.Wait() // tasks of a session are not ordered among each other
		p.Call("count", withTask(7, "b"))
		if r := p.Call("count", withTask(1, "c")); !r.IsError || !strings.Contains(text(r), "at most 2") {
			t.Errorf("the bound: %+v", r)
		}
		q.Call("count", withTask(1, "a")) // another session's ids are its own
		if r := q.Call("count", withTask(1, "a")); !r.IsError || !strings.Contains(text(r), "already") {
			t.Errorf("the same id: %+v", r)
		}
		synctest.Wait()
		all := g.a.Tasks()
		if len(all) != 3 {
			t.Fatalf("tasks %+v", all)
		}
		mine := g.a.Sessions()
		if len(mine) != 2 {
			t.Fatalf("sessions %+v", mine)
		}
		first := all[0].Session
		st, ok := g.a.CheckTask(first, all[0].TaskID)
		if !ok || st.Updates != 1 || st.ToolName != "count" || st.Stopping {
			t.Errorf("status %+v, %v", st, ok)
		}
		for _, s := range mine {
			_, hasB := g.a.CheckTask(s, "b")
			if stopped := g.a.StopTask(s, "b"); stopped != hasB {
				t.Errorf("%+v stopped b: %v", s, stopped)
			}
		}
		equal(t, "p", p.heard(), `a update {"step":1}`, `b update {"step":1}`, `b complete {"total":7}`)
		for _, s := range mine {
			g.a.StopTask(s, "a")
		}
		equal(t, "q", q.heard(), `a update {"step":1}`, `a failed "The task was stopped."`)
		if len(g.a.Tasks()) != 0 {
			t.Errorf("left: %+v", g.a.Tasks())
		}
	})
}

// MCPC-SRV-3: the end of a session ends its tasks, and leaves nothing; that of another does not.
func TestSessionDiesMidTask(t *testing.T) {
	for _, version := range eras {
		var causes []error
		work := func(ctx context.Context, a arguments, tk *mcpc.Task[update]) (result, error) {
			<-ctx.Done()
			causes = append(causes, tk.Update(update{1}))
			return result{}, ctx.Err()
		}
		bubble(t, mcpc.Options{}, work, func(g *rig) {
			p, q := g.dial(version), g.dial(version)
			p.Call("count", withTask(1, "a"))
			q.Call("count", withTask(1, "a"))
			synctest.Wait()
			gone := g.a.Sessions()
			p.HangUp()
			synctest.Wait()
			if all := g.a.Tasks(); len(all) != 1 || len(causes) != 1 || causes[0] == nil {
				t.Fatalf("%s: tasks %+v, causes %v", version, all, causes)
			}
			if left := g.a.Sessions(); len(left) != 1 || len(gone) != 2 {
				t.Errorf("sessions %+v", left)
			}
		})
	}
}

// A task that ignores the end of its context is reported and left behind.
func TestHangingTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		work := func(context.Context, arguments, *mcpc.Task[update]) (result, error) {
			<-release
			return result{}, nil
		}
		g := newRig(t, serverQuiet(), mcpc.Options{}, work)
		p := g.dial(legacy)
		p.Call("count", withTask(1, "a"))
		plain := g.dial(legacy)
		id, answer := plain.Start("tools/call", `{"name":"count","arguments":{"steps":1}}`)
		synctest.Wait()
		g.a.StopTask(g.a.Sessions()[0], "a")
		made, _ := json.Marshal(map[string]any{"requestId": id})
		plain.Send(&jsonrpc.Request{Method: "notifications/cancelled", Params: made})
		time.Sleep(6 * time.Second)
		equal(t, "callbacks", p.heard(), `a failed "The task was stopped."`)
		if left := g.a.Tasks(); len(left) != 0 {
			t.Errorf("left: %+v", left)
		}
		select {
		case got := <-answer:
			t.Errorf("the cancelled call is answered: %+v", got) // V5
		default:
		}
		g.stop()
		close(release)
	})
}

// MCPC-SRV-2: a plain client gets an ordinary result, and progress when it asked; another session's
// MCPC changes nothing for it.
func TestPlainClient(t *testing.T) {
	for _, version := range eras {
		var way mcpc.Way
		work := func(ctx context.Context, a arguments, tk *mcpc.Task[update]) (result, error) {
			way = tk.Way()
			if a.Fail != "" {
				return result{}, mcpc.Fail(a.Fail, nil)
			}
			return counts(ctx, a, tk)
		}
		bubble(t, mcpc.Options{}, work, func(g *rig) {
			aware, p := g.dial(version), g.dial(version)
			aware.Call("_mcpc_init", `{}`)
			id, answer := p.Start("tools/call", p.Params(`{"name":"count","arguments":{"steps":2}}`, `"progressToken":"tok"`))
			r := &peertest.Result{}
			if err := json.Unmarshal((<-answer).Result, r); err != nil {
				t.Fatal(err)
			}
			if string(r.Structured) != `{"total":2}` || text(r) != `{"total":2}` || r.IsError || way != mcpc.Plain {
				t.Errorf("%s: %+v by %v", version, r, way)
			}
			order := p.came()
			equal(t, version, order[len(order)-3:], `notifications/progress 1 {"step":1}`, `notifications/progress 2 {"step":2}`, "id "+string(rune('0'+id)))
			if r := p.Call("count", `{"steps":1,"fail":"No."}`); !r.IsError || text(r) != "No." {
				t.Errorf("failed: %+v", r)
			}
			equal(t, "callbacks", p.heard())
		})
	}
}

// MCPC-SRV-2, V7: tools/list says the same to everybody, and every answer has structured content that is valid under
// the schema that its client has seen, whatever it knew then: clients such as @modelcontextprotocol/sdk 1.32.2 refuse
// others, and do not list again by themselves.
func TestOutputSchema(t *testing.T) {
	const metadata = `"mcpc_params":{"session_id":"s","task_id":"t"}`
	for _, version := range eras {
		for order, before := range map[string]func(p *peer) (list string){
			"list, greet, call": func(p *peer) string {
				list := string(p.RPC("tools/list", `{}`).Result)
				p.Call("_mcpc_init", `{}`)
				return list
			},
			"list, call with metadata": func(p *peer) string { return string(p.RPC("tools/list", `{}`).Result) },
			"greet, list, call": func(p *peer) string {
				p.Call("_mcpc_init", `{}`)
				return string(p.RPC("tools/list", `{}`).Result)
			},
			"list, call of a plain client": func(p *peer) string { return string(p.RPC("tools/list", `{}`).Result) },
		} {
			bubble(t, mcpc.Options{}, nil, func(g *rig) {
				p := g.dial(version)
				schema := outputOf(t, before(p), "count")
				args, want := `{"steps":2}`, "created"
				switch order {
				case "list, call with metadata":
					args = `{"steps":2,` + metadata + `}`
				case "list, call of a plain client":
					want = ""
				}
				r := p.Call("count", args)
				if err := schema.Validate(r.Structured); err != nil || r.IsError {
					t.Errorf("%s, %s: %s: %v", version, order, r.Structured, err)
				}
				switch got := string(r.Structured); {
				case want == "" && (got != `{"total":2}` || text(r) != got):
					t.Errorf("%s, %s: %s and %s", version, order, got, text(r))
				case want != "" && (got != text(r) || messages(t, r)[0].Event != want):
					t.Errorf("%s, %s: %s and %s", version, order, got, text(r))
				}
				if all := strings.Join(p.came(), ","); strings.Contains(all, "list_changed") {
					t.Errorf("%s, %s: the list is the same, and told to have changed: %s", version, order, all)
				}
				if again := outputOf(t, string(g.dial(version).RPC("tools/list", `{}`).Result), "count"); again.Validate(json.RawMessage(`{"other":1}`)) == nil {
					t.Errorf("%s: everything is valid", version)
				}
			})
		}
	}
}

// outputOf is the outputSchema of a tool in a result of tools/list.
func outputOf(t *testing.T, list, tool string) *validate.Schema {
	t.Helper()
	var r struct {
		Tools []struct {
			Name         string
			OutputSchema json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(list), &r); err != nil {
		t.Fatal(err)
	}
	for _, found := range r.Tools {
		if found.Name == tool {
			s, err := validate.Compile(found.OutputSchema)
			if err != nil {
				t.Fatalf("%s: %v", found.OutputSchema, err)
			}
			return s
		}
	}
	t.Fatalf("%s is not in %s", tool, list)
	return nil
}

// MCPC-SRV-3: a task knows its id and session, and a tool of the author's stops tasks of its caller's session alone.
func TestSessionOf(t *testing.T) {
	started := make(chan *mcpc.Task[update], 1)
	work := func(ctx context.Context, _ arguments, tk *mcpc.Task[update]) (result, error) {
		started <- tk
		<-ctx.Done()
		return result{}, ctx.Err()
	}
	bubble(t, mcpc.Options{}, work, func(g *rig) {
		type wish struct {
			Task string `json:"task"`
		}
		mcp.AddTool(g.srv, &mcp.Tool{Name: "stop"}, func(ctx context.Context, req *mcp.CallToolRequest, w wish) (*mcp.CallToolResult, any, error) {
			if !g.a.StopTask(g.a.SessionOf(ctx, req), w.Task) {
				return nil, nil, errors.New("no such task")
			}
			return &mcp.CallToolResult{}, nil, nil
		})
		p, q := g.dial(legacy), g.dial(legacy)
		p.Call("count", withTask(1, "a"))
		tk := <-started
		if s := tk.Session(); tk.ID() != "a" || !slices.Contains(g.a.Sessions(), s) || s != g.a.Tasks()[0].Session {
			t.Errorf("task %q of session %+v, tasks %+v", tk.ID(), s, g.a.Tasks())
		}
		q.Call("count", withTask(1, "b"))
		if s := (<-started).Session(); s == tk.Session() {
			t.Errorf("both tasks are of session %+v", s)
		}
		if r := q.Call("stop", `{"task":"a"}`); !r.IsError {
			t.Error("another session stopped the task")
		}
		if r := p.Call("stop", `{"task":"a"}`); r.IsError {
			t.Errorf("its own session cannot stop it: %s", text(r))
		}
		equal(t, "p", p.heard(), `a failed "The task was stopped."`)
	})
}
