// Package mcpc serves MCPC on an event server. MCPC provides server events, and tools that return immediately, continue
// in the background and send updates to the conversation.
//
// Start with [New], after server.New and before the server runs. Then register the tools that
// mcpe-gen generates from the tasks in an event file, which call [RegisterTask]. An author writes
// one function for each: it receives the typed arguments and a [Task], calls Update on it, and
// returns the typed result. [SendEvent] sends a payload of any event type as a server event, and
// [Options.Forward] forwards emitted occurrences.
//
// [Task.Way] returns how a task's messages are sent to its caller. A session that supports MCPC over a message
// connection such as stdio receives them as callbacks: JSON-RPC responses with the id MCPC_CALLBACK. Over HTTP, the
// server cannot send unsolicited messages, so the call remains open and its result contains all messages. A caller
// without MCPC receives an ordinary typed result and, on request, progress notifications. A session indicates its
// support for MCPC by calling a check tool (is_mcpc_enabled, _is_mcpc_enabled, _mcpc_init) and by including metadata in
// each call.
//
// All messages of tasks are also emitted as occurrences of the event type mcpc.task, which New registers. Callers with
// a principal can read all messages of the tasks that they started. Callers without a principal must specify the id of
// the task.
//
// The MCPC document also mentions changing a running task and asking the user questions from a tool. No release defines
// a wire format for them, so this package does not support them. Use another tool to change a task, and MCP's
// elicitation to ask questions (MCPC-OUT-1).
package mcpc

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// Options configures an [Adapter]; the zero value is usable.
type Options struct {
	// Provider is the value of mcpc_provider in the results of check tools; default "mcpe-gen".
	Provider string
	// ListCheckTool lists is_mcpc_enabled among the tools, for clients that call only listed tools. All three check
	// tools can be called even if they are not listed (MCPC-INIT-1).
	ListCheckTool bool
	// MaxTasks limits the concurrent tasks of one session, or of one principal without a session; default 16. Callers
	// with neither a session nor a principal share a limit of 16 times MaxTasks.
	MaxTasks int
	// MaxCollected limits the total size of the messages in one tool result over HTTP, in bytes. The default is 1 MiB.
	// Above the limit, the oldest updates are dropped.
	MaxCollected int
	// Grace is how long a task can continue after its context ends; default 5 s. A task that takes longer is reported
	// as failed.
	Grace time.Duration
	// Forward selects event types to forward as server events. Their occurrences are sent to every session that
	// supports MCPC over a message connection and may see the type. Nil forwards nothing. See MCPC-SRV-4.
	Forward func(event string) bool
	// OpenTasks allows callers without a principal to subscribe to mcpc.task for the messages of all tasks without a
	// principal. Use it for servers with a single client, such as over stdio.
	OpenTasks bool
	// Logger logs errors, including details that are not sent to callers; default the event server's logger.
	Logger *slog.Logger
}

// An Adapter serves MCPC on one event server. Its methods are safe for concurrent use.
type Adapter struct {
	es      *port.Port
	o       Options
	emitter *server.Emitter[record]

	ctx    context.Context // ends when the server shuts down or the adapter is closed
	cancel context.CancelCauseFunc
	work   sync.WaitGroup
	stops  []func()

	mu    sync.Mutex
	shut  bool
	peers map[string]*peer
}

// errShutdown is the cancellation cause of tasks that the server's shutdown ends.
var errShutdown = errors.New("the server is shutting down")

// New serves MCPC on the event server es. For clients of events/*, the only change is the new event type mcpc.task. The
// adapter stops when es shuts down or [Adapter.Shutdown] is called. Calling New again for es is an error.
func New(es *server.Server, o Options) (*Adapter, error) {
	if es == nil {
		return nil, errors.New("mcpc.New: no server given")
	}
	if err := port.Of(es).CheckAlone("MCPC"); err != nil {
		return nil, fmt.Errorf("mcpc.New: %w", err)
	}
	o.Provider = cmp.Or(o.Provider, "mcpe-gen")
	o.MaxTasks = cmp.Or(max(o.MaxTasks, 0), 16)
	o.MaxCollected = cmp.Or(max(o.MaxCollected, 0), 1<<20)
	o.Grace = cmp.Or(max(o.Grace, 0), 5*time.Second)
	o.Logger = cmp.Or(o.Logger, port.Of(es).Logger())
	a := &Adapter{es: port.Of(es), o: o, peers: map[string]*peer{}}
	a.ctx, a.cancel = context.WithCancelCause(context.Background())
	err := a.es.Claim("MCPC")
	if err != nil {
		return nil, fmt.Errorf("mcpc.New: %w", err)
	}
	if a.emitter, err = a.registerEvent(es); err != nil {
		a.es.Release("MCPC")
		return nil, fmt.Errorf("mcpc.New: %w", err)
	}
	a.es.AddMiddleware(a.checkMiddleware)
	if o.ListCheckTool {
		a.es.MCP().AddTool(checkTool(), func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return a.checkResult(wire.MCPCCheck), nil // the middleware answers first
		})
	}
	a.stops = append(a.stops, a.es.OnSessionEnd(a.cancelSessionTasks), a.es.OnListChanged(a.forwardAll))
	go func() {
		select {
		case <-a.es.Closing():
			a.cancelTasks()
		case <-a.ctx.Done():
		}
	}()
	return a, nil
}

// cancelTasks cancels all tasks and prevents new tasks.
func (a *Adapter) cancelTasks() {
	a.mu.Lock()
	a.shut = true
	a.mu.Unlock()
	a.cancel(errShutdown)
}

// Shutdown stops all tasks and waits for them until ctx ends. If ctx ends first, the error wraps ctx.Err(). Shutdown
// may be called more than once.
func (a *Adapter) Shutdown(ctx context.Context) error {
	a.cancelTasks()
	for _, stop := range a.stops {
		stop()
	}
	done := make(chan struct{})
	go func() {
		a.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("mcpc: waiting for tasks: %w", ctx.Err())
	}
}

// runInBackground runs f in a goroutine that Shutdown waits for. After Shutdown, it returns false without calling f.
func (a *Adapter) runInBackground(f func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shut {
		return false
	}
	a.work.Go(f)
	return true
}

func newID() string { return rand.Text() }

// registerEvent registers mcpc.task. A record in the log includes the task's principal. Subscribers receive only the
// messages of tasks that they started, without the principal.
func (a *Adapter) registerEvent(es *server.Server) (*server.Emitter[record], error) {
	return server.Register(es, taskEvent, server.Hooks[task.Arguments, record]{
		Authorize: a.authorize,
		Match: func(ctx context.Context, r *record, args *task.Arguments) bool {
			return r.Owner == server.PrincipalOf(ctx)
		},
		Transform: func(_ context.Context, r *record, _ *task.Arguments) error {
			r.Owner = ""
			return nil
		},
	})
}
