package ir

import (
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// reportNoValue reports that no value satisfies the schema. at is the part that excludes the last remaining values.
func (b *builder) reportNoValue(f *facts, why string, at *source.Node) {
	d := source.New("MCPE215", f.node.Range, "no value satisfies the schema: %s", why)
	if at != nil && at.Range != f.node.Range {
		d = d.WithRelated(at.Range, "the contradiction is here")
	}
	b.report(d.WithHint("correct one of the schemas that meet here"))
}

// reportClash reports that type, enum and const exclude all values, and gives the reason.
func (b *builder) reportClash(f *facts) shape {
	if e := f.keyword("enum"); e != nil && len(e.Items) == 0 {
		b.report(source.New("MCPE215", e.Range, "no value satisfies the schema: its enum is empty").
			WithHint("list the values that are allowed, or leave enum out"))
		return shape{}
	}
	k := schematree.AnyType
	var lists []*source.Node
	for _, p := range f.parts {
		list, listed := ownValues(p)
		if listed {
			lists = append(lists, p)
			for _, v := range list {
				if w := declaredKinds(p); p.Get("type") != nil && kindOf(v)&w == 0 && v.Kind != source.Null {
					b.report(wrongType(v, w))
					return shape{}
				}
			}
		}
		w := declaredKinds(p)
		if k&w == 0 {
			b.reportNoValue(f, "type "+w.String()+" meets type "+k.String(), p.Get("type"))
			return shape{}
		}
		k &= w
	}
	why, at := "its enum and const have no value in common", f.clashingPart
	if len(lists) == 1 {
		why, at = "no value of the enum is of type "+k.String(), lists[0]
	} else if len(lists) > 1 {
		at = lists[len(lists)-1]
	}
	b.reportNoValue(f, why, at)
	return shape{}
}

// boundPairs lists pairs of keywords that exclude all values if the lower bound exceeds the upper bound.
var boundPairs = []struct {
	low, high string
	// open reports whether no value satisfies equal bounds.
	open bool
}{
	{"minimum", "maximum", false}, {"exclusiveMinimum", "maximum", true},
	{"minimum", "exclusiveMaximum", true}, {"exclusiveMinimum", "exclusiveMaximum", true},
	{"minLength", "maxLength", false}, {"minItems", "maxItems", false}, {"minProperties", "maxProperties", false},
}

// A boundConflict is a lower and an upper bound that no value satisfies.
type boundConflict struct {
	low, high       string
	lowest, highest *source.Node
}

// checkRanges returns false and reports a diagnostic if two bounds exclude all values.
func (b *builder) checkRanges(f *facts) bool {
	c := f.boundConflict()
	if c == nil {
		return true
	}
	b.reportNoValue(f, c.low+" "+c.lowest.Text+" meets "+c.high+" "+c.highest.Text, c.highest)
	return false
}

// boundConflict returns the first pair of bounds that excludes all values, or nil.
func (f *facts) boundConflict() *boundConflict {
	for _, r := range boundPairs {
		if k, _ := schematree.Any.Keyword(r.low); f.kinds&^k.Checks != 0 {
			continue
		}
		low, high := f.tightestBound(r.low, 1), f.tightestBound(r.high, -1)
		if low == nil || high == nil {
			continue
		}
		x, _, okX := exactNumber(low.Text)
		y, _, okY := exactNumber(high.Text)
		if !okX || !okY {
			continue
		}
		if c := x.Cmp(y); c > 0 || c == 0 && r.open {
			return &boundConflict{r.low, r.high, low, high}
		}
	}
	return nil
}

// tightestBound returns the largest (sign 1) or smallest (sign -1) value of a keyword in the parts.
func (f *facts) tightestBound(keyword string, sign int) *source.Node {
	_, n := schematree.TightestBound(f.parts, keyword, "", sign)
	return n
}
