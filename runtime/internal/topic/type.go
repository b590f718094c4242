package topic

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

// A Type describes one registration of an event type. It is immutable. Registering the name again creates a new Type.
// The author's functions must recover from panics.
type Type struct {
	Name     string
	NameHash uint32
	NameJSON []byte
	// NoReplay reports whether the type has no cursors. Its subscriptions then start at the head.
	NoReplay bool
	// ReplayCeiling is the maximum age of a replayed occurrence. Zero means no limit (CUR-6).
	ReplayCeiling time.Duration
	// Clock returns the current time, from which ages are calculated. If it is nil, the process's clock is used
	// (REP-8).
	Clock func() time.Time
	// MaxArguments is the maximum size of a subscription's arguments as JSON, in bytes (CAP-5).
	MaxArguments int
	// Input is the schema of the arguments.
	Input *validate.Schema
	// Rules are the x-match rules.
	Rules []Rule
	// Echo is an encoded member that is added to each occurrence's _meta. It may be nil.
	Echo []byte

	// DecodeArguments and DecodePayload decode JSON into a new copy of the author's struct.
	DecodeArguments, DecodePayload func(json.RawMessage) (any, error)
	// Match and Transform are the author's hooks, which can be nil.
	Match     func(ctx context.Context, payload, arguments any) (bool, error)
	Transform func(ctx context.Context, payload, arguments any) error
	// PerPrincipal is the author's hook for private members. It may be nil. It receives a copy of the payload and
	// returns the payload that the principal of ctx may see, or nil to withhold the occurrence.
	PerPrincipal func(ctx context.Context, payload, arguments any) (any, error)
	// Copyable reports whether [codec.Copy] can copy a decoded payload.
	Copyable bool
	// Payload is the schema of payloads. It is nil if payloads are not validated.
	Payload *validate.Schema
	// Encodable returns an error if data cannot be sent as an occurrence's data (OCC-4). Known members, which can be
	// nil, need no second validation.
	Encodable func(data json.RawMessage, known *validate.Members) error

	arguments argumentsCache
}

// cursorProof returns the entry proof that a cursor contains. It returns 0 for a type with private members, because a
// caller could use the hash to verify guesses about them (OCC-6).
func (t *Type) cursorProof(p uint32) uint32 {
	if t.PerPrincipal != nil {
		return 0
	}
	return p
}

// Now returns the current time in UTC according to the type's clock.
func (t *Type) Now() time.Time {
	if t.Clock != nil {
		return t.Clock().UTC()
	}
	return time.Now().UTC()
}
