// Package task defines the types that servers and clients of MCPC share. They are the message ([Message]), the
// description of a tool that runs in the background ([Type]) and the event type that delivers its messages to clients
// of MCP Events ([Event]).
//
// Generated code uses this package. To write a server, start with package mcpc. To write a client, start with package
// mcpc/mcpcclient.
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

// A Type describes a tool that runs in the background. The type of its arguments is A, of its updates U, and of its
// result R. Generated code declares a Type for each entry of tasks. See MCPC-SRV-1.
type Type[A, U, R any] struct {
	Info
}

// Info contains the fields of a [Type] that do not depend on its type parameters.
type Info struct {
	// Name is the tool's name.
	Name string
	// Title is the tool's title. It may be empty.
	Title string
	// Description is the tool's description in tools/list.
	Description string
	// InputSchema is the schema of the arguments, without MCPC's metadata. UpdateSchema is the schema of the updates.
	// ResultSchema is the schema of the result, which must be an object.
	InputSchema, UpdateSchema, ResultSchema json.RawMessage
}

// A Message reports the progress of a task or a server event. See MCPC-MSG-1.
type Message struct {
	// Type is "task" or "server_event".
	Type string
	// Event is "created", "update", "complete" or "failed" for a task. For a server event, it can be any non-empty
	// string.
	Event string
	// SessionID, TaskID and ToolName are required for a task. An empty string is encoded as null.
	SessionID, TaskID, ToolName string
	// Result is any JSON value; nil means null.
	Result json.RawMessage
}

// ErrInvalid is wrapped by errors about messages that violate the protocol. See MCPC-MSG-2.
var ErrInvalid = errors.New("invalid MCPC message")

// taskEvents lists the values of Message.Event for a task, in chronological order.
var taskEvents = []string{wire.MCPCCreated, wire.MCPCUpdate, wire.MCPCComplete, wire.MCPCFailed}

// Check validates a message to be sent. The error wraps [ErrInvalid].
func (m *Message) Check() error {
	if err := m.checkReceived(); err != nil {
		return err
	}
	if m.SessionID == "" {
		return fmt.Errorf("%w: session_id is missing", ErrInvalid)
	}
	return nil
}

// checkReceived is like Check, but for received messages. A received server event may omit the session.
func (m *Message) checkReceived() error {
	switch {
	case m.Type == wire.MCPCServerEvent && m.Event == "":
		return fmt.Errorf("%w: event is missing", ErrInvalid)
	case m.Type == wire.MCPCServerEvent:
		return nil
	case m.Type != wire.MCPCTask:
		return fmt.Errorf("%w: type %q is neither task nor server_event", ErrInvalid, m.Type)
	case !slices.Contains(taskEvents, m.Event):
		return fmt.Errorf("%w: %q is not an event of a task", ErrInvalid, m.Event)
	case m.SessionID == "" || m.TaskID == "" || m.ToolName == "":
		return fmt.Errorf("%w: a task needs session_id, task_id and tool_name", ErrInvalid)
	}
	return nil
}

// A wireMessage is the wire format of a Message. It always has seven members, which may be null.
type wireMessage struct {
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
	err := enc.Encode(wireMessage{m.Type, m.Event, text(m.SessionID), text(m.TaskID), text(m.ToolName), m.Result, wire.MCPCProtocol})
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// UnmarshalJSON decodes a message and ignores unknown members.
func (m *Message) UnmarshalJSON(b []byte) error {
	var w wireMessage
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

// Parse parses a message from the text of a content block. If the text is not a message, ok is false, and callers
// should leave the text unchanged. err is set if the text claims to be an MCPC message but is invalid (MCPC-CLI-1).
func Parse(text string) (m Message, ok bool, err error) {
	b := bytes.TrimSpace([]byte(text))
	var protocol string
	if !json.Valid(b) || wire.Decode(wire.FirstMember(b, "protocol"), &protocol) != nil || protocol != wire.MCPCProtocol {
		return m, false, nil
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return Message{}, false, err
	}
	if err := m.checkReceived(); err != nil {
		return Message{}, false, err
	}
	return m, true, nil
}

// Arguments selects the messages of a subscription to [Event]. An empty field matches all messages.
type Arguments struct {
	TaskID    string `json:"task_id,omitzero"`
	SessionID string `json:"session_id,omitzero"`
	ToolName  string `json:"tool_name,omitzero"`
}

// Event is the event type mcpc.task. Its occurrences are the messages of tasks. A server with MCPC declares it, and
// clients of MCP Events can subscribe to it. See MCPC-WIRE-2.
var Event = events.Type[Arguments, Message]{Info: eventInfo}

// eventInfo describes the event type mcpc.task for servers and clients.
var eventInfo = events.Info{
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
