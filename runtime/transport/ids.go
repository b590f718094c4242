package transport

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// maxID is the longest JSON-RPC id of a request, in bytes as sent. An id is kept for as long as its
// request lives and stands in every frame of its stream.
const maxID = 1 << 10

// The SDK decodes an id into a string or an int64, which loses the form of a string and the digits
// of a number (CAP-6). A call whose id would not survive that reaches the SDK under an alias: a
// string that holds the id's own bytes, a mark and perhaps a number that makes it unique. The bytes
// are put back into whatever the SDK writes. An id that has the mark itself always gets an alias, so
// that a string with the mark is one.
const aliasMark = '#'

// noCall makes an alias that no call over HTTP has.
const noCall = 1

// memberRequestID is the member of notifications/cancelled that names the call.
const memberRequestID = "requestId"

// isID reports whether a value is an id that a call could have.
func isID(value json.RawMessage) bool {
	kind := jsontext.Value(value).Kind()
	return (kind == '"' || kind == '0') && len(value) <= maxID
}

// aliasOf returns the alias of an id; n tells calls of equal ids apart and is left out when 0.
func aliasOf(raw json.RawMessage, n uint64) string {
	b := append(bytes.Clone(raw), aliasMark) // raw is a part of a message
	if n > 0 {
		b = strconv.AppendUint(b, n, 10)
	}
	return string(b)
}

// unalias returns the id of which s is the alias.
func unalias(s string) (json.RawMessage, bool) {
	i := strings.LastIndexByte(s, aliasMark)
	if i <= 0 {
		return nil, false
	}
	for _, c := range []byte(s[i+1:]) {
		if c < '0' || c > '9' {
			return nil, false
		}
	}
	return json.RawMessage(s[:i]), true
}

// aliasValue is an alias as JSON.
func aliasValue(alias string) json.RawMessage {
	b, _ := jsontext.AppendQuote(nil, alias) // what is invalid in it is replaced, and aliases are valid
	return b
}

// survives reports whether the SDK writes an id as it reads it.
func survives(raw json.RawMessage) bool {
	if raw[0] == '"' {
		for _, c := range raw[1 : len(raw)-1] {
			if c < ' ' || c > '~' || c == '\\' || c == aliasMark {
				return false
			}
		}
		return true
	}
	digits := raw
	if digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) > 15 || digits[0] == '0' && len(raw) > 1 { // 15 digits are below 2^53
		return false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// idKey is what equal ids have in common: the JSON type and the value (D14), so that 1, 1.0 and 10e-1
// are one id, "1" is another, and no two numbers that differ are taken for each other.
func idKey(raw json.RawMessage) string {
	if raw[0] == '"' {
		s, err := jsontext.AppendUnquote([]byte("s"), raw)
		if err != nil { // half a surrogate pair: no two are equal by what they decode to
			return "r" + string(raw)
		}
		return string(s)
	}
	if last := raw[len(raw)-1]; last != '0' && survives(raw) {
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
	exp := new(big.Int) // the exponent may have as many digits as an id
	if exponent != "" {
		exp.SetString(exponent, 10)
	}
	exp.Add(exp, big.NewInt(int64(len(digits)-len(significant)-len(fraction))))
	return "n" + sign + significant + "e" + exp.String()
}

// sdkID is an id as the SDK has it, from its JSON; an invalid one for what is no id.
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

// rawOf returns the bytes of the id that the SDK knows as id.
func rawOf(id jsonrpc.ID) json.RawMessage {
	if s, ok := id.Raw().(string); ok {
		if raw, ok := unalias(s); ok {
			return raw
		}
	}
	return encodeID(id)
}

// Places in a message of the SDK's at which an id stands.
var idPlaces = [][]string{{"id"}, {"params", "_meta", wire.MetaSubscriptionID}, {"result", "_meta", wire.MetaSubscriptionID}}

// restoreIDs puts the ids back into a message of the SDK's that has aliases in their places.
func restoreIDs(msg []byte) []byte {
	if bytes.IndexByte(msg, aliasMark) < 0 {
		return msg
	}
	for _, place := range idPlaces {
		start, end, ok := locate(msg, place...)
		if !ok {
			continue
		}
		if raw, ok := unalias(text(msg[start:end])); ok {
			msg = splice(msg, start, end, raw)
		}
	}
	return msg
}

// splice returns data with another text between start and end.
func splice(data []byte, start, end int, text []byte) []byte {
	out := make([]byte, 0, len(data)+len(text)-(end-start))
	out = append(out, data[:start]...)
	out = append(out, text...)
	return append(out, data[end:]...)
}
