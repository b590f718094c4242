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

// maxID is the maximum length of a JSON-RPC request ID in bytes, as sent. The ID is stored until the request ends and
// is part of every frame of its stream.
const maxID = 1 << 10

// memberRequestID is the member of notifications/cancelled that contains the ID of the call.
const memberRequestID = "requestId"

// isID reports whether a value is a valid call ID.
func isID(value json.RawMessage) bool {
	kind := jsontext.Value(value).Kind()
	return (kind == '"' || kind == '0') && len(value) <= maxID
}

// maxNumber is the largest absolute value of a number that the SDK preserves in an ID. The SDK decodes numbers as
// float64.
const maxNumber = 1 << 53

// isPreservedID reports whether the SDK preserves an ID. It preserves strings of valid Unicode, and integers of up to
// 53 bits that are written without a fraction or an exponent.
func isPreservedID(raw json.RawMessage) bool {
	if raw[0] == '"' {
		_, err := jsontext.AppendUnquote(nil, raw)
		return err == nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return err == nil && n >= -maxNumber && n <= maxNumber && string(raw) != "-0"
}

// invalidIDError returns the error for a call to an SDK method with an ID that the SDK would alter (CAP-6).
func invalidIDError(id json.RawMessage) *malformedError {
	return &malformedError{code: jsonrpc.CodeInvalidRequest, id: id, reason: "/id " + wire.Shown(string(id)) + " cannot be kept for this method: " +
		"use a string, or a whole number between -2^53 and 2^53"}
}

// idKey returns a key for comparing IDs by JSON type and value (D14). The IDs 1, 1.0 and 10e-1 have the same key, but
// the ID "1" has a different key. Different numbers never have the same key.
func idKey(raw json.RawMessage) string {
	if raw[0] == '"' {
		s, err := jsontext.AppendUnquote([]byte("s"), raw)
		if err != nil { // an unpaired surrogate: compare the raw text
			return "r" + string(raw)
		}
		return string(s)
	}
	if last := raw[len(raw)-1]; last != '0' && isPreservedID(raw) { // only digits, the usual case
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

// sdkID converts an ID from JSON to the SDK's type. The result is invalid if value is not an ID.
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
