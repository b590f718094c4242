package evolve

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// The rules here concern arguments that are no longer valid.

func inputTypeNarrowed(u union, report func(string)) {
	kept := unionTypes(u.new)
	lost := unionTypes(u.old) &^ kept
	if kept&schematree.Fraction != 0 {
		lost &^= schematree.Integer // ENUM_NARROWED reports a list of numbers without integers
	}
	if lost != 0 && len(u.new) > 0 {
		report(fmt.Sprintf("no longer accepts %v", lost))
	}
}

func inputEnumAdded(p pair, report func(string, string)) {
	_, before := listedValues(p.old)
	if values, now := p.new.values(); now && !before {
		report("", fmt.Sprintf("accepts %d listed values only", len(values)))
	}
}

func inputRequiredAdded(p pair, report func(string, string)) {
	if p.old.types()&p.new.types()&schematree.Object == 0 {
		return
	}
	before := p.old.required()
	for _, name := range sortedKeys(p.new.required()) {
		if !before[name] {
			report(wire.Pointer("properties", name), "is required now")
		}
	}
}

func inputClosed(p pair, report func(string, string)) {
	if p.old.types()&p.new.types()&schematree.Object != 0 && p.new.isClosed() && !p.old.isClosed() {
		report("/additionalProperties", "members that are not declared are no longer accepted")
	}
}

// widerFormats maps a format to the formats that accept all of its strings.
var widerFormats = map[string][]string{
	canonicalText("uri"):           {canonicalText("uri-reference"), canonicalText("iri"), canonicalText("iri-reference")},
	canonicalText("uri-reference"): {canonicalText("iri-reference")},
	canonicalText("iri"):           {canonicalText("iri-reference")},
	canonicalText("email"):         {canonicalText("idn-email")},
	canonicalText("hostname"):      {canonicalText("idn-hostname")},
}

// isImplied reports whether a string that satisfies all of have also satisfies want.
func isImplied(have map[string]bool, want string) bool {
	if have[want] {
		return true
	}
	for h := range have {
		if slices.Contains(widerFormats[h], want) {
			return true
		}
	}
	return false
}

func canonicalTexts(words []string) map[string]bool {
	set := map[string]bool{}
	for _, w := range words {
		set[canonicalText(w)] = true
	}
	return set
}

// Keywords whose values have no order: each different value is a different constraint.
var (
	formats     = []string{"format", "contentEncoding"}
	patterns    = []string{"pattern"}
	constraints = strings.Fields("dependentRequired dependentSchemas dependencies contains minContains unevaluatedItems not if then else")
)

// effective maps a keyword to the values that have an effect, as JSON texts. All values of other keywords have one.
var effective = map[string]map[string]bool{"format": canonicalTexts(schematree.Formats), "contentEncoding": canonicalTexts([]string{"base64"})}

// eachAdded calls f for each keyword that is new or different in narrow. changed reports whether wide has the keyword.
func eachAdded(keywords []string, wide, narrow place, f func(keyword string, changed bool)) {
	common := wide.types() & narrow.types()
	for _, keyword := range keywords {
		if !checks(keyword, common) {
			continue
		}
		known, now := wide.keywordClosures(keyword), narrow.keywordClosures(keyword)
		if values := effective[keyword]; values != nil {
			maps.DeleteFunc(now, func(text string, _ bool) bool { return !values[text] })
		}
		for text := range now {
			if !isImplied(known, text) {
				f(keyword, len(known) > 0)
				break
			}
		}
	}
}

// inputChanged returns the function of a rule about new and different values of the keywords.
func inputChanged(keywords []string) func(p pair, report func(string, string)) {
	return func(p pair, report func(string, string)) {
		eachAdded(keywords, p.old, p.new, func(keyword string, changed bool) {
			if changed {
				report("", keyword+" has changed")
			} else {
				report("", keyword+" is new")
			}
		})
	}
}

func inputConstraintAdded(p pair, report func(string, string)) {
	eachAdded(constraints, p.old, p.new, func(keyword string, changed bool) {
		if !changed {
			report("", keyword+" is new")
		}
	})
}
