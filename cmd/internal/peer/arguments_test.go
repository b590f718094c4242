package peer

import (
	"encoding/json"
	"strings"
	"testing"
)

// Arguments take the types of the schema; mistakes are explained with what the event takes.
func TestArguments(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"s":{"type":"string"},"n":{"type":"integer"},"b":{"type":"boolean"},"e":{"$ref":"#/$defs/E~1e"},
		"list":{"type":"array","items":{"type":"string"}},"maybe":{"type":["string","null"]},"any":{}},"required":["s"],"additionalProperties":false,"$defs":{"E/e":{"type":"string","enum":["x","y"]}}}`)
	for args, want := range map[string]string{
		"s=1":                       `{"s":"1"}`,
		"s=a=b":                     `{"s":"a=b"}`,
		"s= n=3 b=true e=x":         `{"b":true,"e":"x","n":3,"s":""}`,
		"s=a list=x list=y":         `{"list":["x","y"],"s":"a"}`,
		"s=a list=x":                `{"list":["x"],"s":"a"}`,
		`s=a list=["x"]`:            `{"list":["x"],"s":"a"}`,
		"s=a maybe=null any=1":      `{"any":"1","maybe":null,"s":"a"}`,
		"":                          "the arguments are not valid",
		"s=a n=x":                   "not a JSON integer",
		"s=a s=b":                   "given 2 times, but it is not an array",
		"s=a e=z":                   "/e",
		"s=a unknown=1":             "unknown",
		"s=a n=1.5":                 "any=value, b=boolean, e=x|y, list=array, maybe=string|null, n=integer, s=string (required)",
		"s=\x1b[2Jx unknown\x1b=1 ": `\x1b`,
	} {
		raw, err := Arguments(strings.Fields(args), schema)
		got := string(raw)
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%q: got %s, want %s", args, got, want)
		}
	}
}
