package pattern

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// unicodeText holds the properties that package unicode lacks, the script codes, and the differences between
// Script_Extensions and Script. testdata/unicode.mjs generates it.
//
//go:embed unicode.txt
var unicodeText string

// tables indexes unicodeText by the first and second word of each line.
var tables = sync.OnceValue(func() map[string]map[string]string {
	all := map[string]map[string]string{"property": {}, "script": {}, "extension": {}}
	for line := range strings.Lines(unicodeText) {
		if kind, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok && all[kind] != nil {
			name, data, _ := strings.Cut(rest, " ")
			all[kind][name] = data
		}
	}
	return all
})

// parseRanges parses ranges in the format of unicode.mjs.
func parseRanges(data string) set {
	var s set
	at := rune(0)
	for part := range strings.FieldsSeq(data) {
		distance, length, _ := strings.Cut(part, "-")
		d, _ := strconv.ParseInt(distance, 36, 32)
		n, _ := strconv.ParseInt("0"+length, 36, 32)
		low := at + rune(d)
		at = low + rune(n)
		s = append(s, span{low, at})
	}
	return s
}

// shortProperties maps aliases of binary properties to their names.
var shortProperties = map[string]string{
	"AHex": "ASCII_Hex_Digit", "Alpha": "Alphabetic", "Bidi_C": "Bidi_Control", "Bidi_M": "Bidi_Mirrored", "CI": "Case_Ignorable",
	"CWCF": "Changes_When_Casefolded", "CWCM": "Changes_When_Casemapped", "CWL": "Changes_When_Lowercased",
	"CWKCF": "Changes_When_NFKC_Casefolded", "CWT": "Changes_When_Titlecased", "CWU": "Changes_When_Uppercased",
	"DI": "Default_Ignorable_Code_Point", "Dep": "Deprecated", "Dia": "Diacritic", "EComp": "Emoji_Component",
	"EMod": "Emoji_Modifier", "EBase": "Emoji_Modifier_Base", "EPres": "Emoji_Presentation", "Ext": "Extender",
	"ExtPict": "Extended_Pictographic", "Gr_Base": "Grapheme_Base", "Gr_Ext": "Grapheme_Extend", "Hex": "Hex_Digit",
	"IDSB": "IDS_Binary_Operator", "IDST": "IDS_Trinary_Operator", "IDC": "ID_Continue", "IDS": "ID_Start", "Ideo": "Ideographic",
	"Join_C": "Join_Control", "LOE": "Logical_Order_Exception", "Lower": "Lowercase", "NChar": "Noncharacter_Code_Point",
	"Pat_Syn": "Pattern_Syntax", "Pat_WS": "Pattern_White_Space", "QMark": "Quotation_Mark", "RI": "Regional_Indicator",
	"STerm": "Sentence_Terminal", "SD": "Soft_Dotted", "Term": "Terminal_Punctuation", "UIdeo": "Unified_Ideograph",
	"Upper": "Uppercase", "VS": "Variation_Selector", "space": "White_Space", "XIDC": "XID_Continue", "XIDS": "XID_Start",
}

// sharedProperties is the set of binary properties of ECMA-262 that package unicode has under the same name.
var sharedProperties = map[string]bool{
	"ASCII_Hex_Digit": true, "Bidi_Control": true, "Dash": true, "Deprecated": true, "Diacritic": true, "Extender": true,
	"Hex_Digit": true, "IDS_Binary_Operator": true, "IDS_Trinary_Operator": true, "Ideographic": true, "Join_Control": true,
	"Logical_Order_Exception": true, "Noncharacter_Code_Point": true, "Pattern_Syntax": true, "Pattern_White_Space": true,
	"Quotation_Mark": true, "Radical": true, "Regional_Indicator": true, "Sentence_Terminal": true, "Soft_Dotted": true,
	"Terminal_Punctuation": true, "Unified_Ideograph": true, "Variation_Selector": true, "White_Space": true,
}

