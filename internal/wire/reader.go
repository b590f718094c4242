package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
)

// A paramsReader decodes a params object and collects the errors in its members.
type paramsReader struct{ faults []FieldError }

func (r *paramsReader) fault(path, message string) {
	r.faults = append(r.faults, FieldError{Path: path, Message: message})
}

// result returns the syntax error, if any, or otherwise the errors in members.
func (r *paramsReader) result(syntax *FieldErrors) error {
	if syntax != nil {
		return syntax
	}
	if len(r.faults) > 0 {
		return &FieldErrors{Errors: r.faults}
	}
	return nil
}

// read checks the syntax of raw and calls member for each member of raw. It treats absent params and null as an empty
// object.
func (r *paramsReader) read(raw json.RawMessage, member func(name []byte, val jsontext.Value)) *FieldErrors {
	// Long arguments are not checked here, because the caller checks them with its own limit.
	long := len(raw) > maxCheckedParams
	dec := codec.NewReader(raw, jsontext.AllowDuplicateNames(long))
	defer dec.Release()
	if long {
		member = r.withDuplicateCheck(member)
	}
	switch {
	case len(bytes.Trim(raw, " \t\r\n")) == 0:
		return nil
	case dec.PeekKind() == '{':
		if err := members(dec.Decoder, raw, member); err != nil {
			return syntaxErrors(err)
		}
	default:
		val, err := dec.ReadValue()
		if err != nil {
			return syntaxErrors(err)
		}
		if val.Kind() != 'n' {
			r.fault("", "must be an object")
		}
	}
	if len(bytes.Trim(raw[dec.InputOffset():], " \t\r\n")) != 0 {
		return invalid("", "is not valid JSON")
	}
	return nil
}

// maxCheckedParams is the maximum length of params, in bytes, for checking the arguments.
const maxCheckedParams = 64 << 10

// withDuplicateCheck wraps member to check for duplicate members, except within arguments.
func (r *paramsReader) withDuplicateCheck(member func(name []byte, val jsontext.Value)) func(name []byte, val jsontext.Value) {
	seen := map[string]bool{}
	return func(name []byte, val jsontext.Value) {
		if seen[string(name)] {
			r.fault(Pointer(string(name)), "is a duplicate member")
		}
		seen[string(name)] = true
		if string(name) != "arguments" {
			if _, err := jsontext.NewDecoder(bytes.NewBuffer(val)).ReadValue(); err != nil {
				for _, e := range syntaxErrors(err).Errors {
					r.fault(Pointer(string(name))+e.Path, e.Message)
				}
			}
		}
		member(name, val)
	}
}

// readObject calls member for each member of val, the required object at path. The syntax of val must be valid. It
// reports whether val is an object.
func (r *paramsReader) readObject(path string, val jsontext.Value, member func(name []byte, val jsontext.Value)) bool {
	switch {
	case len(val) == 0:
		r.fault(path, "is required")
		return false
	case val.Kind() != '{':
		r.fault(path, "must be an object")
		return false
	}
	return members(jsontext.NewDecoder(bytes.NewBuffer(val)), val, member) == nil
}

// members calls member for each member of the object that dec reads from raw.
func members(dec *jsontext.Decoder, raw []byte, member func(name []byte, val jsontext.Value)) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		quoted, err := dec.ReadValue()
		if err != nil {
			return err
		}
		end := dec.InputOffset()
		name, _ := codec.Unquote(raw[end-int64(len(quoted)) : end])
		val, err := dec.ReadValue()
		if err != nil {
			return err
		}
		member(name, val)
	}
	_, err := dec.ReadToken()
	return err
}

// requireText returns the text that was read at path. It records an error if the text is missing.
func (r *paramsReader) requireText(path string, text *string) string {
	if text != nil {
		return *text
	}
	for _, fault := range r.faults {
		if fault.Path == path {
			return ""
		}
	}
	r.fault(path, "is required")
	return ""
}

func (r *paramsReader) readText(path string, val jsontext.Value, into **string, nullable bool) {
	switch kind := val.Kind(); {
	case kind == '"':
		unquoted, _ := codec.Unquote(val)
		text := string(unquoted)
		*into = &text
	case kind == 'n' && nullable:
	case nullable:
		r.fault(path, "must be a string or null")
	default:
		r.fault(path, "must be a string")
	}
}

func (r *paramsReader) arguments(val jsontext.Value, into *json.RawMessage) {
	switch val.Kind() {
	case 'n':
	case '{':
		*into = json.RawMessage(bytes.Clone(val))
	default:
		r.fault("/arguments", "must be an object")
	}
}

// readInteger decodes an integer in any notation. The integer must be at least low, and null counts as absent.
func (r *paramsReader) readInteger(path string, val jsontext.Value, into **int64, low int64) {
	if val.Kind() == 'n' {
		return
	}
	n, ok := integerOf(val)
	switch {
	case !ok:
		r.fault(path, "must be an integer")
	case n < low:
		r.fault(path, "must be at least "+strconv.FormatInt(low, 10))
	default:
		*into = &n
	}
}

// integerOf returns the integer value of val, clamped to the range of int64.
func integerOf(val jsontext.Value) (int64, bool) {
	if val.Kind() != '0' {
		return 0, false
	}
	text := string(val)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	// The number has another notation or does not fit into int64. The precision of a double suffices for milliseconds
	// and counts, because servers reduce values above 2^53.
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case v >= math.MaxInt64:
		return math.MaxInt64, true
	case v <= math.MinInt64:
		return math.MinInt64, true
	case err != nil || v != math.Trunc(v):
		return 0, false
	}
	return int64(v), true
}
