package mcpcclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
)

// A Listener receives the messages of one tool's tasks. Nil functions are not called. Data from the server is
// untrusted.
type Listener[U, R any] struct {
	Created  func(ctx context.Context, m task.Message)
	Update   func(ctx context.Context, m task.Message, update U)
	Complete func(ctx context.Context, m task.Message, result R)
	Failed   func(ctx context.Context, m task.Message, message string)
	// Invalid is called if the result of a message does not match the type.
	Invalid func(ctx context.Context, m task.Message, err error)
}

// Listen passes the messages of the type's tool to l, in the order of arrival, until stop is called. See MCPC-CLI-1.
func Listen[A, U, R any](c *Client, t task.Type[A, U, R], l Listener[U, R]) (stop func()) {
	return c.listeners.Add(func(ctx context.Context, m task.Message) {
		if m.Type != wire.MCPCTask || m.ToolName != t.Name {
			return
		}
		var err error
		switch m.Event {
		case wire.MCPCCreated:
			if l.Created != nil {
				l.Created(ctx, m)
			}
		case wire.MCPCUpdate:
			err = give(ctx, m, l.Update)
		case wire.MCPCComplete:
			err = give(ctx, m, l.Complete)
		case wire.MCPCFailed:
			if l.Failed != nil {
				l.Failed(ctx, m, failureMessage(m))
			}
		}
		if err != nil && l.Invalid != nil {
			l.Invalid(ctx, m, err)
		}
	})
}

// ListenEvent calls f with the payload of each server event of the named type, until stop is called. It logs an event
// with a payload that cannot be decoded to P. See MCPC-SRV-4.
func ListenEvent[P any](c *Client, event string, f func(ctx context.Context, m task.Message, payload P)) (stop func()) {
	return c.listeners.Add(func(ctx context.Context, m task.Message) {
		if m.Type != wire.MCPCServerEvent || m.Event != event {
			return
		}
		if err := give(ctx, m, f); err != nil {
			c.o.Logger.Warn("mcpc: the payload of a server event cannot be decoded", "event", event, "error", err)
		}
	})
}

func give[T any](ctx context.Context, m task.Message, f func(context.Context, task.Message, T)) error {
	if f == nil {
		return nil
	}
	v, err := decode[T](m.Result)
	if err != nil {
		return err
	}
	f(ctx, m, v)
	return nil
}

func decode[T any](raw json.RawMessage) (v T, err error) {
	if raw == nil {
		raw = json.RawMessage("null")
	}
	err = codec.Decode(raw, &v)
	return v, err
}

// failureMessage returns the error message of a failed task.
func failureMessage(m task.Message) string {
	var text string
	if json.Unmarshal(m.Result, &text) != nil {
		text = string(m.Result)
	}
	return text
}

// A Running is a task that a client has started.
type Running[R any] struct {
	// TaskID is the id that the client generated for the task.
	TaskID string
	// Answer is the unmodified result of the tool.
	Answer *mcp.CallToolResult

	client *Client
	wait   chan task.Message // nil if the answer holds the result
}

// A FailedError is returned if a task or its call has failed.
type FailedError struct {
	Tool    string
	Message string
}

// Error returns the tool's name and the server's message.
func (e *FailedError) Error() string { return e.Tool + ": " + e.Message }

// Call calls the type's tool. It returns once the server has answered, which is immediately if callbacks are possible.
// [Running.Wait] returns the result. If the server rejects the call, the error is a [*FailedError].
func Call[A, U, R any](ctx context.Context, c *Client, t task.Type[A, U, R], args A) (*Running[R], error) {
	raw, err := codec.Encode(&args)
	if err != nil {
		return nil, fmt.Errorf("mcpc: arguments of %s: %w", t.Name, err)
	}
	r := &Running[R]{TaskID: uuid.NewString(), client: c, wait: make(chan task.Message, 1)}
	c.mu.Lock()
	c.waiting[r.TaskID] = r.wait
	c.mu.Unlock()
	if r.Answer, _, err = c.CallTool(ctx, &mcp.CallToolParams{Name: t.Name, Arguments: json.RawMessage(raw)}, r.TaskID); err != nil {
		r.forget()
		return nil, err
	}
	last, isMessage := lastMessage(r.Answer)
	switch {
	case r.Answer.IsError:
		r.forget()
		text := failureMessage(last)
		if !isMessage {
			text = textOf(r.Answer)
		}
		return nil, &FailedError{t.Name, text}
	case !isMessage || r.Answer.StructuredContent != nil && last.Event != wire.MCPCCreated: // it holds the result
		r.forget()
		r.wait = nil
	}
	return r, nil
}

// Wait waits for the result of the task. It returns a [*FailedError] if the task failed, [ErrClosed] if the session
// ends first, a decoding error if the result cannot be decoded to R, or ctx.Err(). Call it only once, and not from a
// listener.
func (r *Running[R]) Wait(ctx context.Context) (result R, err error) {
	if r.wait == nil {
		if r.Answer.StructuredContent == nil {
			return result, errors.New("mcpc: the response has no result")
		}
		raw, err := json.Marshal(r.Answer.StructuredContent)
		if err != nil {
			return result, err
		}
		return decode[R](raw)
	}
	select {
	case m, ok := <-r.wait:
		switch {
		case !ok:
			return result, ErrClosed
		case m.Event == wire.MCPCFailed:
			return result, &FailedError{m.ToolName, failureMessage(m)}
		}
		return decode[R](m.Result)
	case <-ctx.Done():
		r.forget()
		return result, ctx.Err()
	}
}

func (r *Running[R]) forget() {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	delete(r.client.waiting, r.TaskID)
}

// lastMessage returns the last message in the content blocks of a result.
func lastMessage(res *mcp.CallToolResult) (last task.Message, ok bool) {
	for _, b := range res.Content {
		if text, isText := b.(*mcp.TextContent); isText {
			if m, is, _ := task.Parse(text.Text); is {
				last, ok = m, true
			}
		}
	}
	return last, ok
}

func textOf(res *mcp.CallToolResult) string {
	var all []string
	for _, b := range res.Content {
		if text, ok := b.(*mcp.TextContent); ok {
			all = append(all, text.Text)
		}
	}
	return strings.Join(all, "\n")
}
