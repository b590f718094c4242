package plain

import "unicode"

// MaxMarks is the number of consecutive combining marks to show. Languages need up to four on one letter, as in
// Hebrew with cantillation; longer stacks hide text or the lines around it.
const MaxMarks = 4

// blank holds characters with an empty glyph that Unicode counts as visible, by their names in UnicodeData.txt.
var blank = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x2800, Hi: 0x2800, Stride: 1}, // BRAILLE PATTERN BLANK
	},
	R32: []unicode.Range32{
		{Lo: 0x16fe4, Hi: 0x16fe4, Stride: 1}, // KHITAN SMALL SCRIPT FILLER
		{Lo: 0x1d159, Hi: 0x1d159, Stride: 1}, // MUSICAL SYMBOL NULL NOTEHEAD
	},
}

// Invisible reports whether r shows nothing and is not a space: text could be hidden in such characters. They are controls
// and the property Default_Ignorable_Code_Point, which DerivedCoreProperties.txt of the Unicode Character Database derives
// from format characters, variation selectors and Other_Default_Ignorable_Code_Point; and a few blank glyphs. Format
// characters that the derivation leaves out, such as interlinear annotations, are among them here.
func Invisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point, blank)
}

// Marks counts consecutive combining marks. The zero value is ready to use.
type Marks int

// TooMany reads the next character of a text and reports whether it is a mark after MaxMarks others.
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
