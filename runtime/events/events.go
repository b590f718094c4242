// Package events holds what servers and clients of the MCP Events extension share: the typed
// description of an event type ([Type]), a received occurrence ([Event]), what a check returns
// ([Page]), typed errors ([Error]), and two types of generated fields, [Time] and [Optional].
//
// Authors of servers use it in hooks (errors such as [Forbidden]) and in the options of Emit ([WithID],
// [WithTimestamp]). Clients read an [Event]. What only generated code calls is in package eventsimpl.
package events

import (
	"encoding/json"
	"maps"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/published"
)

// A Source says how occurrences of a type come into being. See SRV-1.
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

// A Type is the static description of an event type whose subscription arguments are A and whose
// payload is P. Generated code holds one per event; servers register it, clients subscribe with it.
type Type[A, P any] struct {
	Info
}

// Info is the part of a [Type] that does not depend on its Go types.
type Info struct {
	// Name is the event name, for example "incident.created".
	Name string
	// Description is the human-readable text of events/list.
	Description string
	// Delivery restricts the delivery modes ([ModePoll] and its siblings); empty means all that the server offers.
	// See LIST-3.
	Delivery []string
	// InputSchema and PayloadSchema are compact JSON Schemas exactly as published.
	InputSchema, PayloadSchema json.RawMessage
	// Meta is published beside the fingerprint.
	Meta map[string]any
	// Fingerprint identifies the two schemas: 32 hex digits. See EVOL-4.
	Fingerprint string
	// Source says where occurrences come from; empty means SourceEmit.
	Source Source
	// NoReplay marks a type whose cursors are null.
	NoReplay bool
	// Match ties arguments to places in the payload.
	Match []MatchRule
	// MCPE is what the type says to the MCPE protocol; nil means enabled, normal, no tags.
	MCPE *MCPE

	published published.Description
}

func init() {
	published.Of = func(info any) *published.Description { return &info.(*Info).published }
}

// A MatchOp compares an argument with a place in the payload.
type MatchOp string

// The operators of x-match.
const (
	MatchEqual  MatchOp = "equal"
	MatchIn     MatchOp = "in"
	MatchGlob   MatchOp = "glob"
	MatchPrefix MatchOp = "prefix"
	MatchMin    MatchOp = "min"
	MatchMax    MatchOp = "max"
)

// A MatchRule ties the argument named Argument to the payload place Path, a JSON Pointer
// (RFC 6901). An absent argument is no constraint; a missing or null place never matches; a place
// that is an array matches if any element does.
type MatchRule struct {
	Argument string  `json:"argument"`
	Path     string  `json:"path"`
	Op       MatchOp `json:"op,omitempty"`
}

// An Occurrence is what is known of one event beside its typed payload. See OCC-1.
type Occurrence struct {
	// ID is the eventId: visible ASCII, at most 256 bytes, stable over redelivery.
	ID string
	// Name is the event type's name.
	Name string
	// Timestamp is when the event happened according to its source.
	Timestamp Time
	// Cursor is the position after the event, or "" where the delivery carries none.
	Cursor string
	// Raw is the payload as received; members that the schema does not name survive in it.
	Raw json.RawMessage
	// Meta is the occurrence's _meta, or nil.
	Meta json.RawMessage
}

// An Event is one occurrence of a subscription with its payload. Payloads come from the server and
// are untrusted input.
type Event[A, P any] struct {
	Occurrence
	// Data is the decoded payload.
	Data P
	// Arguments are those of the subscription that the event came by.
	Arguments A
}

// An Item is one occurrence that a check found upstream.
type Item[P any] struct {
	// ID is the upstream's stable id; when empty one is derived from the event name, the upstream
	// cursor, the offset in the page and the data, so that repeated checks agree. See OCC-2.
	ID string
	// Timestamp is when it happened; the zero value means the time of the check.
	Timestamp time.Time
	// TimestampText, when set, is published unchanged in place of Timestamp: RFC 3339 as another
	// server wrote it. See CLI-11.
	TimestampText string
	// Data is the payload.
	Data P
}

// A Page is what a check returns: the occurrences after the cursor that it was given.
type Page[P any] struct {
	Items []Item[P]
	// Cursor is the upstream's position after Items; it must not be empty.
	Cursor string
	// HasMore tells that the upstream has more right now.
	HasMore bool
	// Truncated tells that the upstream could not honour the cursor it was given.
	Truncated bool
	// NextPoll suggests when to check again; 0 means the type's default. See POLL-5.
	NextPoll time.Duration
}

// EmitOptions are what the [EmitOption] functions set. Code that wraps an emitter, or takes its place, reads them;
// authors pass the functions to Emit.
type EmitOptions struct {
	ID        string
	Timestamp time.Time
	Meta      map[string]any
	// Targets are the ids of the subscriptions that get the occurrence; nil means all of them.
	Targets []string
}

// An EmitOption sets a detail of one emitted occurrence.
type EmitOption func(*EmitOptions)

// WithID sets the eventId: the upstream's stable id, visible ASCII, at most 256 bytes. An emit under the id of a
// retained occurrence appends nothing, so that an author who is in doubt can emit again (OCC-5). Without WithID a
// UUIDv7 is generated. See OCC-2.
func WithID(id string) EmitOption { return func(o *EmitOptions) { o.ID = id } }

// WithTimestamp sets when the event happened; the default is the time of Emit.
func WithTimestamp(t time.Time) EmitOption { return func(o *EmitOptions) { o.Timestamp = t } }

// To emits for the subscriptions of these ids only, as OnSubscribe and server.Server.Subscriptions give them.
// Their arguments still filter. Without ids nothing is appended. See SRV-2.
func To(subscriptionIDs ...string) EmitOption {
	if subscriptionIDs == nil {
		subscriptionIDs = []string{}
	}
	return func(o *EmitOptions) { o.Targets = subscriptionIDs }
}

// WithMeta sets members of the occurrence's _meta; of several options the last one that names a member counts.
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
