package ir

import (
	"math"
	"math/big"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

var (
	minInt64 = new(big.Rat).SetInt64(math.MinInt64)
	maxInt64 = new(big.Rat).SetInt64(math.MaxInt64)
)

// exactNumber returns the value of a JSON number. For numbers beyond about 1e20 in magnitude, it returns false and a
// float that has at least the correct sign.
func exactNumber(text string) (*big.Rat, float64, bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(f) > 1e20 {
		return nil, f, false
	}
	if f == 0 {
		return new(big.Rat), 0, true
	}
	r, ok := new(big.Rat).SetString(text)
	return r, f, ok
}

// int64Of returns the value of a JSON number if it is a 64-bit integer.
func int64Of(text string) (int64, bool) {
	r, _, ok := exactNumber(text)
	if !ok || !r.IsInt() || !r.Num().IsInt64() {
		return 0, false
	}
	return r.Num().Int64(), true
}

// checkBounds reports integer schemas that allow values outside the range of int64.
func (b *builder) checkBounds(f *facts) {
	const hint = "x-go-type: encoding/json.Number or x-go-type: math/big.Int holds larger integers"
	low, high := false, false
	for _, k := range []string{"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"} {
		lower, sign := k == "minimum" || k == "exclusiveMinimum", -1
		if lower {
			sign = 1
		}
		v := f.tightestBound(k, sign)
		if v == nil {
			continue
		}
		r, approx, ok := exactNumber(v.Text)
		var within bool
		switch {
		case lower && ok:
			within = r.Cmp(minInt64) >= 0
		case ok:
			within = r.Cmp(maxInt64) <= 0 || k == "exclusiveMaximum" && r.Cmp(new(big.Rat).Add(maxInt64, big.NewRat(1, 1))) <= 0
		default:
			within = lower == (approx > 0)
		}
		if !within {
			b.report(source.New("MCPE205", v.Range, "%s %s is beyond int64", k, v.Text).WithHint(hint))
			return
		}
		low, high = low || lower, high || !lower
	}
	if format := f.keyword("format"); format != nil && (format.Text == "int64" || format.Text == "int32") {
		return
	}
	if !low || !high {
		b.report(source.New("MCPE204", f.node.Range, "the integer has no bounds; its Go type is int64").
			WithHint("say minimum and maximum, or format: int64; " + hint))
	}
}
