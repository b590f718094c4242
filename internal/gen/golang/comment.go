package golang

import (
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// addDoc adds an empty line and the doc comment of a declaration.
func (f *file) addDoc(lines ...string) {
	f.Line()
	addComment(f.Group, lines...)
}

// addComment adds comment lines to a file, a struct or an interface.
func addComment(g *jen.Group, lines ...string) {
	for _, l := range lines {
		g.Comment(commentLine(l))
	}
}

// commentLine returns text as a comment line. It adds the slashes itself, because package jennifer treats text that
// starts with /* as a complete comment.
func commentLine(text string) string { return strings.TrimRight("// "+source.Visible(text), " ") }

// typeDoc adds the doc comment of a declared type. It consists of a first sentence, further lines and the author's
// description.
func (f *file) typeDoc(d *ir.Decl, what string, more ...string) {
	verb := " is "
	if isArguments(d) {
		verb = " are "
	}
	f.addDoc(withDoc(append([]string{d.Name + verb + what + "."}, more...), d.Doc, "the schema marks this type as deprecated.")...)
}

// isArguments reports whether a type represents the arguments of an event type or a task.
func isArguments(d *ir.Decl) bool { return strings.HasPrefix(d.Role, "the arguments of ") }

// withDoc appends the author's description and deprecation as separate paragraphs.
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

// textLines splits a description into lines, without characters that are invalid in a Go comment.
func textLines(text string) []string {
	lines := strings.Split(strings.Trim(source.Prose(lineEnds.Replace(text)), "\n\t "), "\n")
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, "\t ")
		if rest, ok := strings.CutPrefix(strings.TrimLeft(l, "\t "), "+build"); ok {
			lines[i] = `"+build"` + rest // otherwise gofmt makes it a build constraint of the file
		}
	}
	return lines
}

// oneLine joins the lines of a description or JSON, for use within a sentence.
func oneLine(text string) string { return strings.Join(strings.Fields(source.Visible(text)), " ") }
