// Package events defines the types that servers and clients of the MCP Events extension share. They include the typed
// description of an event type ([Type]), a received occurrence ([Event]), the result of a check ([Page]), typed errors
// ([Error]), and the types [Time] and [Optional] of generated fields.
//
// Authors of servers use it in hooks (errors such as [Forbidden]) and in the options of Emit ([WithID],
// [WithTimestamp]). Clients read an [Event]. Functions for generated code are in package eventsimpl.
package events

import (
	"encoding/json"
	"maps"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/published"
)

// A Source specifies whether a type's occurrences come from Emit, a check or both. See SRV-1.
type Source string

// The sources that an event file can specify.
const (
	SourceEmit  Source = "emit"
	SourceCheck Source = "check"
	SourceBoth  Source = "both"
)

// The delivery modes, with the names used by events/list.
const (
	ModePoll    = "poll"
	ModePush    = "push"
	ModeWebhook = "webhook"
)

// A Type describes an event type with arguments A and payload P. Generated code declares a Type for each event. Servers
// register it, and clients use it to subscribe.
type Type[A, P any] struct {
	Info
}

// Info contains the fields of a [Type] that do not depend on its type parameters.
type Info struct {
	// Name is the name of the event, such as "incident.created".
	Name string
	// Description is the human-readable description in events/list.
	Description string
	// Delivery lists the allowed delivery modes, such as [ModePoll]. If it is empty, all modes of the server are
	// allowed. See LIST-3.
	Delivery []string
	// InputSchema and PayloadSchema are compact JSON Schemas, exactly as published.
	InputSchema, PayloadSchema json.RawMessage
	// Meta contains additional members for the published _meta.
	Meta map[string]any
	// Fingerprint identifies the two schemas. It has 32 hexadecimal digits. See EVOL-4.
	Fingerprint string
	// Source specifies where the occurrences come from; empty means SourceEmit.
	Source Source
	// NoReplay is set if the type does not support replay. Its cursors are null.
	NoReplay bool
	// Match lists rules that filter occurrences by subscription arguments.
	Match []MatchRule
	// MCPE contains the settings for the MCPE protocol; nil means enabled, with normal priority and without tags.
	MCPE *MCPE

	published published.Description
}

func init() {
	published.Of = func(info any) *published.Description { return &info.(*Info).published }
}

// A MatchOp is an operator for comparing an argument with a payload member.
type MatchOp string

// The operators of x-match. MatchMin and MatchMax are older names for MatchGTE and MatchLTE.
const (
	MatchEqual  MatchOp = "equal"
	MatchIn     MatchOp = "in"
	MatchGlob   MatchOp = "glob"
	MatchPrefix MatchOp = "prefix"
	MatchLT     MatchOp = "lt"
	MatchLTE    MatchOp = "lte"
	MatchGT     MatchOp = "gt"
	MatchGTE    MatchOp = "gte"
	MatchMin    MatchOp = "min"
	MatchMax    MatchOp = "max"
)

// A MatchRule compares an argument with a payload member. Argument is the name of the argument, and Path locates the
// member. Path is a JSON Pointer (RFC 6901) in which * matches every element of an array. If the argument is absent,
// the rule matches. A missing or null member never matches. An array matches if at least one of its elements matches.
type MatchRule struct {
	Argument string  `json:"argument"`
	Path     string  `json:"path"`
	Op       MatchOp `json:"op,omitempty"`
	// Not inverts the rule. An inverted rule also matches a missing member.
	Not bool `json:"not,omitempty"`
}

// An Occurrence is a received event without its typed payload. See OCC-1.
type Occurrence struct {
	// ID is the eventId, which is the same in every redelivery. It consists of at most 256 bytes of visible ASCII.
	ID string
	// Name is the event type's name.
	Name string
	// Timestamp is the time of the event, according to its source.
	Timestamp Time
	// Cursor is the position after the event, or "" if the delivery does not have a cursor.
	Cursor string
	// Raw is the payload as received, including members that are not in the schema.
	Raw json.RawMessage
	// Meta is the occurrence's _meta, or nil.
	Meta json.RawMessage
}

