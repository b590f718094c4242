package topic

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

// A Type is what the kernel knows of one registration of an event type. It never changes;
// registering the name again makes a new one. What it points to, the author's functions included,
// is set at registration; the functions are guarded against panics.
type Type struct {
	Name     string
	NameHash uint32
	NameJSON []byte
	// NoReplay is for a type without cursors, whose subscriptions begin at the head.
	NoReplay bool
	// ReplayCeiling is the largest age of what is replayed; 0 for none (CUR-6).
	ReplayCeiling time.Duration
	// Clock is what ages are counted by; nil for the process's own (REP-8).
	Clock func() time.Time
	// MaxArguments bounds a subscription's arguments, in bytes of JSON (CAP-5).
	MaxArguments int
	// Input is what arguments have to be valid under.
	Input *validate.Schema
	// Rules are the x-match rules.
	Rules []Rule
	// Echo is a member of each occurrence's _meta; nil for none.
	Echo []byte

	// DecodeArguments and DecodePayload return the author's struct, fresh each time.
	DecodeArguments, DecodePayload func(json.RawMessage) (any, error)
	// Match and Transform are the author's hooks; nil for none.
	Match     func(ctx context.Context, payload, arguments any) (bool, error)
	Transform func(ctx context.Context, payload, arguments any) error
	// Encodable says why data cannot be sent as an occurrence's (OCC-4).
	Encodable func(data json.RawMessage) error

	arguments argumentsCache
}

// Now is the time by the type's clock, in UTC.
func (t *Type) Now() time.Time {
	if t.Clock != nil {
		return t.Clock().UTC()
	}
	return time.Now().UTC()
}
