// Package task defines the types that servers and clients of MCPC share. They are the message
// ([Message]), the description of a tool that works in the background ([Type]) and the event type with
// which its messages reach clients of MCP Events ([Event]).
//
// Generated code refers to it; servers start with package mcpc, clients with package mcpc/mcpcclient.
package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A Type describes a tool that works in the background. Its arguments are A, its updates U, and its
// result is R. Generated code declares a Type for each entry of tasks. See MCPC-SRV-1.
type Type[A, U, R any] struct {
	Info
}

// Info is the part of a [Type] that does not depend on its Go types.
type Info struct {
	// Name is the tool's name.
	Name string
	// Title is the tool's title; it may be empty.
	Title string
	// Description is the description in tools/list.
	Description string
	// InputSchema describes the arguments without MCPC's metadata. UpdateSchema describes the updates,
	// and ResultSchema the result, which is an object.
	InputSchema, UpdateSchema, ResultSchema json.RawMessage
}

// A Message reports the progress of a task, or a server event. See MCPC-MSG-1.
type Message struct {
	// Type is "task" or "server_event".
	Type string
	// Event is "created", "update", "complete" or "failed" for a task, and anything for a server event.
	Event string
	// SessionID, TaskID and ToolName are required for a task. "" means null.
	SessionID, TaskID, ToolName string
	// Result is any JSON; nil means null.
	Result json.RawMessage
}

// ErrInvalid matches errors of messages that violate the protocol. See MCPC-MSG-2.
var ErrInvalid = errors.New("invalid MCPC message")

// lifecycle lists the events of a task in order.
var lifecycle = []string{wire.MCPCCreated, wire.MCPCUpdate, wire.MCPCComplete, wire.MCPCFailed}

// Check validates a message before it is sent. The error wraps [ErrInvalid].
func (m *Message) Check() error {
	if err := m.check(); err != nil {
		return err
	}
	if m.SessionID == "" {
		return fmt.Errorf("%w: session_id is missing", ErrInvalid)
	}
	return nil
}

// check is like Check for a received message: its server event needs no session.
func (m *Message) check() error {
	switch {
	case m.Type == wire.MCPCServerEvent && m.Event == "":
		return fmt.Errorf("%w: event is missing", ErrInvalid)
	case m.Type == wire.MCPCServerEvent:
		return nil
	case m.Type != wire.MCPCTask:
		return fmt.Errorf("%w: type %q is neither task nor server_event", ErrInvalid, m.Type)
	case !slices.Contains(lifecycle, m.Event):
		return fmt.Errorf("%w: %q is not an event of a task", ErrInvalid, m.Event)
	case m.SessionID == "" || m.TaskID == "" || m.ToolName == "":
		return fmt.Errorf("%w: a task needs session_id, task_id and tool_name", ErrInvalid)
	}
	return nil
}

// message is the wire form: seven members, including nulls.
type message struct {
	Type      string          `json:"type"`
	Event     string          `json:"event"`
	SessionID *string         `json:"session_id"`
	TaskID    *string         `json:"task_id"`
	ToolName  *string         `json:"tool_name"`
	Result    json.RawMessage `json:"result"`
	Protocol  string          `json:"protocol"`
}

// MarshalJSON encodes the message with all seven members.
func (m Message) MarshalJSON() ([]byte, error) {
	text := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(message{m.Type, m.Event, text(m.SessionID), text(m.TaskID), text(m.ToolName), m.Result, wire.MCPCProtocol})
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// UnmarshalJSON decodes a message and ignores unknown members.
func (m *Message) UnmarshalJSON(b []byte) error {
	var w message
	if err := wire.Decode(b, &w); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if w.Protocol != wire.MCPCProtocol {
		return fmt.Errorf("%w: protocol is %q", ErrInvalid, w.Protocol)
	}
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	*m = Message{w.Type, w.Event, text(w.SessionID), text(w.TaskID), text(w.ToolName), w.Result}
	if string(m.Result) == "null" {
		m.Result = nil
	}
	return nil
}

// Parse parses a message from the text of a content block. ok is false for other text, which callers
// should leave unchanged; err is set for text that claims to be MCPC but is not a valid message
// (MCPC-CLI-1).
func Parse(text string) (m Message, ok bool, err error) {
	b := bytes.TrimSpace([]byte(text))
	var protocol string
	if !json.Valid(b) || wire.Decode(wire.FirstMember(b, "protocol"), &protocol) != nil || protocol != wire.MCPCProtocol {
		return m, false, nil
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return Message{}, false, err
	}
	if err := m.check(); err != nil {
		return Message{}, false, err
	}
	return m, true, nil
}

// Arguments selects the messages of a subscription to [Event]; an empty field does not constrain.
type Arguments struct {
	TaskID    string `json:"task_id,omitzero"`
	SessionID string `json:"session_id,omitzero"`
	ToolName  string `json:"tool_name,omitzero"`
}

// Event is the event type mcpc.task, whose occurrences are the messages of tasks. Clients of MCP Events
// subscribe to it; a server with MCPC declares it. See MCPC-WIRE-2.
var Event = events.Type[Arguments, Message]{Info: info}

// info describes the type for both sides.
var info = events.Info{
	Name:          wire.MCPCEvent,
	Description:   "Fires when a background task of one of your tool calls is created, makes progress, completes or fails.",
	InputSchema:   json.RawMessage(inputSchema),
	PayloadSchema: json.RawMessage(payloadSchema),
	Match: []events.MatchRule{
		{Argument: "task_id", Path: "/task_id", Op: events.MatchEqual},
		{Argument: "session_id", Path: "/session_id", Op: events.MatchEqual},
		{Argument: "tool_name", Path: "/tool_name", Op: events.MatchEqual},
	},
	MCPE: &events.MCPE{Disabled: true},
}

const inputSchema = `{"type":"object","properties":{` +
	`"task_id":{"type":"string","minLength":1,"description":"Only this task."},` +
	`"session_id":{"type":"string","minLength":1,"description":"Only tasks of this MCPC session."},` +
	`"tool_name":{"type":"string","minLength":1,"description":"Only tasks of this tool."}},"additionalProperties":false}`

const payloadSchema = `{"type":"object","properties":{` +
	`"type":{"const":"task"},` +
	`"event":{"type":"string","enum":["created","update","complete","failed"],"description":"Where in its life the task is."},` +
	`"session_id":{"type":"string","description":"The MCPC session that the call named."},` +
	`"task_id":{"type":"string","description":"The task."},` +
	`"tool_name":{"type":"string","description":"The tool that was called."},` +
	`"result":{"description":"The update, the result or, for a failed task, a message."},` +
	`"protocol":{"const":"mcpc"}},"required":["type","event","session_id","task_id","tool_name","result","protocol"]}`
