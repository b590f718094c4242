package evolve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// The rules here concern payloads that readers of the old schema do not expect.

func payloadTypeChanged(u union, report func(string)) {
	old, new := unionTypes(u.old), unionTypes(u.new)
	if len(u.old) == 0 && u.backward && !isForbidden(u.to) {
		report("was contradictory and has values now")
	}
	gained := new &^ old
	if old&schematree.Fraction != 0 {
		gained &^= schematree.Integer // without an integer in the old list, the Go type is float64
	}
	if old&schematree.Integer != 0 && listedAsFloats(u.old) {
		gained &^= schematree.Fraction
	}
	if hasSeveral(old) {
		gained &^= typesKeptAsJSON(old)
	}
	if gained != 0 && len(u.old) > 0 && !onlyAddsNull(old, new) {
		report(fmt.Sprintf("was %v and may now be %v", old, gained))
	}
}

// payloadVariantOfType calls report if a union of several types may have values of a new JSON type. A reader of such a
// union stores values of other types as raw JSON.
func payloadVariantOfType(u union, report func(string)) {
	old, new := unionTypes(u.old), unionTypes(u.new)
	if gained := new & typesKeptAsJSON(old); gained != 0 && hasSeveral(old) {
		report(fmt.Sprintf("the union was %v and may now be %v", old, gained))
	}
}

// typesKeptAsJSON returns the types that a reader of a union of the given types stores as raw JSON. It excludes null,
// because a Go type without null cannot hold it. It excludes all numbers if the union has any numeric type.
func typesKeptAsJSON(of schematree.Types) schematree.Types {
	all := schematree.AnyType &^ schematree.Null &^ of
	if of&schematree.Number != 0 {
		all &^= schematree.Number
	}
	return all
}

func payloadNullAdded(u union, report func(string)) {
	if old, new := unionTypes(u.old), unionTypes(u.new); onlyAddsNull(old, new) {
		report(fmt.Sprintf("was %v and may now be null", old))
	}
}

// isForbidden reports whether p contains the schema false. It does not detect contradictory schemas.
func isForbidden(p place) bool {
	return slices.ContainsFunc(p, func(n node) bool { return n.schema == false })
}

// onlyAddsNull reports whether null is the only type in new that is not in old.
func onlyAddsNull(old, new schematree.Types) bool { return new&^old == schematree.Null && new&old != 0 }

// payloadVariantRetyped calls report if the old and the new variant have no type in common.
func payloadVariantRetyped(p pair, report func(string, string)) {
	if p.backward && p.old.types()&p.new.types() == 0 {
		report("", fmt.Sprintf("was %v and may now be %v", p.old.types(), p.new.types()))
	}
}

func payloadRequiredRemoved(p pair, report func(string, string)) {
	if p.old.types()&p.new.types()&schematree.Object == 0 {
		return
	}
	now, there := p.new.required(), p.new.properties()
	for _, name := range sortedKeys(p.old.required()) {
		if !now[name] && (slices.Contains(there, name) || !slices.Contains(p.old.properties(), name)) {
			report(wire.Pointer("properties", name), "was required and may now be absent")
		}
	}
}

func payloadFormatChanged(p pair, report func(string, string)) {
	if p.old.types()&p.new.types()&schematree.String == 0 {
		return
	}
	for _, keyword := range formats {
		now := p.new.keywordClosures(keyword)
		for _, was := range sortedKeys(p.old.keywordClosures(keyword)) {
			if effective[keyword][was] && !isImplied(now, was) {
				report("", keyword+" was "+was)
			}
		}
	}
}

func payloadOpened(p pair, report func(string, string)) {
	if p.old.types()&p.new.types()&schematree.Object != 0 && p.old.isClosed() && !p.new.isClosed() {
		report("/additionalProperties", "members that are not declared may be there now")
	}
}

func payloadUnionOpened(u union, report func(string)) {
	if isForbidden(u.to) {
		report("no value was valid here and one may be there now")
	}
}

func payloadEnumWidened(p pair, report func(string, string)) {
	old, limited := p.old.values()
	if !limited {
		return
	}
	new, ok := listedValues(p.new)
	if !ok {
		report("", fmt.Sprintf("had %d listed values and may have others now", len(old)))
	} else if gained := difference(new, old); len(gained) > 0 {
		report("", "may now be "+strings.Join(gained, ", "))
	}
}

func payloadConstraintRelaxed(p pair, report func(string, string)) {
	if p.old.types()&p.new.types()&schematree.String != 0 {
		for _, keyword := range formats { // for a format that JSON Schema does not define, but that may have a Go type
			for _, was := range sortedKeys(p.old.keywordClosures(keyword)) {
				if !effective[keyword][was] && !p.new.keywordClosures(keyword)[was] {
					report("", keyword+" was "+was)
				}
			}
		}
	}
	eachAdded(patterns, p.new, p.old, func(_ string, changed bool) {
		if changed {
			report("", "pattern has changed")
		} else {
			report("", "pattern is gone")
		}
	})
	eachAdded(constraints, p.new, p.old, func(keyword string, changed bool) {
		if !changed {
			report("", keyword+" is gone")
		}
	})
}

// payloadOverlap calls report if a new payload can match two variants of a oneOf in the old schema.
func payloadOverlap(u union, report func(string)) {
	if u.backward && addsOverlap(u.from, u.to) {
		report("oneOf has changed, and a value may match two of the old variants")
	}
}
