package evolve_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/evolve"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

func reasons(old, new string) []string {
	var all []string
	for _, c := range evolve.Differences(wire.Descriptor{InputSchema: []byte(old), PayloadSchema: []byte(old)}, wire.Descriptor{InputSchema: []byte(new), PayloadSchema: []byte(new)}) {
		all = append(all, c.String())
	}
	return all
}

// What nothing describes is compared apart from the whole schema: a new argument that takes any value claims nothing.
func TestAnyValueClaimsNothing(t *testing.T) {
	got := reasons(`{"oneOf":[{"type":"integer"},{"minimum":2}]}`,
		`{"oneOf":[{"properties":{"bar":{}},"required":["bar"]},{"properties":{"foo":{}},"required":["foo"]}]}`)
	if len(got) == 0 || slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "callers could already send") }) {
		t.Errorf("%q", got)
	}
}

// A union that a schema refers to twice is still the one union with a discriminator.
func TestUnionReachedTwice(t *testing.T) {
	union := func(tag string) string {
		return `{"allOf":[{"$ref":"#/$defs/U"},{"allOf":[{"$ref":"#/$defs/U"}]}],"$defs":{
			"U":{"discriminator":{"propertyName":"kind"},"oneOf":[{"$ref":"#/$defs/A"},{"$ref":"#/$defs/B"}]},
			"A":{"type":"object","properties":{"kind":{"const":"` + tag + `"}},"required":["kind"]},
			"B":{"type":"object","properties":{"kind":{"const":"b"}},"required":["kind"]}}}`
	}
	want := `payloadSchema: the variant tagged "a" is tagged "c" now`
	if got := reasons(union("a"), union("c")); !slices.Contains(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}
