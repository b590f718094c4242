package evolve

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// A Rule finds one kind of difference.
type Rule struct {
	// ID names the rule in output and in exceptions.
	ID string
	// Category says whom such a change breaks.
	Category Category
	// Purpose is a sentence for people.
	Purpose string
	// Features are the schemas that the rule is about.
	Features []string
	// Live says that such a change ends live subscriptions (EVOL-2).
	Live bool
}

func (r Rule) covers(feature string) bool { return slices.Contains(r.Features, feature) }

// A rule is a Rule with its function: over all variants of a place, or over an old variant and a
// new one.
type rule struct {
	Rule
	union   func(u union, report func(reason string))
	variant func(p pair, report func(below, reason string))
}

// A union holds the variants that a value of one place could have before and after.
type union struct{ old, new []place }

// A pair is an old variant and the new one that it is held against.
type pair struct{ old, new place }

const incomparable = "SCHEMA_INCOMPARABLE"

var (
	both    = []string{InputSchema, PayloadSchema}
	input   = []string{InputSchema}
	payload = []string{PayloadSchema}
)

var rules = []rule{
	{
		Rule:  Rule{"VALUE_FORBIDDEN", Wire, "A value that could be there has no valid form any more.", both, true},
		union: valueForbidden,
	},
	{
		Rule:  Rule{"INPUT_TYPE_NARROWED", Wire, "An argument no longer accepts a type that it accepted.", input, true},
		union: inputTypeNarrowed,
	},
	{
		Rule:  Rule{"PAYLOAD_TYPE_CHANGED", Wire, "A payload field may have a type that it could not have.", payload, true},
		union: payloadTypeChanged,
	},
	{
		Rule:    Rule{"TYPE_REMOVED", Wire, "A variant's type is gone.", both, true},
		variant: typeRemoved,
	},
	{
		Rule:    Rule{"FIELD_REMOVED", Wire, "A field was removed or renamed.", both, true},
		variant: fieldRemoved,
	},
	{
		Rule:    Rule{"ENUM_NARROWED", Wire, "An enum or const lost a value.", both, true},
		variant: enumNarrowed,
	},
	{
		Rule:    Rule{"PAYLOAD_FORMAT_CHANGED", Wire, "A payload field lost or changed its format or encoding.", payload, true},
		variant: payloadFormatChanged,
	},
	{
		Rule:    Rule{"INPUT_ENUM_ADDED", Wire, "An argument that was free accepts listed values only.", input, true},
		variant: inputEnumAdded,
	},
	{
		Rule:    Rule{"INPUT_REQUIRED_ADDED", Wire, "An argument became required.", input, true},
		variant: inputRequiredAdded,
	},
	{
		Rule:    Rule{"INPUT_CLOSED", Wire, "Arguments that are not declared are no longer accepted.", input, true},
		variant: inputClosed,
	},
	{
		Rule:    Rule{"INPUT_BOUND_TIGHTENED", Wire, "A bound on an argument was added or tightened.", input, true},
		variant: inputBoundTightened,
	},
	{
		Rule:    Rule{"INPUT_CONSTRAINT_ADDED", Wire, "A constraint on an argument was added or changed in a way that cannot be ordered.", input, true},
		variant: inputConstraintAdded,
	},
	{
		Rule:    Rule{incomparable, Wire, "A reference leads out of the schema and changed.", both, true},
		variant: foreignReference,
	},
}

func unionTypes(variants []place) types {
	var t types
	for _, v := range variants {
		t |= v.types()
	}
	return t
}

func valueForbidden(u union, report func(string)) {
	if len(u.new) == 0 {
		report("no value is valid here any more")
	}
}

func inputTypeNarrowed(u union, report func(string)) {
	if lost := unionTypes(u.old) &^ unionTypes(u.new); lost != 0 && len(u.new) > 0 {
		report(fmt.Sprintf("no longer accepts %v", lost))
	}
}

func payloadTypeChanged(u union, report func(string)) {
	if gained := unionTypes(u.new) &^ unionTypes(u.old); gained != 0 {
		report(fmt.Sprintf("was %v and may now be %v", unionTypes(u.old), gained))
	}
}

func typeRemoved(p pair, report func(string, string)) {
	if p.old.types()&p.new.types() == 0 {
		report("", fmt.Sprintf("was %v and is %v", p.old.types(), p.new.types()))
	}
}

func fieldRemoved(p pair, report func(string, string)) {
	if p.old.types()&p.new.types()&object == 0 {
		return
	}
	kept := p.new.properties()
	for _, name := range p.old.properties() {
		if !slices.Contains(kept, name) {
			report(wire.Pointer("properties", name), "field removed or renamed")
		}
	}
	if p.old.mapped() && p.new.closed() {
		report("/additionalProperties", "members of any name removed")
	}
}

func enumNarrowed(p pair, report func(string, string)) {
	old, ok1 := listed(p.old)
	new, ok2 := p.new.values()
	if !ok1 || !ok2 {
		return
	}
	var lost []string
	for t := range old {
		if _, ok := new[t]; !ok {
			lost = append(lost, shown(old[t]))
		}
	}
	if len(lost) > 0 {
		slices.Sort(lost)
		report("", "no longer has "+strings.Join(lost, ", "))
	}
}

