package tasksource_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/assistant"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/assistant/assistantclient"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/assistant/assistantserver"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/experimental/tasksource"
	"github.com/mcpe-gen/mcpe-gen/runtime/experimental/tasksource/tasksourceclient"
	"github.com/mcpe-gen/mcpe-gen/runtime/experimental/tasksource/tasksourceserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// createTask is the CreateTaskResult of a tool. The SDK has no tasks yet: here it is the tool's structured
// content.
type createTask struct {
	Task struct {
		TaskID string `json:"taskId"`
	} `json:"task"`
	EventSource *tasksource.Source `json:"eventSource,omitempty"`
}

// A desk is a server whose tool "resolve" starts a task that is told of by incident.resolved.
type desk struct {
	srv      *mcp.Server
	es       *server.Server
	resolved *assistantserver.IncidentResolvedEmitter
	over     atomic.Bool // the task has ended
	ctx      context.Context
	cancel   context.CancelFunc
	runs     sync.WaitGroup
}

func newDesk(o server.Options) (*desk, error) {
	d := &desk{srv: mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, nil)}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	var err error
	if d.es, err = server.New(d.srv, o); err != nil {
		return nil, err
	}
	d.resolved, err = assistantserver.RegisterIncidentResolved(d.es, assistantserver.IncidentResolvedHooks{
		// A task that is over cannot be subscribed to, and its streams end.
		Authorize: func(_ context.Context, _ string, a *assistant.IncidentResolvedArguments) error {
			if d.over.Load() {
				return events.Forbidden("the task has ended")
			}
			return nil
		},
	})
	d.srv.AddTool(&mcp.Tool{Name: "resolve", InputSchema: map[string]any{"type": "object"}},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			id := "inc-1"
			source, err := tasksourceserver.Begin(ctx, d.es, req, assistant.IncidentResolvedEventName, assistant.IncidentResolvedArguments{IncidentID: &id})
			if err != nil {
				return nil, err
			}
			result := &createTask{EventSource: source}
			result.Task.TaskID = "task-1"
			return &mcp.CallToolResult{StructuredContent: result}, nil
		})
	return d, err
}

// emit tells that an incident is over.
func (d *desk) emit(ids ...string) error {
	for _, id := range ids {
		if err := d.resolved.Emit(context.Background(), assistant.IncidentResolvedPayload{IncidentID: id, ResolvedAt: events.Time{Time: time.Now()}}); err != nil {
			return err
		}
	}
	return nil
}

// end ends the task.
func (d *desk) end() error {
	d.over.Store(true)
	return d.es.Reauthorize(context.Background(), "", assistant.IncidentResolvedEventName)
}

func (d *desk) dial(context.Context) (mcp.Transport, error) {
	ct, st := mcp.NewInMemoryTransports()
	d.runs.Go(func() { _ = transport.Run(d.ctx, d.es, st) })
	return ct, nil
}

func (d *desk) stop() {
	d.es.Shutdown(context.Background())
	d.cancel()
	d.runs.Wait()
}

// resolve calls the tool.
func resolve(ctx context.Context, cs *mcp.ClientSession) (*tasksource.Source, error) {
	res, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "resolve"})
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(res.StructuredContent)
	if err != nil {
		return nil, err
	}
	return tasksource.Parse(raw)
}

// A tool starts a task and says which events tell of it; the client subscribes from where the task began,
// so that it misses nothing, until the task has ended.
func Example() {
	ctx := context.Background()
	d, err := newDesk(server.Options{}) // its tool calls tasksourceserver.Begin
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.stop()
	c, err := client.Connect(ctx, client.Dial(d.dial), client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	source, err := resolve(ctx, c.Session())
	if err != nil {
		fmt.Println(err)
		return
	}
	d.emit("another", "inc-1") // before the client has subscribed
	sub, err := tasksourceclient.Subscribe(ctx, c, source, assistant.IncidentResolvedEventName, assistantclient.SubscribeIncidentResolved)
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev, err := range sub.Events() {
		if ended := (*client.TerminatedError)(nil); errors.As(err, &ended) {
			fmt.Println("the task has ended") // tasks/get tells how
			continue
		}
		fmt.Println(ev.Data.IncidentID, err)
		d.end()
	}
	// Output:
	// inc-1 <nil>
	// the task has ended
}

// TASK-1, TASK-2: the source that Begin makes leads to the events of the task and no others, from where it
// began to where it ended, in every era and mode.
func TestTask(t *testing.T) {
	for _, version := range []string{wire.RevisionLegacy, wire.RevisionStateless} {
		for _, mode := range []string{events.ModePoll, events.ModePush} {
			t.Run(version+" "+mode, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d, err := newDesk(server.Options{})
					if err != nil {
						t.Fatal(err)
					}
					defer d.stop()
					c, err := client.Connect(t.Context(), client.Dial(d.dial), client.Options{ProtocolVersion: version, Mode: mode})
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					emit := func(ids ...string) {
						if err := d.emit(ids...); err != nil {
							t.Fatal(err)
						}
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					emit("inc-1") // before the task
					source, err := resolve(t.Context(), c.Session())
					if err != nil || source == nil || string(source.Input) != `{"incidentId":"inc-1"}` || source.InitialCursor == "" {
						t.Fatalf("%+v, %v", source, err)
					}
					emit("inc-1", "inc-2", "inc-1")
					sub, err := tasksourceclient.Subscribe(ctx, c, source, assistant.IncidentResolvedEventName, assistantclient.SubscribeIncidentResolved)
					if err != nil {
						t.Fatal(err)
					}
					emit("inc-2", "inc-1")
					seen := 0
					var last error
					for ev, err := range sub.Events() {
						if last = err; err != nil {
							continue
						}
						if ev.Data.IncidentID != "inc-1" {
							t.Errorf("got %+v", ev.Data)
						}
						if seen++; seen == 3 {
							if err := d.end(); err != nil {
								t.Fatal(err)
							}
						}
					}
					if ended := (*client.TerminatedError)(nil); seen != 3 || !errors.As(last, &ended) {
						t.Errorf("%d events, then %v", seen, last)
					}
					var refusal *events.Error
					if _, err := tasksourceclient.Subscribe(t.Context(), c, source, assistant.IncidentResolvedEventName, assistantclient.SubscribeIncidentResolved); !errors.As(err, &refusal) || refusal.Kind != events.KindForbidden {
						t.Errorf("after the end: %v", err)
					}
				})
			})
		}
	}
}

