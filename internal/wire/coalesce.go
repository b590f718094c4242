package wire

import (
	"encoding/json"
	"fmt"
)

// Values of Keep in a [Coalesce], which determines whether to keep the latest event or all events.
const (
	KeepLatest = "latest"
	KeepAll    = "all"
)

const (
	// MaxCoalesceKeys is the maximum number of pointers in the key of a [Coalesce].
	MaxCoalesceKeys = 8
	// MaxCoalesceSeconds is the maximum of the times in a [Coalesce], in seconds. It is one day.
	MaxCoalesceSeconds = 24 * 60 * 60
)

// A Coalesce specifies which events of a type concern the same subject and how a consumer may merge them (COAL-1).
// Servers still deliver every event.
type Coalesce struct {
	// Key holds JSON Pointers into the payload. Events with equal values at these pointers concern the same subject.
	Key []string `json:"key"`
	// QuietSeconds is the time without new events for a key before its events are delivered. MaxSeconds is the maximum
	// delay of the first event.
	QuietSeconds int `json:"quietSeconds"`
	MaxSeconds   int `json:"maxSeconds"`
	// Keep is KeepLatest or KeepAll.
	Keep string `json:"keep"`
}

// Check returns an error if c is invalid.
func (c *Coalesce) Check() error {
	if len(c.Key) == 0 || len(c.Key) > MaxCoalesceKeys {
		return fmt.Errorf("key has %d places; it needs 1 to %d", len(c.Key), MaxCoalesceKeys)
	}
	for _, place := range c.Key {
		if _, ok := SplitPointer(place); !ok {
			return fmt.Errorf("key %q is not a JSON Pointer to a member of the payload", place)
		}
	}
	switch {
	case c.QuietSeconds < 1 || c.QuietSeconds > MaxCoalesceSeconds:
		return fmt.Errorf("quietSeconds is %d; it must be 1 to %d", c.QuietSeconds, MaxCoalesceSeconds)
	case c.MaxSeconds < c.QuietSeconds || c.MaxSeconds > MaxCoalesceSeconds:
		return fmt.Errorf("maxSeconds is %d; it must be at least quietSeconds, %d, and at most %d", c.MaxSeconds, c.QuietSeconds, MaxCoalesceSeconds)
	case c.Keep != KeepLatest && c.Keep != KeepAll:
		return fmt.Errorf("keep is %q; it must be %q or %q", c.Keep, KeepLatest, KeepAll)
	}
	return nil
}

// CoalesceOf returns the Coalesce in a descriptor's _meta, or nil. The error names the invalid member.
func CoalesceOf(meta map[string]any) (*Coalesce, error) {
	said, ok := meta[MetaCoalesce]
	if !ok {
		return nil, nil
	}
	raw, err := json.Marshal(said)
	if err != nil {
		return nil, fmt.Errorf("_meta %s: %w", MetaCoalesce, err)
	}
	if len(raw) == 0 || raw[0] != '{' {
		return nil, fmt.Errorf("_meta %s is not an object", MetaCoalesce)
	}
	c := new(Coalesce)
	if err := Decode(raw, c); err != nil {
		return nil, fmt.Errorf("_meta %s: %w", MetaCoalesce, err)
	}
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("_meta %s: %w", MetaCoalesce, err)
	}
	return c, nil
}
