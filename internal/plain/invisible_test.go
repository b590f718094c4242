package plain

import (
	"strings"
	"testing"
	"unicode"
)

// ignorable is the property Default_Ignorable_Code_Point, as DerivedCoreProperties.txt of Unicode 15.0.0 lists it:
// https://www.unicode.org/Public/15.0.0/ucd/DerivedCoreProperties.txt
var ignorable = [][2]rune{
	{0x00ad, 0x00ad}, {0x034f, 0x034f}, {0x061c, 0x061c}, {0x115f, 0x1160}, {0x17b4, 0x17b5}, {0x180b, 0x180f},
	{0x200b, 0x200f}, {0x202a, 0x202e}, {0x2060, 0x206f}, {0x3164, 0x3164}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff},
	{0xffa0, 0xffa0}, {0xfff0, 0xfff8}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
}

// BRIDGE-6: of all Unicode, Text and JSON let through characters that show as themselves only: no control, no space but
// the plain one, nothing that fonts leave out. Letters, digits, punctuation and symbols stay as they are.
func TestAllOfUnicode(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if 0xd800 <= r && r <= 0xdfff {
			continue // no characters
		}
		want := r == ' ' || unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S)
		for _, block := range ignorable {
			want = want && (r < block[0] || block[1] < r)
		}
		switch r {
		case 0x2800, 0x16fe4, 0x1d159: // blank glyphs
			want = false
		}
		if Hidden(r) == want {
			t.Fatalf("%U: hidden is %t", r, !want)
		}
		s := string(r)
		if raw := Text(s) == s; raw != want {
			t.Fatalf("%U: Text gives %q", r, Text(s))
		}
		if got := string(JSON([]byte(s))); (got == s) != (want || r == '\n' || r == '\t') {
			t.Fatalf("%U: JSON gives %q", r, got)
		}
	}
}

// A few combining marks in a row are a letter of some language. More are escaped, until the next character with a glyph.
func TestMarks(t *testing.T) {
	const acute = "\u0301"
	for in, want := range map[string]string{
		"e" + acute:                           "e" + acute,
		"e" + strings.Repeat(acute, MaxMarks): "e" + strings.Repeat(acute, MaxMarks),
		"e" + strings.Repeat(acute, 30) + "e": "e" + strings.Repeat(acute, MaxMarks) + strings.Repeat(`\u0301`, 30-MaxMarks) + "e",
		"\u05e9\u05bc\u05c1\u05b8\u0591":      "\u05e9\u05bc\u05c1\u05b8\u0591", // Hebrew with points and cantillation
		"\u0e17\u0e35\u0e48":                  "\u0e17\u0e35\u0e48",             // Thai
		"\u0958\u094d\u0937\u093f":            "\u0958\u094d\u0937\u093f",       // Devanagari
		"o\u0302\u0301e":                      "o\u0302\u0301e",                 // Vietnamese, decomposed
		"e" + strings.Repeat("\u20dd", 9):     "e" + strings.Repeat("\u20dd", MaxMarks) + strings.Repeat(`\u20dd`, 9-MaxMarks),
		"x\ufe0fy\U000e0101z":                 `x\ufe0fy\U000e0101z`,
	} {
		if got := Text(in); got != want {
			t.Errorf("%+q: %+q, want %+q", in, got, want)
		}
		if got := string(JSON([]byte(in))); strings.ReplaceAll(got, `\udb40\udd01`, `\U000e0101`) != want {
			t.Errorf("%+q: JSON gives %+q, want %+q", in, got, want)
		}
	}
}
