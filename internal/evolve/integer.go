package evolve

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// The rule here concerns integers that do not fit into int64, the Go type generated from the old schema. A schema
// without a bound does not exceed its type, so only explicit bounds and values count. Numbers beyond float64 cannot
// be published.

var (
	minInt64 = new(big.Rat).SetInt64(math.MinInt64)
	maxInt64 = new(big.Rat).SetInt64(math.MaxInt64)
)

func fitsInt64(v *big.Rat) bool { return v.Cmp(minInt64) >= 0 && v.Cmp(maxInt64) <= 0 }

// beyondInt64 returns the bounds or listed values of p that do not fit into int64.
func beyondInt64(p place) []*big.Rat {
	var out []*big.Rat
	if values, limited := p.values(); limited {
		for _, t := range sortedKeys(values) {
			if v, ok := schematree.Rational(values[t]); ok && !fitsInt64(v) {
				out = append(out, v)
			}
		}
		return out
	}
	for _, b := range []schematree.Bound{p.bound("minimum", "exclusiveMinimum", +1), p.bound("maximum", "exclusiveMaximum", -1)} {
		if b.At != nil && !fitsInt64(b.At) {
			out = append(out, b.At)
		}
	}
	return out
}

// listedAsFloats reports whether the variants list values of type number. The Go type of these values is float64,
// unless a float64 cannot represent one of the values exactly.
func listedAsFloats(variants []place) bool {
	typed := false
	for _, v := range variants {
		d := v.declaredTypes()
		typed = typed || d != schematree.AnyType && d&schematree.Fraction != 0
		values, _ := v.values()
		for _, n := range values {
			if r, ok := schematree.Rational(n); ok && losesPrecision(r) {
				return false
			}
		}
	}
	return typed
}

// losesPrecision reports whether the nearest float64 to r prints as a different number.
func losesPrecision(r *big.Rat) bool {
	f, _ := r.Float64()
	written, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return !ok || written.Cmp(r) != 0
}

// payloadIntegerOutgrown calls report if an integer of the new schema may not fit into the Go type of the old schema.
// Some old enums have a Go type that can hold any integer. Such an enum contains a large integer, values of several
// types, or integers of type number.
func payloadIntegerOutgrown(u union, report func(string)) {
	if of := unionTypes(u.old); of&schematree.Number != schematree.Integer || listedAsFloats(u.old) || slices.ContainsFunc(u.old, func(v place) bool {
		_, limited := v.values()
		return len(beyondInt64(v)) > 0 || limited && hasSeveral(v.types())
	}) {
		return
	}
	for _, v := range u.new {
		if v.types()&schematree.Integer == 0 {
			continue
		}
		if big := beyondInt64(v); len(big) > 0 {
			report(fmt.Sprintf("may now be %s, which an int64, the Go type made from the old schema, cannot hold", shortDecimal(big[len(big)-1])))
			return
		}
	}
}

// shortDecimal formats a number for a message.
func shortDecimal(r *big.Rat) string {
	if s := schematree.Decimal(r); len(s) <= 40 {
		return s
	}
	return new(big.Float).SetRat(r).Text('g', 6)
}
