// Package conversation implements the proposal for conversation event subscriptions. A server receives the messages of
// a conversation and responds with context for the model's prompt.
//
// A server declares the capability conversationEvents and handles each user message with a [Handler]; start with
// [Register]. A client uses a [Hub] for its sessions; start with [NewHub]. The hub sends a message to the servers that
// declare the capability and have the user's consent, and merges their answers into one marked, bounded text. The
// answers are untrusted data.
package conversation

import (
	"encoding/json"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Methods and notifications of the protocol.
const (
	// MethodUserMessage sends a user's message, as a request or as a notification. See CONV-2.
	MethodUserMessage = "conversation/userMessage"
	// MethodAssistantResponse sends a model response in the same way. See CONV-8.
	MethodAssistantResponse = "conversation/assistantResponse"
	// NotificationContext is the answer to a message that was sent as a notification. See CONV-2.
	NotificationContext = "conversation/context"
)

// CapabilityKey is the name of the server capability, at the top level of capabilities and mirrored in experimental.
// See CONV-1.
const CapabilityKey = "conversationEvents"

// A Capability is the value of [CapabilityKey].
type Capability struct {
	OnUserMessage       bool `json:"onUserMessage,omitempty"`
	OnAssistantResponse bool `json:"onAssistantResponse,omitempty"`
}

// A Role is the author of a turn.
type Role string

// The roles of a conversation.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// A Turn is an earlier message of the conversation.
type Turn struct {
	Role    Role   `json:"role"`
	Content string `json:"content"`
}

// A Message is a message of the conversation that is sent to a server. See CONV-2.
type Message struct {
	// MessageID identifies the message in the conversation. It is required.
	MessageID string `json:"messageId"`
	// Content is the text of the message.
	Content string `json:"content"`
	// RecentHistory holds earlier turns, oldest first. It is sent only if the user's consent includes history.
	RecentHistory []Turn `json:"recentHistory,omitempty"`
}

// A Memory is a remembered fact. See CONV-3.
type Memory struct {
	Content string `json:"content"`
	// Relevance is a value from 0 to 1.
	Relevance float64 `json:"relevance"`
	// Source is the origin of the memory, if known.
	Source string `json:"source,omitzero"`
}

// Memories is the structured context of servers that declare no other members.
type Memories struct {
	Memories []Memory `json:"memories,omitempty"`
}

// An Answer is a server's addition to the prompt. The zero value adds nothing.
type Answer[S any] struct {
	// Context is plain text, which can be empty.
	Context string
	// Structured is the structured context, or nil.
	Structured *S
}

// An answer is the wire representation of an Answer.
type answer struct {
	ResultType        string          `json:"resultType,omitempty"`
	Context           *string         `json:"context,omitempty"`
	StructuredContext json.RawMessage `json:"structuredContext,omitempty"`
}

// contextParams are the params of NotificationContext.
type contextParams struct {
	MessageID string `json:"messageId"`
	answer
}

// decodeMessage decodes params. Its error is a *wire.FieldErrors.
func decodeMessage(params json.RawMessage) (m Message, err error) {
	// Use pointers to distinguish absent members from empty ones.
	var p struct {
		MessageID     *string `json:"messageId"`
		Content       *string `json:"content"`
		RecentHistory []struct {
			Role    *Role   `json:"role"`
			Content *string `json:"content"`
		} `json:"recentHistory"`
	}
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	if err := json.Unmarshal(params, &p); err != nil {
		path := ""
		if t, ok := err.(*json.UnmarshalTypeError); ok && t.Field != "" {
			path = "/" + t.Field
		}
		return m, fieldErrors(wire.FieldError{Path: path, Message: "has the wrong type"})
	}
	var errs []wire.FieldError
	if p.MessageID == nil || *p.MessageID == "" {
		errs = append(errs, wire.FieldError{Path: "/messageId", Message: "is required"})
	}
	if p.Content == nil {
		errs = append(errs, wire.FieldError{Path: "/content", Message: "is required"})
	}
	for i, t := range p.RecentHistory {
		if t.Role == nil || *t.Role != User && *t.Role != Assistant {
			errs = append(errs, wire.FieldError{Path: fmt.Sprintf("/recentHistory/%d/role", i), Message: "must be user or assistant"})
		}
		if t.Content == nil {
			errs = append(errs, wire.FieldError{Path: fmt.Sprintf("/recentHistory/%d/content", i), Message: "is required"})
		}
	}
	if len(errs) > 0 {
		return m, fieldErrors(errs...)
	}
	m = Message{MessageID: *p.MessageID, Content: *p.Content}
	for _, t := range p.RecentHistory {
		m.RecentHistory = append(m.RecentHistory, Turn{*t.Role, *t.Content})
	}
	return m, nil
}

func fieldErrors(errs ...wire.FieldError) error { return &wire.FieldErrors{Errors: errs} }
