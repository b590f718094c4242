package evolve

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
)

// The rule here is about integers that the Go type made from the old schema, an int64, cannot hold. A
// schema without a bound does not ask for more than its type holds, so only bounds and values that are
// written count. Numbers beyond float64 cannot be published at all.

var (
	minInt64 = new(big.Rat).SetInt64(math.MinInt64)
	maxInt64 = new(big.Rat).SetInt64(math.MaxInt64)
)

func fitsInt64(v *big.Rat) bool { return v.Cmp(minInt64) >= 0 && v.Cmp(maxInt64) <= 0 }

// beyondInt64 returns the numbers that are written in p and do not fit: its bounds, or its listed values.
func beyondInt64(p place) []*big.Rat {
	var out []*big.Rat
	if values, limited := p.values(); limited {
		for _, t := range sortedKeys(values) {
			if v, ok := rational(values[t]); ok && !fitsInt64(v) {
				out = append(out, v)
			}
		}
		return out
	}
	for _, b := range []bound{p.bound("minimum", "exclusiveMinimum", +1), p.bound("maximum", "exclusiveMaximum", -1)} {
		if b.at != nil && !fitsInt64(b.at) {
			out = append(out, b.at)
		}
	}
	return out
}

// listedAsFloats reports whether variants list numbers of type number, for which the Go type is a float64 unless that
// rounds one of them.
func listedAsFloats(variants []place) bool {
	typed := false
	for _, v := range variants {
		d := v.declared()
		typed = typed || d != anyType && d&fraction != 0
		values, _ := v.values()
		for _, n := range values {
			if r, ok := rational(n); ok && rounded(r) {
				return false
			}
		}
	}
	return typed
}

// rounded reports whether the float64 that is next to r is written as another number.
func rounded(r *big.Rat) bool {
	f, _ := r.Float64()
	written, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return !ok || written.Cmp(r) != 0
}

// payloadIntegerOutgrown finds an integer that does not fit into the type that the old schema led to. An
// old enum that lists such an integer itself or values of several types, or integers of type number, led to a type that
// holds any.
func payloadIntegerOutgrown(u union, report func(string)) {
	if of := unionTypes(u.old); of&(integer|fraction) != integer || listedAsFloats(u.old) || slices.ContainsFunc(u.old, func(v place) bool {
		_, limited := v.values()
		return len(beyondInt64(v)) > 0 || limited && v.types().several()
	}) {
		return
	}
	for _, v := range u.new {
		if v.types()&integer == 0 {
			continue
		}
		if big := beyondInt64(v); len(big) > 0 {
			report(fmt.Sprintf("may now be %s, which an int64, the Go type made from the old schema, cannot hold", shortDecimal(big[len(big)-1])))
			return
		}
	}
}

// shortDecimal writes a number for a message.
func shortDecimal(r *big.Rat) string {
	if s := decimal(r); len(s) <= 40 {
		return s
	}
	return new(big.Float).SetRat(r).Text('g', 6)
}
