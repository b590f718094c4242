package mcpcclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/mcpcclient"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

type progress struct {
	Percent int `json:"percent"`
}

type pages struct {
	Pages int `json:"pages"`
}

var report = task.Type[struct{}, progress, pages]{Info: task.Info{Name: "report"}}

// far is a server of the original's kind: one of the SDK's whose tools write callbacks to the
// connection by themselves.
type far struct {
	mu   sync.Mutex
	conn mcp.Connection
}

func (f *far) Connect(ctx context.Context, t mcp.Transport) (mcp.Connection, error) {
	c, err := t.Connect(ctx)
	f.mu.Lock()
	f.conn = c
	f.mu.Unlock()
	return c, err
}

type farTransport struct {
	mcp.Transport
	far *far
}

func (t *farTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	return t.far.Connect(ctx, t.Transport)
}

// callback writes a message as the original does.
func (f *far) callback(text string) {
	b, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "MCPC_CALLBACK", "result": map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}}})
	m, err := jsonrpc.DecodeMessage(b)
	if err != nil {
		panic(err)
	}
	_ = f.conn.Write(context.Background(), m)
}

func message(event, id, result string) string {
	return fmt.Sprintf(`{"session_id":"s","task_id":%q,"tool_name":"report","result":%s,"event":%q,"type":"task","protocol":"mcpc"}`, id, result, event)
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// dial connects a client to a server whose tool report does what call says.
func dial(t *testing.T, o mcpcclient.Options, call func(f *far, id string) *mcp.CallToolResult) (*mcpcclient.Client, *mcp.ServerSession) {
	t.Helper()
	srv := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	f := &far{}
	srv.AddTool(&mcp.Tool{Name: "is_mcpc_enabled", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(`{"mcpc_enabled":true,"mcpc_version":"0.2.0","mcpc_provider":"p","mcpc_direct_updates":true}`), nil
	})
	srv.AddTool(&mcp.Tool{Name: "report", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args struct {
			Metadata struct {
				ID string `json:"mcpc_task_id"`
			} `json:"_metadata"`
		}
		_ = json.Unmarshal(r.Params.Arguments, &args)
		return call(f, args.Metadata.ID), nil
	})
	near, theirs := mcp.NewInMemoryTransports()
	ss, err := srv.Connect(t.Context(), &farTransport{near, f}, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.Logger = quiet
	c, err := mcpcclient.Connect(t.Context(), mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil), theirs, o)
	if err != nil {
		t.Fatal(err)
	}
	return c, ss
}

// MCPC-CLI-1: a listener may call tools, hears everything in order, and is told of what is not what
// the type says.
func TestTypedListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ss := dial(t, mcpcclient.Options{}, func(f *far, id string) *mcp.CallToolResult {
			go func() {
				for i := range 3 {
					f.callback(message("update", id, fmt.Sprintf(`{"percent":%d}`, i)))
				}
				f.callback(message("update", id, `"half"`))
				f.callback(message("complete", id, `{"pages":3}`))
			}()
			return text(message("created", id, `"Started."`))
		})
		var heard []string
		mcpcclient.Listen(c, report, mcpcclient.Listener[progress, pages]{
			Update: func(ctx context.Context, m task.Message, u progress) {
				if u.Percent == 0 {
					if _, _, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "is_mcpc_enabled"}, ""); err != nil {
						t.Error(err)
					}
				}
				heard = append(heard, fmt.Sprint(u.Percent))
			},
			Complete: func(_ context.Context, _ task.Message, p pages) { heard = append(heard, fmt.Sprint(p.Pages, " pages")) },
			Invalid:  func(_ context.Context, m task.Message, err error) { heard = append(heard, "invalid "+string(m.Result)) },
		})
		r, err := mcpcclient.Call(t.Context(), c, report, struct{}{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.Wait(t.Context())
		if err != nil || p.Pages != 3 {
			t.Errorf("%+v, %v", p, err)
		}
		if got := strings.Join(heard, ","); got != `0,1,2,invalid "half",3 pages` {
			t.Errorf("heard %s", got)
		}
		c.Shutdown(context.Background())
		ss.Wait()
	})
}

