package topic

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

// A Type is the kernel's view of one registration of an event type. It is immutable; registering the name again
// creates a new one. The author's functions must be guarded against panics.
type Type struct {
	Name     string
	NameHash uint32
	NameJSON []byte
	// NoReplay marks a type without cursors, whose subscriptions start at the head.
	NoReplay bool
	// ReplayCeiling is the largest age of a replayed occurrence; 0 for no bound (CUR-6).
	ReplayCeiling time.Duration
	// Clock returns the time for ages; nil means the process's clock (REP-8).
	Clock func() time.Time
	// MaxArguments bounds a subscription's arguments, in bytes of JSON (CAP-5).
	MaxArguments int
	// Input is the schema of the arguments.
	Input *validate.Schema
	// Rules are the x-match rules.
	Rules []Rule
	// Echo is a member of each occurrence's _meta; nil for none.
	Echo []byte

	// DecodeArguments and DecodePayload return the author's struct, fresh each time.
	DecodeArguments, DecodePayload func(json.RawMessage) (any, error)
	// Match and Transform are the author's hooks; they may be nil.
	Match     func(ctx context.Context, payload, arguments any) (bool, error)
	Transform func(ctx context.Context, payload, arguments any) error
	// PerPrincipal is the author's hook for private members; it may be nil. It gets a copy of the payload and
	// returns the part that the principal of ctx may see, or nil to withhold it.
	PerPrincipal func(ctx context.Context, payload, arguments any) (any, error)
	// Encodable returns an error if data cannot be sent as an occurrence's data (OCC-4).
	Encodable func(data json.RawMessage) error

	arguments argumentsCache
}

// proof returns the entry proof that a cursor carries. It returns 0 for a type with private members, because a
// caller could use the hash to test guesses at them (OCC-6).
func (t *Type) proof(p uint32) uint32 {
	if t.PerPrincipal != nil {
		return 0
	}
	return p
}

// Now returns the time by the type's clock, in UTC.
func (t *Type) Now() time.Time {
	if t.Clock != nil {
		return t.Clock().UTC()
	}
	return time.Now().UTC()
}
