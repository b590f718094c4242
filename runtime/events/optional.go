package events

import (
	"bytes"
)

// An Optional is a member that can be absent, null or set to a value. Decoding and encoding preserve the distinction.
// The zero value is absent. Tag a field of this type with `omitzero` so that an absent member is not encoded.
type Optional[T any] struct {
	value T
	state optionalState
}

type optionalState uint8

const (
	absent optionalState = iota
	null
	set
)

// Some returns an Optional with the value v.
func Some[T any](v T) Optional[T] { return Optional[T]{value: v, state: set} }

// Null returns an Optional that is present and null.
func Null[T any]() Optional[T] { return Optional[T]{state: null} }

// Get returns the value and reports whether it is set. It returns false if the member is absent or null.
func (o Optional[T]) Get() (T, bool) { return o.value, o.state == set }

// Or returns the value, or fallback if the member is absent or null.
func (o Optional[T]) Or(fallback T) T {
	if o.state == set {
		return o.value
	}
	return fallback
}

// IsNull reports whether the member is present and null.
func (o Optional[T]) IsNull() bool { return o.state == null }

// IsZero reports whether the member is absent. Encoders call it for fields tagged `omitzero`.
func (o Optional[T]) IsZero() bool { return o.state == absent }

// MarshalJSON encodes the value, or null if the value is not set.
func (o Optional[T]) MarshalJSON() ([]byte, error) {
	if o.state != set {
		return []byte("null"), nil
	}
	return encode(o.value)
}

// UnmarshalJSON decodes null or a value. It replaces the previous value instead of merging into it.
func (o *Optional[T]) UnmarshalJSON(data []byte) error {
	if string(bytes.TrimSpace(data)) == "null" {
		*o = Null[T]()
		return nil
	}
	var v T
	if err := decode(data, &v); err != nil {
		return err
	}
	*o = Some(v)
	return nil
}
