package mcpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/toolargs"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
)

// A Func performs a task. ctx ends when the session ends, StopTask is called, the server shuts down, or a caller that
// is waiting for the result cancels the call. server.PrincipalOf returns the caller. The caller sees only the messages
// of [Fail] and of an *events.Error. Other errors and panics are logged. See MCPC-SRV-1.
type Func[A, U, R any] func(ctx context.Context, args A, t *Task[U]) (R, error)

// A Failure is an error with a message that can be shown to the caller.
type Failure struct {
	Message string
	Err     error // for the log; may be nil
}

// Fail returns an error with a message for the caller of the task. err is only logged.
func Fail(message string, err error) error { return &Failure{message, err} }

// Error returns the message and the logged error.
func (f *Failure) Error() string {
	if f.Err == nil {
		return f.Message
	}
	return f.Message + ": " + f.Err.Error()
}

// Unwrap returns the logged error.
func (f *Failure) Unwrap() error { return f.Err }

// taskSchemas contains the compiled schemas of a task type.
type taskSchemas struct{ input, update, result *validate.Schema }

// RegisterTask adds a tool that runs in the background. Generated code calls it before the server runs. RegisterTask
// returns an error if a schema of the type is invalid, which cannot happen with generated code.
func RegisterTask[A, U, R any](a *Adapter, t task.Type[A, U, R], f Func[A, U, R]) error {
	if f == nil {
		return fmt.Errorf("registering task %q: no function given", t.Name)
	}
	s, err := compile(&t.Info)
	if err != nil {
		return fmt.Errorf("registering task %q: %w", t.Name, err)
	}
	output, err := outputSchema(t.ResultSchema)
	if err != nil {
		return fmt.Errorf("registering task %q: resultSchema: %w", t.Name, err)
	}
	tool := &mcp.Tool{Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: schematree.Inline(t.InputSchema), OutputSchema: output}
	return add(a.es.MCP(), tool, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		own, m, err := takeMetadata(req.Params.Arguments)
		if err != nil {
			return failed("Invalid arguments: " + err.Error() + "."), nil
		}
		own = toolargs.Decode(t.InputSchema, own)
		if err := s.input.Validate(own); err != nil {
			return failed("Invalid arguments: " + err.Error() + "."), nil
		}
		var args A
		if err := codec.Decode(own, &args); err != nil {
			return failed("Invalid arguments: " + err.Error() + "."), nil
		}
		return a.start(ctx, req, t.Name, m, func(ctx context.Context, r *runningTask) (json.RawMessage, error) {
			out, err := f(ctx, args, &Task[U]{r, s.update})
			if err != nil {
				return nil, err
			}
			data, err := encode(s.result, &out)
			if err != nil {
				return nil, fmt.Errorf("the task's result: %w", err)
			}
			return data, nil
		})
	})
}

// add adds a tool. The SDK panics if the tool is invalid, and add converts the panic to an error.
func add(srv *mcp.Server, t *mcp.Tool, h mcp.ToolHandler) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("registering task %q: %v", t.Name, v)
		}
	}()
	srv.AddTool(t, h)
	return nil
}

// compile compiles the schemas of a task type. It returns an error if the SDK would panic or the tool could not work.
func compile(t *task.Info) (s taskSchemas, err error) {
	if t.Name == "" {
		return s, errors.New("it has no name")
	}
	if slices.Contains(checkTools, t.Name) {
		return s, errors.New("the name belongs to MCPC")
	}
	for _, schema := range []struct {
		name string
		raw  json.RawMessage
		into **validate.Schema
	}{{"inputSchema", t.InputSchema, &s.input}, {"updateSchema", t.UpdateSchema, &s.update}, {"resultSchema", t.ResultSchema, &s.result}} {
		if *schema.into, err = validate.Compile(schema.raw); err != nil {
			return s, fmt.Errorf("%s: %w", schema.name, err)
		}
	}
	for name, raw := range map[string]json.RawMessage{"inputSchema": t.InputSchema, "resultSchema": t.ResultSchema} {
		var head struct {
			Type any `json:"type"`
		}
		if err := json.Unmarshal(raw, &head); err != nil || head.Type != "object" {
			return s, fmt.Errorf(`%s must have "type": "object"`, name)
		}
	}
	return s, withoutMetadata(t.InputSchema)
}

