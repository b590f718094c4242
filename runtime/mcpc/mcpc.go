// Package mcpc serves MCPC on an event server: tools that answer at once and go on in the
// background, whose updates come back into the conversation, and server events.
//
// Start with [New], after server.New and before the server runs; then register the tools that
// mcpe-gen makes of the tasks in an event file, which call [RegisterTask]. An author writes one
// function for each: it gets the typed arguments and a [Task], on which it calls Update, and
// returns the typed result. [SendEvent] sends a payload of any event type as a server event, and
// [Options.Forward] does so for whatever is emitted.
//
// How a task's messages reach its caller is [Task.Way]. A session that speaks MCPC over a message
// connection such as stdio gets them as callbacks: JSON-RPC responses with the id MCPC_CALLBACK.
// Over HTTP, where nothing unasked can be sent, the call stays open and its result holds all
// messages. A caller that does not speak MCPC gets an ordinary typed result and, when it asked,
// progress notifications. Whether a session speaks MCPC is seen by its call of a check tool
// (is_mcpc_enabled, _is_mcpc_enabled, _mcpc_init) and by the metadata of each call.
//
// Beside that, all messages of tasks are occurrences of the event type mcpc.task, which New
// registers: callers with a principal read those of their own tasks, callers without one those of
// the task whose id they name.
//
// The document of MCPC also speaks of changing a task while it runs and of questions that a tool
// puts to the user. Neither has a form on the wire in any release, and so neither exists here: use
// another tool for the former and MCP's elicitation for the latter (MCPC-OUT-1).
package mcpc

import (
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

// Options configure an [Adapter]; the zero value is usable.
type Options struct {
	// Provider is mcpc_provider of the check tools; default "mcpe-gen".
	Provider string
	// ListCheckTool lists is_mcpc_enabled among the tools, for clients that call only what is
	// listed. All three check tools answer either way (MCPC-INIT-1).
	ListCheckTool bool
	// MaxTasks is how many tasks may run at a time for one session, or for one principal where
	// there are no sessions; default 16. Callers that have neither share 16 times as many.
	MaxTasks int
	// MaxCollected bounds the messages in one tool result over HTTP, in bytes; default 1 MiB. Beyond
	// it the oldest updates are left out.
	MaxCollected int
	// Grace is how long a task whose context has ended may take to return; default 5 s. Then it is
	// reported as failed, whatever it does later.
	Grace time.Duration
	// Forward names the event types whose occurrences go as server events to every session that
	// speaks MCPC over a message connection and may see them; nil forwards none. See
	// MCPC-SRV-4.
	Forward func(event string) bool
	// OpenTasks lets callers without a principal read the messages of all tasks that have none
	// either, by mcpc.task. It is for servers with one client, such as on stdio.
	OpenTasks bool
	// Logger receives what callers are not told; default the event server's.
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

// errShutdown is why tasks end with the server.
var errShutdown = errors.New("the server is shutting down")

// New makes the event server serve MCPC. It registers the event type mcpc.task and nothing else
// that a client of events/* could see. The adapter ends with the server, or with
// [Adapter.Shutdown]. A second one for es is an error.
func New(es *server.Server, o Options) (*Adapter, error) {
	if es == nil {
		return nil, errors.New("mcpc.New: no server given")
	}
	if err := port.Of(es).CheckAlone("MCPC"); err != nil {
		return nil, fmt.Errorf("mcpc.New: %w", err)
	}
	if o.Provider == "" {
		o.Provider = "mcpe-gen"
	}
	if o.MaxTasks <= 0 {
		o.MaxTasks = 16
	}
	if o.MaxCollected <= 0 {
		o.MaxCollected = 1 << 20
	}
	if o.Grace <= 0 {
		o.Grace = 5 * time.Second
	}
	if o.Logger == nil {
		o.Logger = port.Of(es).Logger()
	}
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
	a.es.MCP().AddReceivingMiddleware(a.middleware)
	if o.ListCheckTool {
		a.es.MCP().AddTool(checkTool(), func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return a.checked(wire.MCPCCheck), nil // the middleware answers first
		})
	}
	a.stops = append(a.stops, a.es.OnSessionEnd(a.sessionEnds), a.es.OnListChanged(a.forwardAll))
	go func() {
		select {
		case <-a.es.Closing():
			a.end()
		case <-a.ctx.Done():
		}
	}()
	return a, nil
}

// end stops every task; no new one begins.
func (a *Adapter) end() {
	a.mu.Lock()
	a.shut = true
	a.mu.Unlock()
	a.cancel(errShutdown)
}

// Shutdown stops every task and waits for them as long as ctx allows; the error then wraps that of
// ctx. It may be called more than once.
func (a *Adapter) Shutdown(ctx context.Context) error {
	a.end()
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

// background runs f in a goroutine that Shutdown waits for; false after the end.
func (a *Adapter) background(f func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shut {
		return false
	}
	a.work.Go(f)
	return true
}

func newID() string { return rand.Text() }

// registerEvent declares mcpc.task. A record carries whose task it is on its way through the log;
// nobody is shown that, nor the tasks of others.
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
