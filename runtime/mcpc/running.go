package mcpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
)

// A Way specifies how a task's messages are sent to its caller. See MCPC-WIRE-1, MCPC-WIRE-2.
type Way int

const (
	// Callback sends each message separately, after the call was answered with "created".
	Callback Way = iota + 1
	// Collected keeps the call open and returns all messages in its result.
	Collected
	// Plain returns an ordinary result and, on request, sends progress notifications. It is for callers without MCPC.
	Plain
)

// String returns the name of the Way, such as "callback".
func (w Way) String() string {
	switch w {
	case Callback:
		return "callback"
	case Collected:
		return "collected"
	case Plain:
		return "plain"
	}
	return fmt.Sprintf("Way(%d)", int(w))
}

// A Task is a running task, as seen by its [Func]. Its methods are safe for concurrent use.
type Task[U any] struct {
	r      *runningTask
	schema *validate.Schema
}

// Update sends an update. If the caller is slow, Update waits until the task's context ends. It returns
// events.ErrInvalidPayload, [ErrFinished], [ErrUnreachable] or the cancellation cause of the context.
func (t *Task[U]) Update(u U) error {
	data, err := encode(t.schema, &u)
	if err != nil {
		return fmt.Errorf("mcpc: update of %s: %w", t.r.tool, err)
	}
	if err := context.Cause(t.r.ctx); err != nil {
		return fmt.Errorf("mcpc: update of %s: %w", t.r.tool, err)
	}
	if err := t.r.send(t.r.ctx, wire.MCPCUpdate, data); err != nil {
		return fmt.Errorf("mcpc: update of %s: %w", t.r.tool, err)
	}
	return nil
}

// ID returns the task's id. A client that supports MCPC chooses it.
func (t *Task[U]) ID() string { return t.r.id }

// Session returns the session that owns the task.
func (t *Task[U]) Session() Session {
	return Session{ID: t.r.session, Principal: t.r.peer.principal, key: t.r.peer.key}
}

// Way returns the way in which the task's messages are sent to its caller.
func (t *Task[U]) Way() Way { return t.r.way }

// Errors of Update and [SendEvent].
var (
	// ErrFinished is returned for an update after the task has ended.
	ErrFinished = errors.New("the task is over")
	// ErrUnreachable is returned if the session cannot be reached.
	ErrUnreachable = errors.New("the session cannot be reached")

	errStopped = errors.New("the task was stopped")
)

// A runningTask is the state of a task from its call to its last message.
type runningTask struct {
	a                 *Adapter
	peer              *peer
	tool, id, session string
	way               Way
	started           time.Time
	progress          func(ctx context.Context, n int, update json.RawMessage)

	ctx    context.Context
	cancel context.CancelCauseFunc

	sending sync.Mutex // held while a message is sent, to keep their order
	over    bool
	texts   []mcp.Content // collected
	size    int

	updates int // guarded by Adapter.mu
}

// createContext creates the task's context. If the call is answered immediately, the context outlives the call.
func (r *runningTask) createContext(ctx context.Context, req *mcp.CallToolRequest) {
	r.started = time.Now()
	if r.way == Callback {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.a.ctx, func() { cancel(errShutdown) })
	r.ctx, r.cancel = ctx, func(cause error) {
		stop()
		cancel(cause)
	}
	if token := req.Params.GetProgressToken(); token != nil && r.way != Callback {
		r.progress = func(ctx context.Context, n int, update json.RawMessage) {
			var text string
			if json.Unmarshal(update, &text) != nil {
				text = string(update)
			}
			// Progress is best effort: the result is sent even if this fails.
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(n), Message: text})
		}
	}
}

func (r *runningTask) status() Status {
	return Status{Session: Session{ID: r.session, Principal: r.peer.principal, key: r.peer.key}, TaskID: r.id, ToolName: r.tool,
		Started: r.started, Updates: r.updates, Stopping: r.ctx.Err() != nil}
}

func (r *runningTask) message(event string, result json.RawMessage) task.Message {
	return task.Message{Type: wire.MCPCTask, Event: event, SessionID: r.session, TaskID: r.id, ToolName: r.tool, Result: result}
}

