package validate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// maxExponent limits the exponent of a number. The validator uses exact fractions, so 1e1000000000 would need a
// gigabyte.
const maxExponent = 1000

// Decode decodes one JSON value to nil, bool, string, json.Number, []any or map[string]any, for
// [Schema.ValidateValue]. It rejects duplicate members, invalid UTF-8, nesting beyond wire.MaxDepth and exponents
// beyond ±1000. The error is an [*Error] with the path of the fault.
func Decode(raw json.RawMessage) (any, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	v, err := decodeValue(dec)
	if err == nil && len(bytes.Trim(raw[dec.InputOffset():], " \t\r\n")) != 0 {
		err = invalidAt("", "is not valid JSON")
	}
	if err == nil {
		return v, nil
	}
	if known := (*Error)(nil); errors.As(err, &known) {
		return nil, known
	}
	if syn := (*jsontext.SyntacticError)(nil); errors.As(err, &syn) {
		message := "is not valid JSON"
		if errors.Is(err, jsontext.ErrDuplicateName) {
			message = "is a duplicate member"
		}
		return nil, invalidAt(string(syn.JSONPointer), message)
	}
	return nil, invalidAt("", "is not valid JSON")
}

func invalidAt(path, message string) *Error {
	return &Error{Fields: []events.FieldError{{Path: path, Message: message}}}
}

func decodeValue(dec *jsontext.Decoder) (any, error) {
	token, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case 't', 'f':
		return token.Bool(), nil
	case '"':
		return token.String(), nil
	case '0':
		text := token.String()
		if i := strings.IndexAny(text, "eE"); i >= 0 {
			if n, err := strconv.Atoi(text[i+1:]); err != nil || n > maxExponent || n < -maxExponent {
				return nil, invalidAt(string(dec.StackPointer()), "has an exponent beyond ±"+strconv.Itoa(maxExponent))
			}
		}
		return json.Number(text), nil
	case '[', '{':
		if dec.StackDepth() > wire.MaxDepth {
			return nil, invalidAt(string(dec.StackPointer()), fmt.Sprintf("is nested deeper than %d levels", wire.MaxDepth))
		}
		if token.Kind() == '[' {
			return decodeArray(dec)
		}
		return decodeObject(dec)
	}
	return nil, nil
}

func decodeArray(dec *jsontext.Decoder) (any, error) {
	list := []any{}
	for dec.PeekKind() != ']' {
		v, err := decodeValue(dec)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := dec.ReadToken()
	return list, err
}

func decodeObject(dec *jsontext.Decoder) (any, error) {
	object := map[string]any{}
	for dec.PeekKind() != '}' {
		token, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		name := token.String()
		if object[name], err = decodeValue(dec); err != nil {
			return nil, err
		}
	}
	_, err := dec.ReadToken()
	return object, err
}
