package ingress

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/http/httpguts"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// errBody reports that a body is not an I-JSON object (RFC 7493). I-JSON forbids duplicate members and invalid UTF-8.
var errBody = errors.New("the body is not a JSON object of distinct members")

// decode parses a body and stores it in v. If a member has the wrong type, the error names the member.
func decode(body []byte, v any) error {
	body, err := checkBody(body)
	if err != nil {
		return err
	}
	err = jsonv2.Unmarshal(body, v)
	if err == nil {
		return nil
	}
	if sem, ok := errors.AsType[*jsonv2.SemanticError](err); ok && sem.JSONPointer != "" {
		return fmt.Errorf("%s has an unexpected type", string(sem.JSONPointer))
	}
	return errBody
}

// maxDepth is the maximum nesting depth of a body.
const maxDepth = 512

// checkBody checks that a body is a JSON object and not nested too deeply. Call it before any recursive decoding. It
// returns the body with U+FFFD in place of escaped lone surrogates.
func checkBody(body []byte) ([]byte, error) {
	if jsontext.NewDecoder(bytes.NewReader(body)).PeekKind() != '{' {
		return nil, errBody
	}
	return checkValue(body)
}

// checkValue is like checkBody, but accepts any JSON value.
func checkValue(body []byte) ([]byte, error) {
	body = codec.ReplaceLoneSurrogates(body)
	dec := jsontext.NewDecoder(bytes.NewReader(body))
	for {
		if _, err := dec.ReadToken(); err != nil {
			return nil, errBody
		}
		switch depth := dec.StackDepth(); {
		case depth > maxDepth:
			return nil, fmt.Errorf("the body is nested deeper than %d levels", maxDepth)
		case depth == 0:
			if len(bytes.TrimLeft(body[dec.InputOffset():], " \t\r\n")) > 0 {
				return nil, errBody
			}
			return body, nil
		}
	}
}

// parseArray parses a JSON array and returns its elements.
func parseArray(body []byte) ([]jsontext.Value, error) {
	body, err := checkValue(body)
	if err != nil {
		return nil, err
	}
	var items []jsontext.Value
	if jsonv2.Unmarshal(body, &items) != nil {
		return nil, errors.New("the body is not a JSON array")
	}
	return items, nil
}

// bodyID returns a hash of the body as an id for a delivery without an id. Deliveries with equal bodies have the same
// id.
func bodyID(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha256-" + hex.EncodeToString(sum[:16])
}

// parseTime parses a time from a service, in seconds since 1970 or in RFC 3339 format. It returns the zero time for any
// other value.
func parseTime(raw jsontext.Value) time.Time {
	switch raw.Kind() {
	case '0':
		// RFC 3339 cannot express years after 9999.
		if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil && n > 0 && n < 253402300800 {
			return time.Unix(n, 0).UTC()
		}
	case '"':
		var text string
		if jsonv2.Unmarshal(raw, &text) == nil {
			if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
				return t
			}
		}
	}
	return time.Time{}
}

// A document resolves JSON Pointers in a body. It parses each object along a pointer only once.
type document struct {
	body    jsontext.Value
	objects map[string]map[string]jsontext.Value // by pointer
}

func newDocument(body []byte) (*document, error) {
	body, err := checkBody(body)
	if err != nil {
		return nil, err
	}
	return &document{body: body, objects: map[string]map[string]jsontext.Value{}}, nil
}

// valueAt returns the value at a JSON Pointer, or nil if the pointer matches nothing.
func (d *document) valueAt(tokens []string) jsontext.Value {
	value, here := d.body, ""
	for i, token := range tokens {
		switch value.Kind() {
		case '{':
			members, ok := d.objects[here]
			if !ok {
				if jsonv2.Unmarshal(value, &members) != nil {
					return nil
				}
				d.objects[here] = members
			}
			if value = members[token]; value == nil {
				return nil
			}
		case '[':
			var items []jsontext.Value
			if jsonv2.Unmarshal(value, &items) != nil {
				return nil
			}
			if token == "*" {
				return collectValues(items, tokens[i+1:])
			}
			n, err := strconv.Atoi(token)
			if err != nil || n < 0 || n >= len(items) || strconv.Itoa(n) != token {
				return nil
			}
			value = items[n]
		default:
			return nil
		}
		here += wire.Pointer(token)
	}
	return value
}

// collectValues returns a JSON array of the values at a pointer within each element. It skips elements without a value.
func collectValues(items []jsontext.Value, rest []string) jsontext.Value {
	out := jsontext.Value("[")
	for _, item := range items {
		element := &document{body: item, objects: map[string]map[string]jsontext.Value{}}
		if v := element.valueAt(rest); v != nil {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, v...)
		}
	}
	return append(out, ']')
}

// textAt returns the text of the string or number at place, which is a JSON Pointer into the document or a header name.
// It returns "" if place has neither.
func (d *document) textAt(h http.Header, place string) string {
	if !strings.HasPrefix(place, "/") {
		return h.Get(place)
	}
	tokens, _ := wire.SplitPointer(place)
	switch value := d.valueAt(tokens); value.Kind() {
	case '"':
		var s string
		if jsonv2.Unmarshal(value, &s) == nil {
			return s
		}
	case '0':
		return string(value)
	}
	return ""
}

// checkPlace returns an error if place is neither a JSON Pointer nor the name of a header.
func checkPlace(place string) error {
	if strings.HasPrefix(place, "/") {
		if _, ok := wire.SplitPointer(place); !ok {
			return fmt.Errorf("%q is not a JSON Pointer", place)
		}
		return nil
	}
	if !httpguts.ValidHeaderFieldName(place) {
		return fmt.Errorf("%q is neither a JSON Pointer nor the name of a header", place)
	}
	return nil
}
