package golang

import (
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// comment writes lines of text with // before each.
func (w *writer) comment(lines ...string) { w.body = appendComment(w.body, lines) }

func appendComment(out []byte, lines []string) []byte {
	for _, l := range lines {
		out = append(append(out, strings.TrimRight("// "+source.Visible(l), " ")...), '\n')
	}
	return out
}

// doc begins a declaration with its comment, after an empty line.
func (w *writer) doc(lines ...string) {
	w.line()
	w.comment(lines...)
}

// typeDoc is the doc comment of a declared type: a sentence that stands alone and what more there is to say, then
// the author's words.
func (w *writer) typeDoc(d *ir.Decl, what string, more ...string) {
	verb := " is "
	if isArguments(d) {
		verb = " are "
	}
	w.doc(withDoc(append([]string{d.Name + verb + what + "."}, more...), d.Doc, "the schema marks this type as deprecated.")...)
}

// isArguments reports whether a type is that of the arguments of an event type or a task.
func isArguments(d *ir.Decl) bool { return strings.HasPrefix(d.Role, "the arguments of ") }

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
	lines := strings.Split(strings.Trim(source.Prose(lineEnds.Replace(text)), "\n\t "), "\n")
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

// oneLine is a description, or JSON, as part of a sentence.
func oneLine(text string) string { return strings.Join(strings.Fields(source.Visible(text)), " ") }
