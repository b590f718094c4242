package golang

import (
	"slices"
	"strconv"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
)

// Q11: the values of a large enum are sorted as Go compares them, whatever their literals look like.
func TestCompareLiterals(t *testing.T) {
	for base, want := range map[ir.Kind][]string{
		ir.String:  {`""`, `"A"`, `"a"`, `"a\tb"`, `"ab"`, `"\u00e9"`, `"\U0001F600"`},
		ir.Int64:   {"-9223372036854775808", "-10", "-9", "0", "9", "10", "9223372036854775807"},
		ir.Float64: {"-1e300", "-0.5", "0", "1.5", "9", "10", "1e300"},
	} {
		got := slices.Clone(want)
		slices.Reverse(got)
		slices.SortFunc(got, func(a, b string) int { return compareLiterals(base, a, b) })
		if !slices.Equal(got, want) {
			t.Errorf("%v: %q", base, got)
		}
	}
	var texts []string
	for _, l := range []string{`""`, `"A"`, `"a"`, `"a\tb"`, `"ab"`, `"\u00e9"`, `"\U0001F600"`} {
		s, err := strconv.Unquote(l)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, s)
	}
	if !slices.IsSorted(texts) {
		t.Errorf("Go does not sort %q so", texts)
	}
}
