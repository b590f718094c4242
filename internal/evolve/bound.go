package evolve

import (
	"fmt"
	"math/big"
)

// A bound is an end of a range. The zero value means no bound.
type bound struct {
	at     *big.Rat
	strict bool
}

// bound returns the tightest bound that the two keywords specify. sign is +1 for a lower bound and -1 for an upper one.
// If p allows only integers, it converts an exclusive bound to an inclusive bound.
func (p place) bound(inclusive, exclusive string, sign int) bound {
	var out bound
	for _, n := range p {
		for _, keyword := range []string{inclusive, exclusive} {
			at, ok := rational(n.object()[keyword])
			if !ok {
				continue
			}
			b := bound{at, keyword == exclusive}
			if p.types()&fraction == 0 {
				b = b.overIntegers(sign)
			}
			if b.isTighterThan(out, sign) {
				out = b
			}
		}
	}
	return out
}

func (b bound) overIntegers(sign int) bound {
	floor := new(big.Int).Div(b.at.Num(), b.at.Denom()) // Euclidean: rounds down, denominators are positive
	up := sign > 0 && (!b.at.IsInt() || b.strict)
	if up {
		floor.Add(floor, big.NewInt(1))
	} else if sign < 0 && b.at.IsInt() && b.strict {
		floor.Sub(floor, big.NewInt(1))
	}
	return bound{at: new(big.Rat).SetInt(floor)}
}

// isTighterThan reports whether b excludes a value that the other bound allows.
func (b bound) isTighterThan(other bound, sign int) bool {
	switch {
	case b.at == nil:
		return false
	case other.at == nil:
		return true
	}
	if c := b.at.Cmp(other.at) * sign; c != 0 {
		return c > 0
	}
	return b.strict && !other.strict
}

// bounds lists the keywords for one-sided limits. Lower bounds have the sign +1 and are tighter if they are higher.
var bounds = []struct {
	inclusive, exclusive string
	sign                 int
	free                 int64 // where the bound has no effect: no length is below 0
}{
	{"minimum", "exclusiveMinimum", +1, -1},
	{"maximum", "exclusiveMaximum", -1, -1},
	{"minLength", "", +1, 0},
	{"maxLength", "", -1, -1},
	{"minItems", "", +1, 0},
	{"maxItems", "", -1, -1},
	{"minProperties", "", +1, 0},
	{"maxProperties", "", -1, -1},
	{"maxContains", "", -1, -1},
}

// eachTightenedBound calls report for each bound that is tighter in narrow than in wide.
func eachTightenedBound(wide, narrow place, report func(keyword string, wide, narrow bound)) {
	common := wide.types() & narrow.types()
	for _, b := range bounds {
		if !common.checkedBy(b.inclusive) {
			continue
		}
		w, n := wide.bound(b.inclusive, b.exclusive, b.sign), narrow.bound(b.inclusive, b.exclusive, b.sign)
		if b.free == 0 && n.at != nil && n.at.Sign() <= 0 {
			continue
		}
		if n.isTighterThan(w, b.sign) && !wide.valuesSatisfy(b.inclusive, n, b.sign) {
			report(b.inclusive, w, n)
		}
	}
}

// valuesSatisfy reports whether p lists its values and all of these values satisfy the limit.
func (p place) valuesSatisfy(keyword string, limit bound, sign int) bool {
	values, limited := p.values()
	for _, v := range values {
		var size *big.Rat
		switch keyword {
		case "minimum", "maximum":
			size, _ = rational(v)
		case "minLength", "maxLength":
			if s, ok := v.(string); ok {
				size = new(big.Rat).SetInt64(int64(len([]rune(s))))
			}
		default:
			return false
		}
		if size != nil && limit.isTighterThan(bound{at: size}, sign) {
			return false
		}
	}
	return limited
}

// eachTightenedStep calls report for each multipleOf of narrow that a value of wide can violate.
func eachTightenedStep(wide, narrow place, report func(step *big.Rat)) {
	if wide.types()&narrow.types()&(integer|fraction) == 0 {
		return
	}
	for _, n := range narrow {
		step, ok := rational(n.object()["multipleOf"])
		if !ok || step.Sign() <= 0 {
			continue
		}
		kept := wide.types()&fraction == 0 && new(big.Rat).Inv(step).IsInt() // all integers are multiples
		for _, w := range wide {
			if other, ok := rational(w.object()["multipleOf"]); ok && new(big.Rat).Quo(other, step).IsInt() {
				kept = true
			}
		}
		if !kept {
			report(step)
		}
	}
}

// addsUniqueItems reports whether narrow requires unique items and wide does not.
func addsUniqueItems(wide, narrow place) bool {
	return wide.types()&narrow.types()&array != 0 && narrow.keywordClosures("uniqueItems")["true"] && !wide.keywordClosures("uniqueItems")["true"]
}

func inputBoundTightened(p pair, report func(string, string)) {
	eachTightenedBound(p.old, p.new, func(keyword string, old, new bound) {
		if old.at == nil {
			report("", fmt.Sprintf("%s %s is new", keyword, new))
		} else {
			report("", fmt.Sprintf("%s went from %s to %s", keyword, old, new))
		}
	})
	if addsUniqueItems(p.old, p.new) {
		report("", "items must differ now")
	}
	eachTightenedStep(p.old, p.new, func(step *big.Rat) { report("", "must be a multiple of "+decimal(step)+" now") })
}

func payloadBoundRelaxed(p pair, report func(string, string)) {
	eachTightenedBound(p.new, p.old, func(keyword string, new, old bound) {
		if new.at == nil {
			report("", fmt.Sprintf("%s %s is gone", keyword, old))
		} else {
			report("", fmt.Sprintf("%s went from %s to %s", keyword, old, new))
		}
	})
	if addsUniqueItems(p.new, p.old) {
		report("", "items may be equal now")
	}
	eachTightenedStep(p.new, p.old, func(step *big.Rat) { report("", "need not be a multiple of "+decimal(step)+" any more") })
}

// String returns the bound in schema notation.
func (b bound) String() string {
	s := decimal(b.at)
	if b.strict {
		s += " (exclusive)"
	}
	return s
}

func decimal(r *big.Rat) string {
	digits, _ := r.FloatPrec() // exact: JSON numbers are decimals
	return r.FloatString(digits)
}
