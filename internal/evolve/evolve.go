// Package evolve compares two versions of an event type's schemas and says which differences
// matter to whom. The server asks [Compare] when a type changes while it runs: an incompatible
// change ends live subscriptions (EVOL-2), an additive one must not (EVOL-3). The breaking command
// asks [Differences] about two versions of an event file.
//
// Each kind of difference is a rule in the table of rules.go: an ID, a category, a purpose and one
// function over a pair of places. A place is what one value must satisfy, with references followed
// and allOf merged; unions are compared variant by variant. Schemas are held against each other
// forward, from old to new, which finds what was lost, and payloads also backward, from new to old,
// which finds what readers of the old schema do not expect. A new rule is a new entry in the table.
package evolve

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
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
	return slices.Concat(
		run(InputSchema, old.InputSchema, new.InputSchema, true),
		run(PayloadSchema, old.PayloadSchema, new.PayloadSchema, true),
	)
}

// Differences returns the changes from old to new that any rule finds. Without a WIRE change,
// arguments that were valid still are, except members that old did not declare and new does
// (STRICT); and a payload of the new schema decodes with types made from the old one, where enums
// and tagged unions are open. Without a STRICT change either, it is valid by the old schema.
func Differences(old, new wire.Descriptor) []Change {
	return slices.Concat(
		run(InputSchema, old.InputSchema, new.InputSchema, false),
		run(PayloadSchema, old.PayloadSchema, new.PayloadSchema, false),
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

// run compares the two versions of one schema: for a live change, or by all rules.
func run(feature string, old, new json.RawMessage, live bool) []Change {
	unreadable := func(which string, err error) []Change {
		return []Change{{Feature: feature, Reason: "the " + which + " schema cannot be read: " + err.Error(), Rule: Incomparable, Category: Wire}}
	}
	if bytes.Equal(old, new) {
		return nil
	}
	before, err := readDocument(old)
	if err != nil {
		return unreadable("old", err)
	}
	after, err := readDocument(new)
	if err != nil {
		return unreadable("new", err)
	}
	if text(before.root.schema) == text(after.root.schema) {
		return nil
	}
	changes := compareDocuments(&comparison{feature: feature, live: live}, before, after)
	if feature == PayloadSchema && !live {
		changes = withUnexpected(changes, compareDocuments(&comparison{feature: feature, backward: true}, after, before))
	}
	return once(changes)
}

// withUnexpected adds what the comparison backward found, unless it was found forward.
func withUnexpected(changes, unexpected []Change) []Change {
	return append(changes, slices.DeleteFunc(unexpected, func(c Change) bool {
		return slices.ContainsFunc(changes, func(k Change) bool {
			return k.Path == c.Path && k.Rule == c.Rule || k.Rule == fieldRemovedID && strings.HasPrefix(c.Path+"/", k.Path+"/")
		})
	})...)
}

func compareDocuments(c *comparison, from, to *document) []Change {
	return c.run(from.root, to.root, from.size+to.size)
}

// run compares two schemas; size is how many schemas are in them and in what they lead to.
func (c *comparison) run(from, to node, size int) []Change {
	if c.known == nil {
		c.active, c.known = map[string]*findings{}, map[string]verdict{}
	}
	c.budget, c.rests = maxPairs+pairsPerSchema*size, final
	changes := c.compare(place{from}, place{to}).changes()
	if c.budget <= 0 {
		c.known = nil // what was not looked at has no verdict
		changes = append(changes, c.incomparable("", "the schemas are too complex to compare"))
	}
	return changes
}
