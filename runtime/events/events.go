// Package events defines the types that servers and clients of the MCP Events extension share. They are the typed
// description of an event type ([Type]), a received occurrence ([Event]), the result of a check ([Page]), typed errors
// ([Error]), and two types for generated fields, [Time] and [Optional].
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

// A Source is the origin of a type's occurrences: Emit, a check or both. See SRV-1.
type Source string

// The sources of an event file.
const (
	SourceEmit  Source = "emit"
	SourceCheck Source = "check"
	SourceBoth  Source = "both"
)

// The delivery modes, as events/list names them.
const (
	ModePoll    = "poll"
	ModePush    = "push"
	ModeWebhook = "webhook"
)

// A Type describes an event type, with subscription arguments A and payload P. Generated code declares one for each
// event. Servers register it, and clients subscribe with it.
type Type[A, P any] struct {
	Info
}

// Info is the part of a [Type] that does not depend on its Go types.
type Info struct {
	// Name is the event name, for example "incident.created".
	Name string
	// Description is the human-readable text of events/list.
	Description string
	// Delivery restricts the delivery modes ([ModePoll] and its siblings); empty allows every mode of the server. See
	// LIST-3.
	Delivery []string
	// InputSchema and PayloadSchema are compact JSON Schemas exactly as published.
	InputSchema, PayloadSchema json.RawMessage
	// Meta is published next to the fingerprint.
	Meta map[string]any
	// Fingerprint identifies the two schemas: 32 hex digits. See EVOL-4.
	Fingerprint string
	// Source is the origin of the occurrences; empty means SourceEmit.
	Source Source
	// NoReplay marks a type whose cursors are null.
	NoReplay bool
	// Match lists the rules that filter occurrences by subscription arguments.
	Match []MatchRule
	// MCPE holds the settings for the MCPE protocol; nil means enabled, normal priority, no tags.
	MCPE *MCPE

	published published.Description
}

func init() {
	published.Of = func(info any) *published.Description { return &info.(*Info).published }
}

// A MatchOp compares an argument with a member of the payload.
type MatchOp string

// The operators of x-match. MatchMin and MatchMax are older names of MatchGTE and MatchLTE.
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

// A MatchRule compares the argument named Argument with the payload member at Path. Path is a JSON Pointer (RFC 6901)
// in which * stands for every element of an array. An absent argument constrains nothing; a missing or null member
// never matches; a member that is an array matches if any element does.
type MatchRule struct {
	Argument string  `json:"argument"`
	Path     string  `json:"path"`
	Op       MatchOp `json:"op,omitempty"`
	// Not inverts the rule, which then also matches a missing member.
	Not bool `json:"not,omitempty"`
}

// An Occurrence holds one event without its typed payload. See OCC-1.
type Occurrence struct {
	// ID is the eventId: visible ASCII, at most 256 bytes, the same in every redelivery.
	ID string
	// Name is the event type's name.
	Name string
	// Timestamp is when the event happened according to its source.
	Timestamp Time
	// Cursor is the position after the event, or "" if the delivery has none.
	Cursor string
	// Raw is the payload as received, including members that the schema does not name.
	Raw json.RawMessage
	// Meta is the occurrence's _meta, or nil.
	Meta json.RawMessage
}

// An Event is one occurrence that a subscription received, with its payload. Payloads come from the server and are
// untrusted input.
type Event[A, P any] struct {
	Occurrence
	// Data is the decoded payload.
	Data P
	// Arguments are the arguments of the subscription that received the event.
	Arguments A
}

// An Item is one occurrence that a check found upstream.
type Item[P any] struct {
	// ID is the upstream's stable id. If it is empty, the server derives one from the event name, the last upstream
	// cursor before the item, the offset from there and the data, so that repeated checks agree. See OCC-2.
	ID string
	// Timestamp is the time at which the event happened; the zero value means the time of the check.
	Timestamp time.Time
	// TimestampText, if set, is published unchanged instead of Timestamp: the RFC 3339 text of another server. See
	// CLI-11.
	TimestampText string
	// Cursor is the upstream's position after the item. It must differ from the position after the previous item. A
	// subscriber that has read this far resumes from it. If it is empty, subscribers resume from the last cursor
	// before the item and skip the items that they have read.
	Cursor string
	// Data is the payload.
	Data P
}

// A Found is one result of a yielding check: an occurrence with the position after it, or only a position. A position
// without an occurrence is, for example, the answer for "now". See server.Yield.
type Found[P any] struct {
	// Item is the occurrence, with an empty Cursor; nil for a mere position.
	Item *Item[P]
	// Cursor is the upstream's position after Item; it must not be empty.
	Cursor string
	// Truncated reports that the upstream could not resume from the cursor of the check.
	Truncated bool
	// NextPoll is the time to wait before the next check; 0 means the type's default. The last value counts.
	NextPoll time.Duration
}

// A Page is the result of a check: the occurrences after the given cursor.
type Page[P any] struct {
	Items []Item[P]
	// Cursor is the upstream's position after Items; it must not be empty.
	Cursor string
	// HasMore reports that the upstream has more items now.
	HasMore bool
	// Truncated reports that the upstream could not resume from the cursor of the check.
	Truncated bool
	// NextPoll suggests the time to wait before the next check; 0 means the type's default. See POLL-5.
	NextPoll time.Duration
}

// EmitOptions holds the settings of [EmitOption] functions. Code that wraps or replaces an emitter reads them; authors
// pass the functions to Emit.
type EmitOptions struct {
	ID        string
	Timestamp time.Time
	Meta      map[string]any
	// Targets lists the ids of the subscriptions that receive the occurrence; nil means all.
	Targets []string
}

// An EmitOption sets an option for one emitted occurrence.
type EmitOption func(*EmitOptions)

// WithID sets the eventId: the upstream's stable id, visible ASCII, at most 256 bytes. Emitting with the id of a
// retained occurrence appends nothing, so that an author can safely retry (OCC-5). Without WithID, Emit generates a
// UUIDv7. See OCC-2.
func WithID(id string) EmitOption { return func(o *EmitOptions) { o.ID = id } }

// WithTimestamp sets the time at which the event happened; the default is the time of Emit.
func WithTimestamp(t time.Time) EmitOption { return func(o *EmitOptions) { o.Timestamp = t } }

// To emits to the subscriptions with these ids only. OnSubscribe and server.Server.Subscriptions provide the ids. The
// subscriptions' arguments still filter. Without ids, Emit appends nothing. See SRV-2.
func To(subscriptionIDs ...string) EmitOption {
	if subscriptionIDs == nil {
		subscriptionIDs = []string{}
	}
	return func(o *EmitOptions) { o.Targets = subscriptionIDs }
}

// WithMeta sets members of the occurrence's _meta. If several options set the same member, the last one wins.
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