// An Event is an occurrence received by a subscription, with its decoded payload. Payloads are untrusted input from the
// server.
type Event[A, P any] struct {
	Occurrence
	// Data is the decoded payload.
	Data P
	// Arguments contains the arguments of the subscription that received the event.
	Arguments A
}

// An Item is an occurrence that a check found upstream.
type Item[P any] struct {
	// ID is the item's stable id in the upstream service. If it is empty, the server derives an id from the event name,
	// the last upstream cursor before the item, the offset from that cursor and the data. Repeated checks therefore
	// yield the same id. See OCC-2.
	ID string
	// Timestamp is the time of the event. The zero value means the time of the check.
	Timestamp time.Time
	// TimestampText, if set, is an RFC 3339 timestamp from another server that is published unchanged instead of
	// Timestamp. See CLI-11.
	TimestampText string
	// Cursor is the upstream position after the item. It must differ from the position after the previous item. A
	// subscriber that has read the item resumes from it. If Cursor is empty, subscribers resume from the last cursor
	// before the item and skip the items that they have already read.
	Cursor string
	// Data is the payload.
	Data P
}

// A Found is a value yielded by a check. It contains an occurrence and the position after it, or only a position. For
// example, the result for "now" is a position without an occurrence. See server.Yield.
type Found[P any] struct {
	// Item is the occurrence, or nil if the Found contains only a position. The Cursor of Item is empty.
	Item *Item[P]
	// Cursor is the upstream position after Item. It must not be empty.
	Cursor string
	// Truncated is true if the upstream service could not resume from the cursor given to the check.
	Truncated bool
	// NextPoll is the time to wait before the next check; 0 means the type's default. The last non-zero value is used.
	NextPoll time.Duration
}

// A Page is the result of a check. It contains the occurrences after the given cursor.
type Page[P any] struct {
	Items []Item[P]
	// Cursor is the upstream position after Items. It must not be empty.
	Cursor string
	// HasMore is true if further items are available upstream.
	HasMore bool
	// Truncated is true if the upstream service could not resume from the cursor given to the check.
	Truncated bool
	// NextPoll suggests the time to wait before the next check; 0 means the type's default. See POLL-5.
	NextPoll time.Duration
}

// EmitOptions contains the values set by [EmitOption] functions. It is used by code that wraps or replaces an emitter.
// Authors pass EmitOption functions to Emit instead.
type EmitOptions struct {
	ID        string
	Timestamp time.Time
	Meta      map[string]any
	// Targets lists the ids of the subscriptions that are to receive the occurrence. Nil means all subscriptions.
	Targets []string
}

// An EmitOption configures the emission of one occurrence.
type EmitOption func(*EmitOptions)

// WithID sets the eventId to a stable id from the upstream service. It must be at most 256 bytes of visible ASCII. If
// the log still retains an occurrence with the id, Emit does not append another, so an author can safely retry (OCC-5).
// Without WithID, Emit generates a UUIDv7. See OCC-2.
func WithID(id string) EmitOption { return func(o *EmitOptions) { o.ID = id } }

// WithTimestamp sets the time of the event. The default is the time of the call to Emit.
func WithTimestamp(t time.Time) EmitOption { return func(o *EmitOptions) { o.Timestamp = t } }

// To restricts the occurrence to the subscriptions with the given ids, which are available from OnSubscribe and
// server.Server.Subscriptions. The subscriptions' arguments still apply. If no ids are given, Emit does not append the
// occurrence. See SRV-2.
func To(subscriptionIDs ...string) EmitOption {
	if subscriptionIDs == nil {
		subscriptionIDs = []string{}
	}
	return func(o *EmitOptions) { o.Targets = subscriptionIDs }
}

// WithMeta sets members of the occurrence's _meta. If several options set the same member, the last one takes
// precedence.
func WithMeta(meta map[string]any) EmitOption {
	return func(o *EmitOptions) {
		all := make(map[string]any, len(o.Meta)+len(meta))
		maps.Copy(all, o.Meta)
		maps.Copy(all, meta)
		if len(all) > 0 {
			o.Meta = all
		}
	}
}
