package events

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// An Optional is the Go type of a member that may be absent and may also be null: absent, null and
// a value stay apart in both directions. The zero value is absent; a field of this type carries
// `omitzero` so that absent is not written.
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

// Some returns an Optional that holds v.
func Some[T any](v T) Optional[T] { return Optional[T]{value: v, state: set} }

// Null returns an Optional that is present and null.
func Null[T any]() Optional[T] { return Optional[T]{state: null} }

// Get returns the value, and whether there is one; it is false for absent and for null.
func (o Optional[T]) Get() (T, bool) { return o.value, o.state == set }

// Or returns the value, or fallback when absent or null.
func (o Optional[T]) Or(fallback T) T {
	if o.state == set {
		return o.value
	}
	return fallback
}

// IsNull reports whether the member is present and null.
func (o Optional[T]) IsNull() bool { return o.state == null }

// IsZero reports whether the member is absent; encoders ask it because of `omitzero`.
func (o Optional[T]) IsZero() bool { return o.state == absent }

// MarshalJSONTo writes the value, or null when there is none. [Encode] uses it.
func (o Optional[T]) MarshalJSONTo(enc *jsontext.Encoder) error {
	if o.state != set {
		return enc.WriteToken(jsontext.Null)
	}
	return json.MarshalEncode(enc, &o.value)
}

// UnmarshalJSONFrom reads null or a value. [Decode] uses it.
func (o *Optional[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == 'n' {
		*o = Null[T]()
		return dec.SkipValue()
	}
	var v T // a fresh one: an Optional is replaced, not merged into
	if err := json.UnmarshalDecode(dec, &v); err != nil {
		return err
	}
	*o = Some(v)
	return nil
}

// MarshalJSON is MarshalJSONTo for encoding/json.
func (o Optional[T]) MarshalJSON() ([]byte, error) {
	if o.state != set {
		return []byte("null"), nil
	}
	return Encode(o.value)
}

// UnmarshalJSON is UnmarshalJSONFrom for encoding/json.
func (o *Optional[T]) UnmarshalJSON(data []byte) error {
	if string(bytes.TrimSpace(data)) == "null" {
		*o = Null[T]()
		return nil
	}
	var v T
	if err := Decode(data, &v); err != nil {
		return err
	}
	*o = Some(v)
	return nil
}
