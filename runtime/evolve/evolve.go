// Package evolve compares two versions of an event type's schemas and says which differences
// matter to whom. The server asks it when a type is changed while it runs: an incompatible change
// ends live subscriptions (EVOL-2), an additive one must not (EVOL-3). The breaking command asks
// it about two versions of an event file.
//
// Start with [Compare]. Each kind of difference is a rule in the table of rules.go: an ID, a
// category, a purpose and one function over a pair of places. A place is what one value must
// satisfy, with references followed and allOf merged; unions are compared variant by variant.
// A new rule is a new entry in that table. The package makes no compatibility promise.
package evolve

import (
	"encoding/json"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// The features that a change can be in, as the data of an Unsupported error names them (EVOL-2).
const (
	InputSchema   = "inputSchema"
	PayloadSchema = "payloadSchema"
)

// A Category says whom a change breaks.
type Category string

// The categories of rules.
const (
	// Wire changes break peers that go by the published schema.
	Wire Category = "WIRE"
	// Source changes break code that uses the generated types.
	Source Category = "SOURCE"
	// Strict changes break only readers that refuse what the protocol tells them to expect.
	Strict Category = "STRICT"
)

// A Change is one difference between two versions.
type Change struct {
	// Feature is InputSchema or PayloadSchema.
	Feature string
	// Path is a JSON Pointer into that schema as if its references were written out:
	// /properties/reporter/properties/id whether reporter is a $ref or not.
	Path string
	// Reason says what changed, for people.
	Reason string
	// Rule is the ID of the rule that found it, Category that rule's.
	Rule     string
	Category Category
}

// String gives feature, path and reason.
func (c Change) String() string { return c.Feature + c.Path + ": " + c.Reason }

// Compare returns the incompatible changes from old to new in the closed sense of EVOL-2: a field
// removed, renamed or retyped, an enum narrowed, inputSchema tightened; and what cannot be
// compared. No changes means that every live subscription may go on (EVOL-3): new optional fields,
// widened enums and relaxed bounds are never among them. Everything but the two schemas is ignored,
// and so is that variants of a oneOf came to overlap.
func Compare(old, new wire.Descriptor) []Change {
	var live []rule
	for _, r := range rules {
		if r.Live {
			live = append(live, r)
		}
	}
	return slices.Concat(
		compareSchemas(InputSchema, old.InputSchema, new.InputSchema, live),
		compareSchemas(PayloadSchema, old.PayloadSchema, new.PayloadSchema, live),
	)
}

// Rules lists the rules in the order in which they are asked.
func Rules() []Rule {
	out := make([]Rule, len(rules))
	for i, r := range rules {
		out[i] = r.Rule
	}
	return out
}

func compareSchemas(feature string, old, new json.RawMessage, rules []rule) []Change {
	c := &comparison{feature: feature, rules: rules, active: map[string]bool{}, budget: maxPairs}
	var err error
	if c.old, err = readDocument(old); err != nil {
		return []Change{c.incomparable("", "the old schema cannot be read: "+err.Error())}
	}
	if c.new, err = readDocument(new); err != nil {
		return []Change{c.incomparable("", "the new schema cannot be read: "+err.Error())}
	}
	if text(c.old.root.schema) == text(c.new.root.schema) {
		return nil
	}
	changes := c.compare(place{c.old.root}, place{c.new.root}, "")
	if c.budget <= 0 {
		changes = append(changes, c.incomparable("", "the schemas are too complex to compare"))
	}
	return changes
}
