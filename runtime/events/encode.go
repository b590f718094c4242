package events

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// An EncodeError describes a failure to encode a member of a value.
type EncodeError struct {
	// Pointer is the JSON Pointer (RFC 6901) of the member; "" is the whole value.
	Pointer string
	// Err is the cause.
	Err error
}

// Error returns the pointer and the cause.
func (e *EncodeError) Error() string {
	if e.Pointer == "" {
		return "events: encode: " + e.Err.Error()
	}
	return "events: encode " + e.Pointer + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *EncodeError) Unwrap() error { return e.Err }

// encode implements [codec.Encode].
func encode(v any) ([]byte, error) {
	opts := encodeOptions
	if t := traitsOf(reflect.TypeOf(v)); t.number || t.open {
		opts = encodeNumberOptions
	}
	data, err := json.Marshal(v, opts)
	if err == nil {
		return data, nil
	}
	return nil, encodeError(err)
}

func encodeError(err error) error {
	if own, ok := err.(*EncodeError); ok {
		return own
	}
	if sem := (*json.SemanticError)(nil); errors.As(err, &sem) {
		pointer, cause := string(sem.JSONPointer), sem.Err
		if inner, ok := cause.(*EncodeError); ok { // of a nested type's own MarshalJSON
			return &EncodeError{Pointer: pointer + inner.Pointer, Err: inner.Err}
		}
		if cause == nil {
			cause = fmt.Errorf("%v cannot be written as JSON", sem.GoType)
		}
		return &EncodeError{Pointer: pointer, Err: cause}
	}
	if syn := (*jsontext.SyntacticError)(nil); errors.As(err, &syn) {
		return &EncodeError{Pointer: string(syn.JSONPointer), Err: syn.Err}
	}
	return &EncodeError{Err: err}
}
