package transport

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
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

// isPreservedID reports whether the SDK returns an ID byte for byte. It does so for strings of ASCII characters that it
// does not escape, and for integers of up to 53 bits that are written without a fraction or an exponent.
func isPreservedID(raw json.RawMessage) bool {
	if raw[0] == '"' {
		return !bytes.ContainsFunc(raw, func(c rune) bool { return c >= utf8.RuneSelf || strings.ContainsRune(`\<>&`, c) })
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return err == nil && n >= -maxNumber && n <= maxNumber && string(raw) != "-0"
}

// aliasPrefix begins the strings that the SDK receives instead of the IDs that it would alter (CAP-6). The rest of such
// an alias is the ID in hexadecimal. Clients cannot guess the prefix.
var aliasPrefix = "id-" + rand.Text() + "-"

// restoreIDs replaces each alias in a message of the SDK by its ID.
func restoreIDs(message []byte) []byte {
	for {
		before, after, found := bytes.Cut(message, []byte(`"`+aliasPrefix))
		if !found {
			return message
		}
		digits, rest, _ := bytes.Cut(after, []byte(`"`))
		id, err := hex.DecodeString(string(digits))
		if err != nil {
			return message
		}
		message = slices.Concat(before, id, rest)
	}
}

// An aliasWriter is the SDK's response to a call whose ID it would alter. The SDK writes whole messages.
type aliasWriter struct{ http.ResponseWriter }

// Unwrap gives response controllers access to flushing and deadlines.
func (w *aliasWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *aliasWriter) Write(p []byte) (int, error) {
	if _, err := w.ResponseWriter.Write(restoreIDs(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// cancelOfCall returns the params of a cancel, with the ID by which the SDK knows the call.
func cancelOfCall(params, call json.RawMessage) json.RawMessage {
	members := map[string]json.RawMessage{}
	_ = json.Unmarshal(params, &members) // they are an object, because they have a request ID
	members[memberRequestID], _ = json.Marshal(sdkID(call).Raw())
	b, _ := json.Marshal(members)
	return b
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

// sdkID converts an ID from JSON to the SDK's type, as an alias if the SDK would alter it. The result is invalid if
// value is not an ID.
func sdkID(value json.RawMessage) jsonrpc.ID {
	var v any
	if isID(value) && !isPreservedID(value) {
		v = aliasPrefix + hex.EncodeToString(value)
	} else if len(value) == 0 || json.Unmarshal(value, &v) != nil {
		return jsonrpc.ID{}
	}
	id, err := jsonrpc.MakeID(v)
	if err != nil {
		return jsonrpc.ID{}
	}
	return id
}
