package gen_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen"
)

// An enum that writes one value in two ways has one constant of it, and the code compiles.
func TestEqualEnumValuesAreOneConstant(t *testing.T) {
	c := newChecker(t)
	for values, want := range map[string]int{
		`1, 1.0, 2`: 2, `1, 1e0, 10e-1, 2`: 2, `1.5, 15e-1, 2`: 2, `0, -0, 0.0, 2`: 2, `100, 1e2, 1.00E+2, 2`: 2,
		`"a", "\u0061", "b"`: 2, `"one", 1, 1.0`: 2, `{"a": 1, "b": 2}, {"b": 2.0, "a": 1e0}, 3`: 2, `[1, 2], [1.0, 2e0], 3`: 2,
		`1152921504606846976, 1152921504606846976.0, 2`: 2, `9007199254740993, 9007199254740992`: 2,
	} {
		doc := fmt.Sprintf(`{"version": 1, "package": "p", "events": [{"name": "e", "description": "d", "inputSchema": {"type": "object"},
			"payloadSchema": {"type": "object", "properties": {"a": {"enum": [%s]}}, "required": ["a"]}}]}`, values)
		if accepted, wrong := c.check(t.Context(), []byte(doc)); wrong != nil || !accepted {
			t.Errorf("enum [%s]: accepted %t, %v", values, accepted, wrong)
			continue
		}
		p, _, err := gen.Generate(t.Context(), gen.Request{Dir: c.dir, Files: []string{"e.json"}, Out: "p", Emit: []string{"types"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(p.Create[0].Content), " EPayloadA = "); got != want {
			t.Errorf("enum [%s]: %d constants, want %d:\n%s", values, got, want, p.Create[0].Content)
		}
	}
}