// listed returns the values of a place that has finitely many.
func listed(p place) (map[string]any, bool) {
	if values, ok := p.values(); ok {
		return values, true
	}
	t := p.types()
	if t&^(null|boolean) != 0 {
		return nil, false
	}
	var all []any
	if t&null != 0 {
		all = append(all, nil)
	}
	if t&boolean != 0 {
		all = append(all, false, true)
	}
	return intersect(nil, all), true
}

func shown(v any) string {
	s := fmt.Sprint(v)
	if t, ok := v.(string); ok {
		s = fmt.Sprintf("%q", t)
	} else if v == nil {
		s = "null"
	}
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return s
}

func payloadFormatChanged(p pair, report func(string, string)) {
	if p.old.types()&p.new.types()&str == 0 {
		return
	}
	for _, keyword := range []string{"format", "contentEncoding"} {
		for was := range p.old.texts(keyword) {
			if !p.new.texts(keyword)[was] {
				report("", keyword+" was "+was)
			}
		}
	}
}

func inputEnumAdded(p pair, report func(string, string)) {
	_, before := listed(p.old)
	if values, now := p.new.values(); now && !before {
		report("", fmt.Sprintf("accepts %d listed values only", len(values)))
	}
}

func inputRequiredAdded(p pair, report func(string, string)) {
	if p.old.types()&p.new.types()&object == 0 {
		return
	}
	before := p.old.required()
	for _, name := range slices.Sorted(mapKeys(p.new.required())) {
		if !before[name] {
			report(wire.Pointer("properties", name), "is required now")
		}
	}
}

func inputClosed(p pair, report func(string, string)) {
	if p.old.types()&p.new.types()&object != 0 && p.new.closed() && !p.old.closed() {
		report("/additionalProperties", "members that are not declared are no longer accepted")
	}
}

// bounds are the keywords that limit from one side; a lower bound is tighter the higher it is.
var bounds = []struct {
	inclusive, exclusive string
	sign                 int
	of                   types
	free                 int64 // where the bound has no effect: nothing is shorter than 0
}{
	{"minimum", "exclusiveMinimum", +1, integer | fraction, -1},
	{"maximum", "exclusiveMaximum", -1, integer | fraction, -1},
	{"minLength", "", +1, str, 0},
	{"maxLength", "", -1, str, -1},
	{"minItems", "", +1, array, 0},
	{"maxItems", "", -1, array, -1},
	{"minProperties", "", +1, object, 0},
	{"maxProperties", "", -1, object, -1},
	{"maxContains", "", -1, array, -1},
}

func inputBoundTightened(p pair, report func(string, string)) {
	common := p.old.types() & p.new.types()
	for _, b := range bounds {
		if common&b.of == 0 {
			continue
		}
		before, after := p.old.bound(b.inclusive, b.exclusive, b.sign), p.new.bound(b.inclusive, b.exclusive, b.sign)
		if b.free == 0 && after.at != nil && after.at.Sign() <= 0 {
			continue
		}
		if !after.tighter(before, b.sign) {
			continue
		}
		if before.at == nil {
			report("", fmt.Sprintf("%s %s is new", b.inclusive, after.at.RatString()))
		} else {
			report("", fmt.Sprintf("%s went from %s to %s", b.inclusive, before.at.RatString(), after.at.RatString()))
		}
	}
	if common&array != 0 && p.new.texts("uniqueItems")["true"] && !p.old.texts("uniqueItems")["true"] {
		report("", "items must differ now")
	}
	if common&(integer|fraction) != 0 {
		multipleOf(p, report)
	}
}

// multipleOf is relaxed when every old step is a multiple of the new one.
func multipleOf(p pair, report func(string, string)) {
	for _, n := range p.new {
		step, ok := rational(n.object()["multipleOf"])
		if !ok || step.Sign() <= 0 {
			continue
		}
		kept := p.old.types()&fraction == 0 && new(big.Rat).Inv(step).IsInt() // all integers are multiples
		for _, o := range p.old {
			if old, ok := rational(o.object()["multipleOf"]); ok && new(big.Rat).Quo(old, step).IsInt() {
				kept = true
			}
		}
		if !kept {
			report("", "must be a multiple of "+step.RatString()+" now")
		}
	}
}

// constraints are keywords whose values cannot be ordered: another value is another constraint.
var constraints = []struct {
	keyword string
	of      types
}{
	{"pattern", str},
	{"format", str},
	{"contentEncoding", str},
	{"propertyNames", object},
	{"dependentRequired", object},
	{"dependentSchemas", object},
	{"dependencies", object},
	{"contains", array},
	{"minContains", array},
	{"unevaluatedItems", array},
	{"not", anyType},
	{"if", anyType},
	{"then", anyType},
	{"else", anyType},
}

func inputConstraintAdded(p pair, report func(string, string)) {
	common := p.old.types() & p.new.types()
	for _, c := range constraints {
		if common&c.of == 0 {
			continue
		}
		before := p.old.texts(c.keyword)
		for _, now := range slices.Sorted(mapKeys(p.new.texts(c.keyword))) {
			if !before[now] {
				report("", c.keyword+" is new or has changed")
				break
			}
		}
	}
}

// foreignReference reports what cannot be compared because it is elsewhere.
func foreignReference(p pair, report func(string, string)) {
	before, after := p.old.foreign(), p.new.foreign()
	for _, ref := range slices.Sorted(mapKeys(after)) {
		if !before[ref] {
			report("", "refers to "+ref+", which is not in the schema")
		}
	}
}