// A session that dies ends who waits for its tasks, and a listener that is too slow costs no more
// than the queue holds: updates go first, the end of a task stays.
func TestDeadSessionAndSlowListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		heard := map[string]int{}
		c, ss := dial(t, mcpcclient.Options{MaxQueue: 5, Listener: func(ctx context.Context, m task.Message) {
			mu.Lock()
			heard[m.Event]++
			mu.Unlock()
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
		}}, func(f *far, id string) *mcp.CallToolResult {
			go func() {
				for range 100 {
					f.callback(message("update", id, `{"percent":1}`))
				}
				f.callback(message("failed", "other", `"no"`))
			}()
			return text(message("created", id, `"Started."`))
		})
		r, err := mcpcclient.Call(t.Context(), c, report, struct{}{})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ss.Close()
		synctest.Wait()
		done := make(chan error, 1)
		go func() {
			_, err := r.Wait(t.Context())
			done <- err
		}()
		time.Sleep(time.Hour)
		if err := <-done; !errors.Is(err, mcpcclient.ErrClosed) {
			t.Errorf("waiting: %v", err)
		}
		c.Shutdown(context.Background())
		mu.Lock()
		defer mu.Unlock()
		if heard["failed"] != 1 || heard["update"] > 6 {
			t.Errorf("heard %v", heard)
		}
	})
}

// MCPC-CLI-1: an ordinary result is left alone, also one that speaks of mcpc.
func TestOrdinaryResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := 0
		answer := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: `{"protocol":"mcpc?"}`}, &mcp.TextContent{Text: `{"protocol":"mcpc"}`}}, StructuredContent: map[string]any{"pages": 4}}
		c, ss := dial(t, mcpcclient.Options{Listener: func(context.Context, task.Message) { heard++ }}, func(*far, string) *mcp.CallToolResult { return answer })
		r, err := mcpcclient.Call(t.Context(), c, report, struct{}{})
		if err != nil {
			t.Fatal(err)
		}
		if p, err := r.Wait(t.Context()); err != nil || p.Pages != 4 || len(r.Answer.Content) != 2 {
			t.Errorf("%+v, %v, %+v", p, err, r.Answer)
		}
		c.Shutdown(context.Background())
		ss.Wait()
		if heard != 0 {
			t.Errorf("heard %d", heard)
		}
	})
}

// MCPC-CLI-1: messages that came another way, such as by events of the type mcpc.task, reach the listeners in order.
func TestTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []string
		c, ss := dial(t, mcpcclient.Options{}, nil)
		mcpcclient.Listen(c, report, mcpcclient.Listener[progress, pages]{
			Update: func(_ context.Context, m task.Message, u progress) {
				heard = append(heard, fmt.Sprint(m.TaskID, " ", u.Percent))
			},
			Complete: func(_ context.Context, m task.Message, p pages) {
				heard = append(heard, fmt.Sprint(m.TaskID, " has ", p.Pages))
			},
		})
		for _, text := range []string{message("update", "t", `{"percent":50}`), message("complete", "t", `{"pages":3}`)} {
			m, ok, err := task.Parse(text)
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			c.Take(m)
		}
		synctest.Wait()
		if got := strings.Join(heard, ", "); got != "t 50, t has 3" {
			t.Errorf("heard %s", got)
		}
		c.Shutdown(context.Background())
		ss.Wait()
	})
}

// A program that only is a client links no server.
func TestLinksNoServer(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"runtime/server", "runtime/transport", "runtime/internal/webhooks/delivery", "runtime/mcpc\n"} {
		if strings.Contains(string(out), "mcpe-gen/"+part) {
			t.Errorf("it links %s", part)
		}
	}
}

// Shutdown waits for listeners no longer than its context.
func TestShutdownWaitsAsLongAsAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, release := make(chan struct{}), make(chan struct{})
		c, ss := dial(t, mcpcclient.Options{Listener: func(context.Context, task.Message) {
			close(begun)
			<-release // whatever its context says
		}}, func(f *far, id string) *mcp.CallToolResult { return text(message("created", id, `"Started."`)) })
		if _, _, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: report.Name}, ""); err != nil {
			t.Fatal(err)
		}
		<-begun
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a listener that hangs: %v", err)
		}
		close(release)
		if err := c.Shutdown(t.Context()); err != nil {
			t.Errorf("again: %v", err)
		}
		ss.Wait()
	})
}
