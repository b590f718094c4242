// Package evolve compares two versions of an event type's schemas and classifies the differences by the users they
// affect. The server calls [Compare] when a type changes while the server is running. An incompatible change ends live
// subscriptions (EVOL-2), but an additive change must not (EVOL-3). The breaking command calls [Differences] for two
// versions of an event file.
//
// Each kind of difference is a rule in the table in rules.go. A rule has an ID, a category, a purpose and a function
// that compares two places. A place holds the constraints of one value, with references resolved and allOf merged.
// Unions are compared variant by variant. The forward comparison, from old to new, finds lost values. For payloads, the
// backward comparison, from new to old, finds values that readers of the old schema do not expect. To add a rule, add
// an entry to the table.
package evolve

import (
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Names of features in the data of an Unsupported error (EVOL-2).
const (
	InputSchema   = "inputSchema"
	PayloadSchema = "payloadSchema"
)

// A Category identifies the users that a change breaks.
type Category string

// The categories of rules.
const (
	// Wire changes break peers that follow the published schema.
	Wire Category = "WIRE"
	// Source changes break code that uses the generated types.
	Source Category = "SOURCE"
	// Strict changes break only readers that reject values allowed by the protocol.
	Strict Category = "STRICT"
)

// A Change is one difference between two versions.
type Change struct {
	// Feature is InputSchema or PayloadSchema.
	Feature string
	// Path is a JSON Pointer into that schema with references expanded: /properties/reporter/properties/id, whether or
	// not reporter is a $ref.
	Path string
	// Reason is a human-readable description of the change.
	Reason string
	// Rule is the ID of the rule that reported the change. Category is the rule's category.
	Rule     string
	Category Category
}

// String returns the feature, the path and the reason.
func (c Change) String() string { return c.Feature + c.Path + ": " + c.Reason }

// Compare returns the incompatible changes from old to new according to EVOL-2. These are removed, renamed or retyped
// fields, narrowed enums, a tightened inputSchema, and parts that cannot be compared. Without changes, every live
// subscription may continue (EVOL-3): Compare never reports new optional fields, widened enums or relaxed bounds. It
// ignores everything except the two schemas. It also ignores new overlaps between variants of a oneOf.
func Compare(old, new wire.Descriptor) []Change {
	v := Versions{live: true}
	return v.Differences("", sideOf(old), sideOf(new))
}

// Features returns the features of the changes that Compare finds, and the text of the first change.
func Features(old, new wire.Descriptor) (features []string, first string) {
	changes := Compare(old, new)
	for _, c := range changes {
		features = append(features, c.Feature)
	}
	if len(changes) > 0 {
		first = changes[0].String()
	}
	return features, first
}

// Differences returns the changes from old to new that any rule finds. Without a WIRE change, valid arguments remain
// valid, except for members that only new declares (STRICT). A payload of the new schema also decodes with types
// generated from the old one, in which enums and tagged unions are open. Without WIRE and STRICT changes, the payload
// is valid in the old schema.
func Differences(old, new wire.Descriptor) []Change {
	var v Versions
	return v.Differences("", sideOf(old), sideOf(new))
}

func sideOf(d wire.Descriptor) Side {
	return Side{&published.Schema{Head: d.InputSchema}, &published.Schema{Head: d.PayloadSchema}}
}

// Rules lists the rules in evaluation order.
func Rules() []Rule {
	out := make([]Rule, len(rules))
	for i, r := range rules {
		out[i] = r.Rule
	}
	return out
}

// withUnexpected appends the changes that only the backward comparison found.
func withUnexpected(changes, unexpected []Change) []Change {
	return append(changes, slices.DeleteFunc(unexpected, func(c Change) bool {
		return slices.ContainsFunc(changes, func(k Change) bool {
			return k.Path == c.Path && k.Rule == c.Rule || k.Rule == fieldRemovedID && strings.HasPrefix(c.Path+"/", k.Path+"/")
		})
	})...)
}

// run compares two schemas. size is the number of schemas in them and in their references.
func (c *comparison) run(from, to node, size int) []Change {
	if c.known == nil {
		c.active, c.known = map[string]*findings{}, map[string]verdict{}
	}
	c.budget, c.dependsOn = maxPairs+pairsPerSchema*size, finalDepth
	changes := c.compare(place{from}, place{to}).changes()
	if c.budget <= 0 {
		c.known = nil // parts that were not visited have no result
		changes = append(changes, c.incomparable("", "the schemas are too complex to compare"))
	}
	return changes
}
