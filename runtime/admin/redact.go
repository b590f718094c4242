package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// redacted replaces a redacted value.
const redacted = "[redacted]"

// A redaction contains the reference tokens of each JSON Pointer to redact.
type redaction [][]string

func readRedaction(pointers []string) (r redaction, err error) {
	for _, p := range pointers {
		if !jsontext.Pointer(p).IsValid() {
			return nil, fmt.Errorf("%q is not a JSON Pointer", p)
		}
		var tokens []string
		for token := range jsontext.Pointer(p).Tokens() {
			tokens = append(tokens, token)
		}
		r = append(r, tokens)
	}
	return r, nil
}

// apply returns a payload with the redacted values replaced.
func (r redaction) apply(data json.RawMessage) json.RawMessage {
	if len(r) == 0 || data == nil {
		return data
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // keep numbers as written
	if d.Decode(&v) != nil {
		return nil
	}
	for _, tokens := range r {
		v = without(v, tokens)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}

func without(v any, tokens []string) any {
	if len(tokens) == 0 {
		return redacted
	}
	switch at := v.(type) {
	case map[string]any:
		if member, ok := at[tokens[0]]; ok {
			at[tokens[0]] = without(member, tokens[1:])
		}
	case []any:
		if i, err := strconv.Atoi(tokens[0]); err == nil && i >= 0 && i < len(at) {
			at[i] = without(at[i], tokens[1:])
		}
	}
	return v
}
