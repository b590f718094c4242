package golang

import (
	"strings"
	"unicode"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
)

// comment is a doc comment of the given lines, written line by line with //.
func comment(lines ...string) jen.Code { return jen.Comment(commentText(lines)) }

func commentText(lines []string) string {
	var b strings.Builder
	for i, l := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(strings.TrimRight("// "+l, " "))
	}
	return b.String()
}

// typeDoc is the doc comment of a declared type: a sentence that stands alone, then the author's
// words.
func typeDoc(d *ir.Decl, what string) jen.Code {
	verb := " is "
	if strings.HasPrefix(what, "the arguments") {
		verb = " are "
	}
	lines := []string{d.Name + verb + what + "."}
	return comment(withDoc(lines, d.Doc, "the schema marks this type as deprecated.")...)
}

// withDoc appends the author's description and deprecation as paragraphs of their own.
func withDoc(lines []string, doc ir.Doc, deprecated string) []string {
	if text := textLines(doc.Text); len(text) > 0 {
		lines = paragraph(lines, text...)
	}
	if doc.Deprecated {
		lines = paragraph(lines, "Deprecated: "+deprecated)
	}
	return lines
}

func paragraph(lines []string, more ...string) []string {
	if len(lines) > 0 {
		lines = append(lines, "")
	}
	return append(lines, more...)
}

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n")

// textLines returns the lines of a description without what a Go comment cannot hold.
func textLines(text string) []string {
	text = lineEnds.Replace(text)
	text = strings.Map(func(r rune) rune {
		if r == '\uFEFF' || r != '\n' && r != '\t' && unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	lines := strings.Split(strings.Trim(text, "\n\t "), "\n")
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, "\t ")
		if rest, ok := strings.CutPrefix(strings.TrimLeft(l, "\t "), "+build"); ok {
			lines[i] = `"+build"` + rest // else gofmt makes it a build constraint of the file
		}
	}
	return lines
}

// oneLine is a description as part of a sentence.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