// derivedProperties contains the binary properties that are derived from other properties (UAX #44, table 7).
var derivedProperties = map[string]func() set{
	"ASCII":    func() set { return set{{0, 0x7F}} },
	"Any":      func() set { return anything },
	"Assigned": func() set { return unassigned().complement() },
	"Alphabetic": sync.OnceValue(func() set {
		return newTableSet(unicode.L, unicode.Nl, unicode.Other_Lowercase, unicode.Other_Uppercase, unicode.Other_Alphabetic)
	}),
	"Lowercase": func() set { return newTableSet(unicode.Ll, unicode.Other_Lowercase) },
	"Uppercase": func() set { return newTableSet(unicode.Lu, unicode.Other_Uppercase) },
	"Cased": func() set {
		return newTableSet(unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase)
	},
	"Math":         func() set { return newTableSet(unicode.Sm, unicode.Other_Math) },
	"ID_Start":     idStart,
	"ID_Continue":  idContinue,
	"XID_Start":    func() set { return idStart().subtract(notXIDStart) },
	"XID_Continue": func() set { return idContinue().subtract(notXIDContinue) },
	"Default_Ignorable_Code_Point": func() set {
		return newTableSet(unicode.Other_Default_Ignorable_Code_Point, unicode.Cf, unicode.Variation_Selector).
			subtract(newTableSet(unicode.White_Space, unicode.Prepended_Concatenation_Mark)).
			subtract(set{{0xFFF9, 0xFFFB}, {0x13430, 0x13440}})
	},
	"Grapheme_Extend": func() set { return newTableSet(unicode.Me, unicode.Mn, unicode.Other_Grapheme_Extend) },
	"Grapheme_Base": func() set {
		return newTableSet(unicode.Cc, unicode.Cf, unicode.Cs, unicode.Co, unicode.Zl, unicode.Zp, unicode.Me, unicode.Mn,
			unicode.Other_Grapheme_Extend).complement().subtract(unassigned())
	},
}

// These characters are excluded from identifiers under NFKC (UAX #31, section 5.1).
var (
	notXIDContinue = set{{0x37A, 0x37A}, {0x309B, 0x309C}, {0xFC5E, 0xFC63}, {0xFDFA, 0xFDFB}, {0xFE70, 0xFE70}, {0xFE72, 0xFE72},
		{0xFE74, 0xFE74}, {0xFE76, 0xFE76}, {0xFE78, 0xFE78}, {0xFE7A, 0xFE7A}, {0xFE7C, 0xFE7C}, {0xFE7E, 0xFE7E}}
	notXIDStart = union(append(append(set{}, notXIDContinue...), span{0xE33, 0xE33}, span{0xEB3, 0xEB3}, span{0xFF9E, 0xFF9F}))
)

func idStart() set {
	return newTableSet(unicode.L, unicode.Nl, unicode.Other_ID_Start).subtract(newTableSet(unicode.Pattern_Syntax, unicode.Pattern_White_Space))
}

var idContinue = sync.OnceValue(func() set {
	more := newTableSet(unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc, unicode.Other_ID_Continue)
	return union(append(more, idStart()...)).subtract(newTableSet(unicode.Pattern_Syntax, unicode.Pattern_White_Space))
})

func unassigned() set { return newTableSet(unicode.Cn) }

// category returns the code points of the general category with the given short name, or nil.
func category(name string) set {
	if t := unicode.Categories[name]; t != nil && len(name) <= 2 {
		return newTableSet(t)
	}
	return nil
}

// generalCategory returns the code points of the general category with the given short or long name.
func generalCategory(name string) (set, bool) {
	if short := unicode.CategoryAliases[name]; short != "" {
		name = short
	}
	s := category(name)
	return s, s != nil
}

// script returns the code points of the script with the given name or code. If extended is set, it uses
// Script_Extensions.
func script(name string, extended bool) (set, bool) {
	if long := tables()["script"][name]; long != "" {
		name = long
	}
	t := unicode.Scripts[name]
	if t == nil {
		return nil, false
	}
	s := newTableSet(t)
	if other := parseRanges(tables()["extension"][name]); extended && len(other) > 0 {
		return union(append(s.subtract(other), other.subtract(s)...)), true
	}
	return s, true
}

// propertySet returns the code points of \p{…}, or false if ECMA-262 does not have the property. Names must match the
// standard exactly.
func propertySet(name string) (set, bool) {
	if key, value, ok := strings.Cut(name, "="); ok {
		switch key {
		case "General_Category", "gc":
			return generalCategory(value)
		case "Script", "sc":
			return script(value, false)
		case "Script_Extensions", "scx":
			return script(value, true)
		}
		return nil, false
	}
	if s, ok := generalCategory(name); ok {
		return s, true
	}
	if long := shortProperties[name]; long != "" {
		name = long
	}
	if f := derivedProperties[name]; f != nil {
		return f(), true
	}
	if data, ok := tables()["property"][name]; ok {
		return parseRanges(data), true
	}
	if sharedProperties[name] {
		return newTableSet(unicode.Properties[name]), true
	}
	return nil, false
}