// send sends a message to the caller and to the subscribers of mcpc.task.
func (r *runningTask) send(ctx context.Context, event string, result json.RawMessage) error {
	r.sending.Lock()
	defer r.sending.Unlock()
	if r.over {
		return ErrFinished
	}
	m := r.message(event, result)
	text, err := messageContent(m)
	if err != nil {
		return err
	}
	r.over = event == wire.MCPCComplete || event == wire.MCPCFailed
	r.a.publish(ctx, m, r.peer.principal)
	n := 0
	if event == wire.MCPCUpdate {
		r.a.mu.Lock()
		r.updates++
		n = r.updates
		r.a.mu.Unlock()
		if r.progress != nil {
			r.progress(ctx, n, result)
		}
	}
	switch r.way {
	case Callback:
		return r.a.deliver(ctx, r.peer.connection, text, nil)
	case Collected:
		r.collect(text)
	}
	return nil
}

// collect adds a message to the result. If the result is too large, it drops the oldest messages. It keeps the last
// message and the first, which is "created".
func (r *runningTask) collect(text []mcp.Content) {
	size := func(c mcp.Content) int { return len(c.(*mcp.TextContent).Text) }
	r.texts = append(r.texts, text...)
	r.size += size(text[0])
	for r.size > r.a.o.MaxCollected && len(r.texts) > 2 {
		r.size -= size(r.texts[1])
		r.texts = append(r.texts[:1], r.texts[2:]...)
	}
}

// lastTimeout limits the time to wait for a slow caller to accept the last message of a task.
const lastTimeout = 10 * time.Second

// complete runs the author's function and sends the last message. It returns the tool result, which is sent if the call
// is still open.
func (r *runningTask) complete(f func(context.Context, *runningTask) (json.RawMessage, error)) *mcp.CallToolResult {
	defer r.cancel(nil)
	defer r.a.removeTask(r)
	result, err := r.run(f)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), lastTimeout)
	defer cancel()
	res := &mcp.CallToolResult{StructuredContent: result, Content: []mcp.Content{&mcp.TextContent{Text: string(result)}}}
	if err == nil {
		r.last(ctx, wire.MCPCComplete, result)
	} else {
		message := r.errorMessage(err)
		r.last(ctx, wire.MCPCFailed, quoted(message))
		res = failed(message)
	}
	if r.way == Collected {
		res.Content = r.texts
	}
	return res
}

func (r *runningTask) last(ctx context.Context, event string, result json.RawMessage) {
	if err := r.send(ctx, event, result); err != nil && !errors.Is(err, ErrUnreachable) {
		r.a.o.Logger.WarnContext(ctx, "mcpc: the last message of a task was lost", "tool", r.tool, "error", err)
	}
}

// run calls the author's function. It stops waiting if the function does not return within Grace after its context
// ends.
func (r *runningTask) run(f func(context.Context, *runningTask) (json.RawMessage, error)) (json.RawMessage, error) {
	type outcome struct {
		result json.RawMessage
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if v := recover(); v != nil {
				o = outcome{err: fmt.Errorf("panic: %v\n%s", v, debug.Stack())}
			}
			done <- o
		}()
		o.result, o.err = f(r.ctx, r)
	}()
	select {
	case o := <-done:
		return o.result, o.err
	case <-r.ctx.Done():
	}
	late := time.NewTimer(r.a.o.Grace)
	defer late.Stop()
	select {
	case o := <-done:
		return o.result, o.err
	case <-late.C:
		r.a.o.Logger.Warn("mcpc: a task is still running after its context ended", "tool", r.tool, "task", r.id)
		return nil, context.Cause(r.ctx)
	}
}

// errorMessage returns an error message that is safe for the caller, and logs the details.
func (r *runningTask) errorMessage(err error) string {
	var failure *Failure
	if errors.As(err, &failure) {
		if failure.Err != nil {
			r.a.o.Logger.Error("mcpc: a task failed", "tool", r.tool, "error", err)
		}
		return failure.Message
	}
	if cause := context.Cause(r.ctx); cause != nil {
		switch cause {
		case errStopped:
			return "The task was stopped."
		case errShutdown:
			return "The server is shutting down."
		}
		return "The task was cancelled."
	}
	r.a.o.Logger.Error("mcpc: a task failed", "tool", r.tool, "error", err)
	var e *events.Error
	if errors.As(err, &e) && e.Kind != 0 && e.Kind != wire.Internal {
		if len(e.Data) > 0 {
			return e.Kind.String() + ": " + string(e.Data)
		}
		return e.Kind.String()
	}
	return "The task failed."
}

func quoted(text string) json.RawMessage {
	b, err := codec.Encode(text)
	if err != nil {
		return json.RawMessage(`"The task failed."`) // not valid UTF-8
	}
	return b
}
