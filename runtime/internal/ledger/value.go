package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	domain "github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// ErrDamaged is returned for a record that cannot be decoded. Another build may have written it in another form.
var ErrDamaged = errors.New("ledger: the record cannot be decoded")

// form is the form of the values that this build writes. A field that is added does not change it.
const form = 1

// An envelope is the JSON of a value.
type envelope[T any] struct {
	Form  int `json:"form"`
	Value T   `json:"value"`
}

// encode returns the bytes of a value. Values consist of types that can always be encoded. Raw JSON in them, such as
// canonical arguments, keeps its bytes.
func encode[T any](v *T) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(envelope[*T]{form, v}); err != nil {
		panic(fmt.Sprintf("ledger: encoding a %T: %v", v, err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// decode returns the value of a record, or nil if the record does not exist. An engine in memory returns the value that
// was written, so the caller must not change it.
func decode[T any, P interface {
	*T
	store.Value
}](r store.Record) (P, error) {
	switch v := r.Value.(type) {
	case nil:
		return nil, nil
	case P:
		return v, nil
	case store.Bytes:
		var e envelope[*T]
		if err := json.Unmarshal(v, &e); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, r.Key, err)
		}
		if e.Form != form || e.Value == nil {
			return nil, fmt.Errorf("%w: %s has form %d, this build knows form %d", ErrDamaged, r.Key, e.Form, form)
		}
		return e.Value, nil
	}
	return nil, unexpected(r)
}

// unexpected returns the error for a record that has neither the expected value nor bytes.
func unexpected(r store.Record) error {
	if d, ok := r.Value.(store.Damaged); ok {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, r.Key, d.Err)
	}
	return fmt.Errorf("%w: %s is a %T", ErrDamaged, r.Key, r.Value)
}

// unreadable returns a sentence for operators if an error means that one record cannot be read, and otherwise "".
func unreadable(err error) string {
	switch {
	case errors.Is(err, sealed.ErrKey):
		return domain.UnreadableKey
	case errors.Is(err, ErrDamaged), errors.Is(err, sealed.ErrForm):
		return domain.UnreadableDamaged
	}
	return ""
}
