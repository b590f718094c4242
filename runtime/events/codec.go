package events

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
)

// maxDepth is the maximum nesting depth that decode accepts. The UnmarshalJSON methods of nested generated types scan
// the same bytes again, so the cost of decoding is proportional to the size times the depth.
const maxDepth = 1000

// A DecodeError describes a failure to decode a member of a JSON document.
type DecodeError struct {
	// Pointer is the JSON Pointer (RFC 6901) of the member; "" is the whole document.
	Pointer string
	// Err is the cause.
	Err error
}

// Error returns the pointer and the cause.
func (e *DecodeError) Error() string {
	if e.Pointer == "" {
		return "events: decode: " + e.Err.Error()
	}
	return "events: decode " + e.Pointer + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }

func init() { codec.Decode, codec.Encode = decode, encode }

// decode implements [codec.Decode].
func decode(data []byte, v any) error {
	if err := checkDepth(data); err != nil {
		return err
	}
	opts := json.DefaultOptionsV2()
	if traitsOf(reflect.TypeOf(v)).number {
		opts = decodeNumberOptions
	}
	err := json.Unmarshal(data, v, opts)
	if err == nil {
		return nil
	}
	if wantsWideIntegers(err) {
		// Integers in another notation are rare: a second pass over the whole document costs
		// less than a check of every value in the first pass.
		if err = json.Unmarshal(data, v, decodeWideOptions); err == nil {
			return nil
		}
	}
	return decodeError(err)
}

var (
	decodeNumberOptions = json.WithUnmarshalers(json.UnmarshalFromFunc(readNumber))
	decodeWideOptions   = json.WithUnmarshalers(json.JoinUnmarshalers(
		json.UnmarshalFromFunc(readNumber), json.UnmarshalFromFunc(readWideInteger)))
	encodeOptions       = json.Deterministic(true)
	encodeNumberOptions = json.JoinOptions(encodeOptions, json.WithMarshalers(json.MarshalToFunc(writeNumber)))
)

// checkDepth returns an error if data is nested deeper than maxDepth. It must be called before any recursive decoding.
func checkDepth(data []byte) error {
	if codec.Deeper(data, maxDepth) {
		return &DecodeError{Err: fmt.Errorf("nested deeper than %d levels", maxDepth)}
	}
	return nil
}

// traits records which special types a type contains. They require options, which have a cost for each value.
type traits struct {
	number bool // contains a json.Number
	open   bool // contains an interface, which can hold any type
}

var knownTraits sync.Map // reflect.Type to traits

func traitsOf(t reflect.Type) traits {
	if t == nil {
		return traits{}
	}
	if known, ok := knownTraits.Load(t); ok {
		return known.(traits)
	}
	var found traits
	walkTypes(t, map[reflect.Type]bool{}, &found)
	knownTraits.Store(t, found)
	return found
}

func walkTypes(t reflect.Type, seen map[reflect.Type]bool, found *traits) {
	if seen[t] {
		return
	}
	seen[t] = true
	if t == numberType {
		found.number = true
		return
	}
	switch t.Kind() {
	case reflect.Interface:
		found.open = true
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		walkTypes(t.Elem(), seen, found)
	case reflect.Struct:
		// Include unexported fields, because Optional stores its value in one.
		for i := range t.NumField() {
			walkTypes(t.Field(i).Type, seen, found)
		}
	}
}

var (
	numberType = reflect.TypeFor[stdjson.Number]()
	bigIntType = reflect.TypeFor[big.Int]()
)

// readNumber decodes a json.Number. By default, the codec treats it as a string.
func readNumber(dec *jsontext.Decoder, n *stdjson.Number) error {
	switch dec.PeekKind() {
	case '0':
		val, err := dec.ReadValue()
		*n = stdjson.Number(val)
		return err
	case 'n':
		*n = ""
		return dec.SkipValue()
	}
	return errNotNumber
}

func writeNumber(enc *jsontext.Encoder, n stdjson.Number) error {
	if n == "" {
		n = "0" // like encoding/json
	}
	if val := jsontext.Value(n); val.Kind() == '0' && val.IsValid() {
		return enc.WriteValue(val)
	}
	return fmt.Errorf("%q is not a JSON number", codec.Clip(string(n)))
}

var (
	errNotNumber  = errors.New("not a number")
	errNotInteger = errors.New("not an integer")
	errOutOfRange = errors.New("out of range")
)

// wantsWideIntegers reports whether err means that an integer type rejected a number because of its notation, such as
// 1e3.
func wantsWideIntegers(err error) bool {
	sem := (*json.SemanticError)(nil)
	if !errors.As(err, &sem) || sem.GoType == nil {
		return false
	}
	return sem.GoType == bigIntType || sem.Err == strconv.ErrSyntax && isInteger(sem.GoType.Kind())
}

func isInteger(k reflect.Kind) bool { return k >= reflect.Int && k <= reflect.Uintptr }