// TASK-2: a source of another event type is not subscribed to; without a cursor the subscription begins
// now, and the caller's options count.
func TestSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := newDesk(server.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.stop()
		c, err := client.Connect(t.Context(), client.Dial(d.dial), client.Options{Cursors: clientmemory.NewCursors()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		subscribe := func(s *tasksource.Source, o ...client.SubscribeOption) (*assistantclient.IncidentResolvedSubscription, error) {
			return tasksourceclient.Subscribe(ctx, c, s, assistant.IncidentResolvedEventName, assistantclient.SubscribeIncidentResolved, o...)
		}
		if sub, err := subscribe(&tasksource.Source{Name: "incident.created", Input: json.RawMessage(`{}`)}); err == nil || sub != nil || len(c.Subscriptions()) != 0 {
			t.Errorf("another event type: %v, %v", sub, err)
		}
		source, err := resolve(t.Context(), c.Session())
		if err != nil {
			t.Fatal(err)
		}
		if err := d.emit("inc-1"); err != nil {
			t.Fatal(err)
		}
		next := func(sub *assistantclient.IncidentResolvedSubscription) (id string) {
			for ev, err := range sub.Events() {
				if err != nil {
					t.Fatal(err)
				}
				id = ev.ID
				break
			}
			sub.Close()
			return id
		}
		sub, err := subscribe(source, client.WithMode(events.ModePoll))
		if err != nil {
			t.Fatal(err)
		}
		if sub.Subscription().Mode() != events.ModePoll {
			t.Errorf("mode %s", sub.Subscription().Mode())
		}
		first := next(sub)
		source.InitialCursor = ""
		if sub, err = subscribe(source); err != nil {
			t.Fatal(err)
		}
		if err := d.emit("inc-1"); err != nil {
			t.Fatal(err)
		}
		if second := next(sub); second == "" || second == first {
			t.Errorf("begins with %q, not now", second)
		}
	})
}

// TASK-1: a caller that has not declared events gets no source; what could not be subscribed to is an error.
func TestBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := newDesk(server.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.stop()
		type result struct {
			s   *tasksource.Source
			err error
		}
		var refused result
		d.srv.AddTool(&mcp.Tool{Name: "begin", InputSchema: map[string]any{"type": "object"}},
			func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				var p struct {
					Event string
					Args  json.RawMessage
				}
				if err := json.Unmarshal(req.Params.Arguments, &p); err != nil {
					return nil, err
				}
				refused.s, refused.err = tasksourceserver.Begin(ctx, d.es, req, p.Event, p.Args)
				return &mcp.CallToolResult{}, nil
			})
		c, err := client.Connect(t.Context(), client.Dial(d.dial), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for args, want := range map[string]events.Kind{
			`{"event":"none","args":{}}`:                            events.KindNotFound,
			`{"event":"incident.resolved","args":{"incidentId":7}}`: events.KindInvalidParams,
			`{"event":"incident.resolved","args":{"other":"x"}}`:    events.KindInvalidParams,
		} {
			if _, err := c.Session().CallTool(t.Context(), &mcp.CallToolParams{Name: "begin", Arguments: json.RawMessage(args)}); err != nil {
				t.Fatal(err)
			}
			var known *events.Error
			if !errors.As(refused.err, &known) || known.Kind != want || refused.s != nil {
				t.Errorf("%s: %+v, %v; want %v", args, refused.s, refused.err, want)
			}
		}
		for _, version := range []string{wire.RevisionLegacy, wire.RevisionStateless} {
			plain := mcp.NewClient(&mcp.Implementation{Name: "plain", Version: "1"}, nil)
			ct, err := d.dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			cs, err := plain.Connect(t.Context(), ct, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer cs.Close()
			if s, err := resolve(t.Context(), cs); s != nil || err != nil {
				t.Errorf("%s, a plain client: %+v, %v", version, s, err)
			}
		}
	})
}
