package evolve

import "slices"

// A Rule finds one kind of difference.
type Rule struct {
	// ID is the name of the rule in output and exceptions.
	ID string
	// Category identifies the users that the change breaks.
	Category Category
	// Purpose describes the rule in one sentence.
	Purpose string
	// Features lists the schemas that the rule applies to.
	Features []string
	// Live reports whether the change ends live subscriptions (EVOL-2).
	Live bool
}

func (r Rule) covers(feature string) bool { return slices.Contains(r.Features, feature) }

// A rule is a Rule with its function. A union function checks all variants of a place, and a variant function checks a
// pair of an old and a new variant. The comparison itself reports the rules without a function.
type rule struct {
	Rule
	// backward rules apply to payloads in both directions. onlyBackward rules apply only in the backward comparison.
	// The backward comparison checks that readers of the old schema expect every new payload.
	backward, onlyBackward bool

	union   func(u union, report func(reason string))
	variant func(p pair, report func(below, reason string))
}

// A union holds the old and new variants of one place.
type union struct {
	old, new       []place
	feature        string
	live, backward bool
	// from and to are the compared places with their oneOf.
	from, to place
}

// A pair consists of an old variant and a new variant.
type pair struct {
	old, new place
	feature  string
	backward bool
}

// Incomparable is the ID of the rule for schemas that cannot be compared.
const Incomparable = "SCHEMA_INCOMPARABLE"

// IDs of rules that the comparison itself reports.
const (
	nameClaimed    = "INPUT_NAME_CLAIMED"
	fieldAdded     = "PAYLOAD_FIELD_ADDED"
	variantAdded   = "PAYLOAD_VARIANT_ADDED"
	fieldRemovedID = "FIELD_REMOVED"

	discriminatorChanged = "DISCRIMINATOR_CHANGED"
)

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
		union: payloadTypeChanged, variant: payloadVariantRetyped, backward: true,
	},
	{
		Rule:  Rule{"PAYLOAD_NULL_ADDED", Wire, "A payload field that was never null may be null.", payload, true},
		union: payloadNullAdded, backward: true,
	},
	{
		Rule:    Rule{"TYPE_REMOVED", Wire, "A variant's type is gone.", both, true},
		variant: typeRemoved,
	},
	{
		Rule:    Rule{fieldRemovedID, Wire, "A field was removed or renamed.", both, true},
		variant: fieldRemoved,
	},
	{
		Rule:    Rule{"ENUM_NARROWED", Wire, "An enum or const lost a value.", both, true},
		variant: enumNarrowed,
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
		Rule:    Rule{"INPUT_FORMAT_CHANGED", Wire, "An argument's format or encoding was added or changed.", input, true},
		variant: inputChanged(formats),
	},
	{
		Rule:    Rule{"INPUT_PATTERN_CHANGED", Wire, "An argument's pattern was added or changed.", input, true},
		variant: inputChanged(patterns),
	},
	{
		Rule:    Rule{"INPUT_CONSTRAINT_ADDED", Wire, "A constraint other than a bound, format or pattern was added to an argument.", input, true},
		variant: inputConstraintAdded,
	},
	{
		Rule:    Rule{"PAYLOAD_REQUIRED_REMOVED", Wire, "A payload field that was always there may be absent.", payload, false},
		variant: payloadRequiredRemoved, onlyBackward: true, backward: true,
	},
	{
		Rule:    Rule{"PAYLOAD_FORMAT_CHANGED", Wire, "A payload field lost or changed its format or encoding.", payload, true},
		variant: payloadFormatChanged, backward: true,
	},
	{
		Rule:  Rule{"PAYLOAD_INTEGER_OUTGROWN", Wire, "A payload field may have an integer that the Go type made from the old schema cannot hold.", payload, false},
		union: payloadIntegerOutgrown, onlyBackward: true, backward: true,
	},
	{
		Rule: Rule{discriminatorChanged, Wire, "The tag that a discriminator reads, or the tag of a variant, is another one.", both, false},
	},
	{
		Rule:    Rule{Incomparable, Wire, "Something changed that cannot be compared, so it may break anybody.", both, true},
		variant: checkComparable, union: checkAmbiguous, backward: true,
	},
	{
		Rule: Rule{nameClaimed, Strict, "A new argument has a name that callers could already send.", input, false},
	},
	{
		Rule:  Rule{variantAdded, Strict, "A union in a payload has a new variant: one with another tag, of another JSON type, or with another member.", payload, false},
		union: payloadVariantOfType, onlyBackward: true, backward: true,
	},
	{
		Rule: Rule{fieldAdded, Strict, "A payload object that is closed has a new field.", payload, false},
	},
	{
		Rule:    Rule{"PAYLOAD_OPENED", Strict, "A payload object that was closed may have members that are not declared.", payload, false},
		variant: payloadOpened, union: payloadUnionOpened, onlyBackward: true, backward: true,
	},
	{
		Rule:    Rule{"PAYLOAD_ENUM_WIDENED", Strict, "A payload field may have a value that was not listed.", payload, false},
		variant: payloadEnumWidened, onlyBackward: true, backward: true,
	},
	{
		Rule:    Rule{"PAYLOAD_BOUND_RELAXED", Strict, "A bound on a payload field was relaxed or dropped.", payload, false},
		variant: payloadBoundRelaxed, onlyBackward: true, backward: true,
	},
	{
		Rule:    Rule{"PAYLOAD_CONSTRAINT_RELAXED", Strict, "A constraint on a payload field was dropped, or a pattern changed.", payload, false},
		variant: payloadConstraintRelaxed, union: payloadOverlap, onlyBackward: true, backward: true,
	},
}