var unmarshalers = []reflect.Type{
	reflect.TypeFor[json.UnmarshalerFrom](), reflect.TypeFor[json.Unmarshaler](),
}

// readWideInteger decodes integers in any notation into Go integer types, including named types, and into big.Int.
func readWideInteger(dec *jsontext.Decoder, v any) error {
	target := reflect.ValueOf(v).Elem()
	t := target.Type()
	if dec.PeekKind() != '0' || t != bigIntType && !isInteger(t.Kind()) {
		return errors.ErrUnsupported
	}
	if t != bigIntType {
		for _, u := range unmarshalers {
			if reflect.PointerTo(t).Implements(u) {
				return errors.ErrUnsupported
			}
		}
	}
	val, err := dec.ReadValue()
	if err != nil {
		return err
	}
	text, err := plainInteger(string(val))
	if err != nil {
		return fmt.Errorf("%s is %w", codec.Clip(string(val)), err)
	}
	switch {
	case t == bigIntType:
		n, _ := new(big.Int).SetString(text, 10)
		v.(*big.Int).Set(n)
	case target.CanInt():
		n, err := strconv.ParseInt(text, 10, t.Bits())
		if err != nil {
			return fmt.Errorf("%s is %w", codec.Clip(string(val)), errOutOfRange)
		}
		target.SetInt(n)
	default:
		n, err := strconv.ParseUint(text, 10, t.Bits())
		if err != nil {
			return fmt.Errorf("%s is %w", codec.Clip(string(val)), errOutOfRange)
		}
		target.SetUint(n)
	}
	return nil
}

// maxDigits is the maximum number of zeros that are added to an integer to expand its exponent.
const maxDigits = 10_000

// plainInteger converts an integral JSON number to a form without a fraction or exponent.
func plainInteger(number string) (string, error) {
	rest, negative := strings.CutPrefix(number, "-")
	mantissa, exponent := rest, 0
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		mantissa = rest[:i]
		n, err := strconv.Atoi(strings.TrimPrefix(rest[i+1:], "+"))
		if err != nil {
			n = maxDigits * 100
			if rest[i+1] == '-' {
				n = -n
			}
		}
		exponent = n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent -= len(fraction)
	if trimmed := strings.TrimRight(digits, "0"); trimmed == "" {
		return "0", nil
	} else if exponent < 0 {
		exponent += len(digits) - len(trimmed)
		if exponent < 0 {
			return "", errNotInteger
		}
		digits = trimmed
	}
	if exponent > maxDigits {
		return "", errOutOfRange
	}
	digits += strings.Repeat("0", exponent)
	if negative {
		digits = "-" + digits
	}
	return digits, nil
}

func decodeError(err error) error {
	if sem := (*json.SemanticError)(nil); errors.As(err, &sem) {
		pointer, cause := string(sem.JSONPointer), sem.Err
		if inner, ok := cause.(*DecodeError); ok { // from the UnmarshalJSON of a nested type
			return &DecodeError{Pointer: pointer + inner.Pointer, Err: inner.Err}
		}
		return &DecodeError{Pointer: pointer, Err: describe(sem)}
	}
	if syn := (*jsontext.SyntacticError)(nil); errors.As(err, &syn) {
		return &DecodeError{Pointer: string(syn.JSONPointer), Err: syn.Err}
	}
	return &DecodeError{Err: err}
}

func describe(sem *json.SemanticError) error {
	integer := sem.GoType != nil && isInteger(sem.GoType.Kind())
	switch {
	case sem.Err == strconv.ErrSyntax && integer:
		return fmt.Errorf("%s is %w", codec.Clip(string(sem.JSONValue)), errNotInteger)
	case sem.Err == strconv.ErrRange:
		return fmt.Errorf("%s is %w", codec.Clip(string(sem.JSONValue)), errOutOfRange)
	case sem.Err != nil:
		return sem.Err
	}
	got, want := nameOf(sem.JSONKind), "another type"
	if sem.GoType != nil {
		want = jsonTypeOf(sem.GoType)
	}
	return fmt.Errorf("got %s, want %s", got, want)
}

// nameOf returns the name of a JSON kind in JSON Schema.
func nameOf(k jsontext.Kind) string {
	switch k {
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "boolean"
	}
	return k.String()
}

func jsonTypeOf(t reflect.Type) string {
	switch k := t.Kind(); {
	case k == reflect.Bool:
		return "boolean"
	case isInteger(k):
		return "integer"
	case k == reflect.Float32 || k == reflect.Float64:
		return "number"
	case k == reflect.String, k == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return "string"
	case k == reflect.Slice || k == reflect.Array:
		return "array"
	case k == reflect.Map || k == reflect.Struct:
		return "object"
	case k == reflect.Pointer:
		return jsonTypeOf(t.Elem())
	}
	return "another type"
}
