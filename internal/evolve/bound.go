package evolve

import (
	"fmt"
	"math/big"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// bound returns the tightest bound that the two keywords specify. sign is +1 for a lower bound and -1 for an upper one.
// If p allows only integers, it converts an exclusive bound to an inclusive bound.
func (p place) bound(inclusive, exclusive string, sign int) schematree.Bound {
	b, _ := schematree.TightestBound(p, inclusive, exclusive, sign)
	if b.At == nil || p.types()&schematree.Fraction != 0 {
		return b
	}
	floor := new(big.Int).Div(b.At.Num(), b.At.Denom()) // Euclidean: rounds down, denominators are positive
	up := sign > 0 && (!b.At.IsInt() || b.Strict)
	if up {
		floor.Add(floor, big.NewInt(1))
	} else if sign < 0 && b.At.IsInt() && b.Strict {
		floor.Sub(floor, big.NewInt(1))
	}
	return schematree.Bound{At: new(big.Rat).SetInt(floor)}
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
func eachTightenedBound(wide, narrow place, report func(keyword string, wide, narrow schematree.Bound)) {
	common := wide.types() & narrow.types()
	for _, b := range bounds {
		if !checks(b.inclusive, common) {
			continue
		}
		w, n := wide.bound(b.inclusive, b.exclusive, b.sign), narrow.bound(b.inclusive, b.exclusive, b.sign)
		if b.free == 0 && n.At != nil && n.At.Sign() <= 0 {
			continue
		}
		if n.IsTighterThan(w, b.sign) && !wide.valuesSatisfy(b.inclusive, n, b.sign) {
			report(b.inclusive, w, n)
		}
	}
}

// valuesSatisfy reports whether p lists its values and all of these values satisfy the limit.
func (p place) valuesSatisfy(keyword string, limit schematree.Bound, sign int) bool {
	values, limited := p.values()
	for _, v := range values {
		var size *big.Rat
		switch keyword {
		case "minimum", "maximum":
			size, _ = schematree.Rational(v)
		case "minLength", "maxLength":
			if s, ok := v.(string); ok {
				size = new(big.Rat).SetInt64(int64(len([]rune(s))))
			}
		default:
			return false
		}
		if size != nil && limit.IsTighterThan(schematree.Bound{At: size}, sign) {
			return false
		}
	}
	return limited
}

// eachTightenedStep calls report for each multipleOf of narrow that a value of wide can violate.
func eachTightenedStep(wide, narrow place, report func(step *big.Rat)) {
	if wide.types()&narrow.types()&schematree.Number == 0 {
		return
	}
	for _, n := range narrow {
		step, ok := schematree.Rational(n.object()["multipleOf"])
		if !ok || step.Sign() <= 0 {
			continue
		}
		kept := wide.types()&schematree.Fraction == 0 && new(big.Rat).Inv(step).IsInt() // all integers are multiples
		for _, w := range wide {
			if other, ok := schematree.Rational(w.object()["multipleOf"]); ok && new(big.Rat).Quo(other, step).IsInt() {
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
	return wide.types()&narrow.types()&schematree.Array != 0 && narrow.keywordClosures("uniqueItems")["true"] && !wide.keywordClosures("uniqueItems")["true"]
}

func inputBoundTightened(p pair, report func(string, string)) {
	eachTightenedBound(p.old, p.new, func(keyword string, old, new schematree.Bound) {
		if old.At == nil {
			report("", fmt.Sprintf("%s %s is new", keyword, new))
		} else {
			report("", fmt.Sprintf("%s went from %s to %s", keyword, old, new))
		}
	})
	if addsUniqueItems(p.old, p.new) {
		report("", "items must differ now")
	}
	eachTightenedStep(p.old, p.new, func(step *big.Rat) { report("", "must be a multiple of "+schematree.Decimal(step)+" now") })
}

func payloadBoundRelaxed(p pair, report func(string, string)) {
	eachTightenedBound(p.new, p.old, func(keyword string, new, old schematree.Bound) {
		if new.At == nil {
			report("", fmt.Sprintf("%s %s is gone", keyword, old))
		} else {
			report("", fmt.Sprintf("%s went from %s to %s", keyword, old, new))
		}
	})
	if addsUniqueItems(p.new, p.old) {
		report("", "items may be equal now")
	}
	eachTightenedStep(p.new, p.old, func(step *big.Rat) { report("", "need not be a multiple of "+schematree.Decimal(step)+" any more") })
}
