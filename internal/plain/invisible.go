package plain

import "unicode"

// MaxMarks is the maximum number of consecutive combining marks to show. Some languages need up to four on a letter,
// for example Hebrew with cantillation. Longer stacks hide text or the lines around it.
const MaxMarks = 4

// blank holds characters with an empty glyph that Unicode does not classify as invisible. The comments are their names
// in UnicodeData.txt.
var blank = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x2800, Hi: 0x2800, Stride: 1}, // BRAILLE PATTERN BLANK
	},
	R32: []unicode.Range32{
		{Lo: 0x16fe4, Hi: 0x16fe4, Stride: 1}, // KHITAN SMALL SCRIPT FILLER
		{Lo: 0x1d159, Hi: 0x1d159, Stride: 1}, // MUSICAL SYMBOL NULL NOTEHEAD
	},
}

// Invisible reports whether r has no visible glyph and is not a space. Such characters could hide text. They are
// control characters, a few blank glyphs, and the characters that the property Default_Ignorable_Code_Point is derived
// from: format characters, variation selectors and Other_Default_Ignorable_Code_Point (DerivedCoreProperties.txt in the
// Unicode Character Database). Unlike the property, Invisible includes all format characters, such as interlinear
// annotations.
func Invisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point, blank)
}

// Marks counts consecutive combining marks. The zero value is ready to use.
type Marks int

// TooMany counts the next character of a text. It reports whether the character is a combining mark after MaxMarks
// others.
func (m *Marks) TooMany(r rune) bool {
	if !unicode.In(r, unicode.Mn, unicode.Me) {
		*m = 0
		return false
	}
	if *m < MaxMarks {
		*m++
		return false
	}
	return true
}
