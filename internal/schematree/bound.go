package schematree

import (
	"encoding/json"
	"math/big"
)

// A Bound is an end of a range of numbers or sizes. The zero value means no bound.
type Bound struct {
	At *big.Rat
	// Strict is set if the range does not include At.
	Strict bool
}

// TightestBound returns the tightest bound among the schemas of one value, and the value of the keyword that specifies
// it. exclusive is the keyword for strict bounds, or "". sign is +1 for a lower bound and -1 for an upper one.
func TightestBound[V Value[V]](schemas []V, inclusive, exclusive string, sign int) (tightest Bound, from V) {
	for _, n := range schemas {
		for _, keyword := range []string{inclusive, exclusive} {
			v, ok := n.Find(keyword)
			if !ok || keyword == "" {
				continue
			}
			at, _ := Rational(v.Value())
			if b := (Bound{at, keyword == exclusive}); b.IsTighterThan(tightest, sign) {
				tightest, from = b, v
			}
		}
	}
	return tightest, from
}

// IsTighterThan reports whether b excludes a value that the other bound allows.
func (b Bound) IsTighterThan(other Bound, sign int) bool {
	switch {
	case b.At == nil:
		return false
	case other.At == nil:
		return true
	}
	if c := b.At.Cmp(other.At) * sign; c != 0 {
		return c > 0
	}
	return b.Strict && !other.Strict
}

// String returns the bound in schema notation.
func (b Bound) String() string {
	if b.Strict {
		return Decimal(b.At) + " (exclusive)"
	}
	return Decimal(b.At)
}

// Rational returns the value of a number decoded by encoding/json with UseNumber.
func Rational(v any) (*big.Rat, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return nil, false
	}
	return new(big.Rat).SetString(string(n))
}

// Decimal returns the decimal notation of a JSON number.
func Decimal(r *big.Rat) string {
	digits, _ := r.FloatPrec() // exact: JSON numbers are decimals
	return r.FloatString(digits)
}
