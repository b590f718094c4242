package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// MaxInteger is the largest integer allowed in canonical arguments, 2^53−1 (SUB-4). The smallest is -MaxInteger.
	MaxInteger = 1<<53 - 1
	// MaxDepth is the maximum nesting depth that Canonical and the params decoders accept.
	MaxDepth = 512
)

// Canonical returns the RFC 8785 form of raw, which identifies subscriptions with equal arguments (SUB-4). It returns
// {} for nil, null and {}. The numbers 1, 1.0 and 1e0 have the same form. Strings are not normalized.
//
// Duplicate names, invalid UTF-8, numbers beyond ±MaxInteger in any notation and nesting beyond MaxDepth are errors.
// The error is a *FieldErrors with the path of the value.
func Canonical(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return json.RawMessage("{}"), nil
	}
	if err := checkStrict(raw, true); err != nil {
		return nil, err
	}
	out := jsontext.Value(raw).Clone()
	if err := out.Canonicalize(); err != nil {
		return nil, syntaxErrors(err)
	}
	if out.Kind() == 'n' {
		return json.RawMessage("{}"), nil
	}
	return json.RawMessage(out), nil
}

// checkStrict returns an error if raw does not have a unique canonical form.
func checkStrict(raw []byte, bounded bool) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	for first := true; first || dec.StackDepth() > 0; first = false {
		token, err := dec.ReadToken()
		if err != nil {
			return syntaxErrors(err)
		}
		switch token.Kind() {
		case '0':
			if message := numberFault(token.String(), bounded); message != "" {
				return invalid(string(dec.StackPointer()), message)
			}
		case '{', '[':
			if dec.StackDepth() > MaxDepth {
				return invalid(string(dec.StackPointer()), fmt.Sprintf("is nested deeper than %d levels", MaxDepth))
			}
		}
	}
	if len(bytes.Trim(raw[dec.InputOffset():], " \t\r\n")) != 0 {
		return invalid("", "is followed by something else")
	}
	return nil
}

func numberFault(text string, bounded bool) string {
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return "is too large a number"
	// Beyond the limit, different numbers can have the same double, so the canonical form would not be unique.
	case bounded && math.Abs(f) > MaxInteger:
		return "is beyond ±9007199254740991, the integers that every peer represents exactly"
	}
	return ""
}

// syntaxErrors converts an error from the JSON reader to an error that can be sent to a peer.
func syntaxErrors(err error) *FieldErrors {
	if syn := (*jsontext.SyntacticError)(nil); errors.As(err, &syn) {
		switch path := string(syn.JSONPointer); {
		case errors.Is(syn.Err, jsontext.ErrDuplicateName):
			return invalid(path, "is a duplicate member")
		case isInvalidUTF8(syn.Err):
			return invalid(path, "is not valid UTF-8")
		default:
			return invalid(path, "is not valid JSON")
		}
	}
	return invalid("", "is not valid JSON")
}

// The reader does not export its error for invalid UTF-8, so this code triggers the error to obtain it.
var errInvalidUTF8 = func() error {
	_, err := jsontext.AppendQuote(nil, "\xff")
	if syn := (*jsontext.SyntacticError)(nil); errors.As(err, &syn) {
		return syn.Err
	}
	return err
}()

func isInvalidUTF8(err error) bool {
	return errors.Is(err, errInvalidUTF8) || err.Error() == errInvalidUTF8.Error()
}
