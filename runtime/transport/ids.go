package transport

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// maxID is the maximum length of a request's JSON-RPC ID, in bytes as sent. An ID is kept as long as its request lives
// and is part of every frame of its stream.
const maxID = 1 << 10

// memberRequestID is the member of notifications/cancelled that names the call.
const memberRequestID = "requestId"

// isID reports whether a value can be the ID of a call.
func isID(value json.RawMessage) bool {
	kind := jsontext.Value(value).Kind()
	return (kind == '"' || kind == '0') && len(value) <= maxID
}

// maxNumber is the largest magnitude of a number that the SDK preserves in an ID: it decodes numbers as 64-bit floats.
const maxNumber = 1 << 53

// survives reports whether the SDK preserves an ID: a string of Unicode text, or a whole number within 53 bits, written
// without fraction and exponent.
func survives(raw json.RawMessage) bool {
	if raw[0] == '"' {
		_, err := jsontext.AppendUnquote(nil, raw)
		return err == nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return err == nil && n >= -maxNumber && n <= maxNumber && string(raw) != "-0"
}

// unfitID returns the error for a call of the SDK's methods with an ID that the SDK would alter (CAP-6).
func unfitID(id json.RawMessage) *malformed {
	return &malformed{code: jsonrpc.CodeInvalidRequest, id: id, reason: "/id " + wire.Shown(string(id)) + " cannot be kept for this method: " +
		"use a string, or a whole number between -2^53 and 2^53"}
}

// idKey returns a key that equal IDs share: the JSON type and the value (D14). 1, 1.0 and 10e-1 have the same key, "1"
// has another, and different numbers never share a key.
func idKey(raw json.RawMessage) string {
	if raw[0] == '"' {
		s, err := jsontext.AppendUnquote([]byte("s"), raw)
		if err != nil { // an unpaired surrogate: compare the raw text
			return "r" + string(raw)
		}
		return string(s)
	}
	if last := raw[len(raw)-1]; last != '0' && survives(raw) { // only digits, the usual case
		return "n" + string(raw) + "e0"
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(string(raw)), "e")
	sign := ""
	if mantissa[0] == '-' {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	significant := strings.TrimRight(digits, "0")
	if significant == "" {
		return "n0"
	}
	exp := new(big.Int) // the exponent may be as long as an ID
	if exponent != "" {
		exp.SetString(exponent, 10)
	}
	exp.Add(exp, big.NewInt(int64(len(digits)-len(significant)-len(fraction))))
	return "n" + sign + significant + "e" + exp.String()
}

// sdkID converts the JSON of an ID to the SDK's form. The result is invalid if value is not an ID.
func sdkID(value json.RawMessage) jsonrpc.ID {
	var v any
	if len(value) == 0 || json.Unmarshal(value, &v) != nil {
		return jsonrpc.ID{}
	}
	id, err := jsonrpc.MakeID(v)
	if err != nil {
		return jsonrpc.ID{}
	}
	return id
}