// messageSchema is the schema of the "created" message. It is the answer to a call if the result follows as a callback.
const messageSchema = `{"type":"object","description":"The task goes on in the background.","properties":{` +
	`"protocol":{"const":"` + wire.MCPCProtocol + `"},"type":{"const":"` + wire.MCPCTask + `"},"event":{"const":"` + wire.MCPCCreated + `"},` +
	`"session_id":{"type":"string"},"task_id":{"type":"string"},"tool_name":{"type":"string"},"result":{"type":"string"}},` +
	`"required":["protocol","type","event","session_id","task_id","tool_name","result"]}`

// outputSchema returns the outputSchema of a task's tool in tools/list. The output is the result or the "created"
// message. The schema is the same for all clients, because a client that caches the schema rejects answers that violate
// it, even if the client starts to use MCPC later (MCPC-SRV-2). References in the result's schema are adjusted to its
// new location.
func outputSchema(result json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(result, &members); err != nil {
		return nil, err
	}
	if _, own := members["$id"]; !own { // otherwise references are relative to $id
		result = schematree.Move(result, "#/anyOf/0")
	}
	all := map[string]any{"type": "object", "anyOf": []json.RawMessage{result, json.RawMessage(messageSchema)}}
	if dialect, ok := members["$schema"]; ok {
		all["$schema"] = dialect
	}
	return json.Marshal(all)
}

// encode converts the value to which v points to JSON and validates it.
func encode(s *validate.Schema, v any) (json.RawMessage, error) {
	data, err := codec.Encode(v)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", events.ErrInvalidPayload, err)
	}
	if err := s.Validate(data); err != nil {
		return nil, fmt.Errorf("%w: %w", events.ErrInvalidPayload, err)
	}
	return data, nil
}

// start starts a task. If messages can be sent later, it returns the answer immediately.
func (a *Adapter) start(ctx context.Context, req *mcp.CallToolRequest, tool string, m callMetadata, f func(context.Context, *runningTask) (json.RawMessage, error)) (*mcp.CallToolResult, error) {
	c := a.es.CallerOf(ctx, req)
	_, limit := keyOf(c)
	r := &runningTask{a: a, tool: tool, id: m.task, session: m.session}
	for {
		if r.peer = a.peerOf(c); r.peer == nil {
			return failed("The server is shutting down."), nil
		}
		r.way = a.wayOf(r.peer, m)
		r.createContext(port.AsPrincipal(ctx, c.Principal), req)
		err := a.addTask(r, limit)
		if err == errGone && !r.peer.isSession() {
			r.cancel(nil)
			continue // the peer was removed in between
		}
		if err != nil {
			r.cancel(err)
			return failed("The task was not started: " + err.Error() + "."), nil
		}
		break
	}
	if r.way == Callback {
		created := r.message(wire.MCPCCreated, quoted("Started "+tool+". Updates and the result follow."))
		reply, err := messageContent(created)
		if err != nil {
			r.cancel(err)
			a.removeTask(r)
			return nil, err
		}
		a.publish(r.ctx, created, r.peer.principal)
		c.AfterReply(func() {
			if !a.runInBackground(func() { r.complete(f) }) {
				r.cancel(errShutdown)
				a.removeTask(r)
			}
		})
		return &mcp.CallToolResult{StructuredContent: created, Content: reply}, nil
	}
	if c.Stateless {
		c.AfterReply(func() { r.cancel(context.Canceled) }) // the client is gone or has its result
	}
	defer r.cancel(nil)
	if err := r.send(r.ctx, wire.MCPCCreated, quoted("Started "+tool+".")); err != nil {
		a.removeTask(r)
		return nil, err
	}
	return r.complete(f), nil
}

// wayOf returns the way to send a call's messages to its caller.
func (a *Adapter) wayOf(p *peer, m callMetadata) Way {
	if m.present && p.isSession() {
		a.enableForwarding(p)
	}
	a.mu.Lock()
	aware := p.aware || m.present
	a.mu.Unlock()
	switch {
	case !aware:
		return Plain
	case p.connection != "" && a.es.Reachable(p.connection):
		return Callback
	}
	return Collected
}
