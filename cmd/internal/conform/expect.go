package conform

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// expectError checks that the response is an error of the given kind, in either code family (D2), and records the
// family.
func (r *run) expectError(x *exchange, kind wire.Kind) error {
	if len(r.barred) > 0 && isKind(x, wire.Forbidden) && x.refusal != nil {
		return x.refusal
	}
	expected := fmt.Sprintf("the error %s (%d or %d)", kind, wire.Sketch.Code(kind), wire.SEP.Code(kind))
	if wire.Sketch.Code(kind) == wire.SEP.Code(kind) {
		expected = fmt.Sprintf("the error %s (%d)", kind, wire.Sketch.Code(kind))
	}
	if x.answer.err == nil {
		return x.violation(expected, "%s", cmp.Or(wire.Shown(x.answer.method), "a result"))
	}
	code := x.answer.err.Code
	if code != wire.Sketch.Code(kind) && code != wire.SEP.Code(kind) {
		return x.violation(expected, "error %d", code)
	}
	if wire.Sketch.Code(kind) != wire.SEP.Code(kind) {
		family := wire.Sketch
		if code == wire.SEP.Code(kind) {
			family = wire.SEP
		}
		if r.errorsByFamily[family] == nil {
			r.errorsByFamily[family] = x
		}
	}
	return nil
}

// expectErrorData calls expectError and then checks members of the error's data.
func (r *run) expectErrorData(x *exchange, kind wire.Kind, data map[string]any) error {
	if err := r.expectError(x, kind); err != nil {
		return err
	}
	for name, want := range data {
		var got string
		if json.Unmarshal(member(x.answer.err.Data, name), &got) != nil || got != want {
			return x.violation(fmt.Sprintf("data with %q: %q", name, want), "data %s", orNone(x.answer.err.Data))
		}
	}
	return nil
}

func orNone(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "none"
	}
	return wire.Shown(string(raw))
}

// stringOrNull returns a member that must be present and either a string or null.
func stringOrNull(x *exchange, in json.RawMessage, name string) (*string, error) {
	raw := member(in, name)
	if raw == nil {
		return nil, x.violation(fmt.Sprintf("a member %q, a string or null", name), "none")
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, x.violation(fmt.Sprintf("%q to be a string or null", name), "%s", wire.Shown(string(raw)))
	}
	return s, nil
}

// boolMember returns a member that must be present and either true or false.
func boolMember(x *exchange, in json.RawMessage, name string) (bool, error) {
	raw := member(in, name)
	if s := string(raw); s != "true" && s != "false" {
		return false, x.violation(fmt.Sprintf("a member %q, true or false", name), "%s", orNone(raw))
	}
	return string(raw) == "true", nil
}
