package yaml

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// lineWidth is the maximum width of a line with {…} or […], in characters.
const lineWidth = 100

// A printer writes nodes as YAML. Parsing the output with package source results in equal JSON.
type printer struct{ strings.Builder }

// multilineKeys lists the keys of objects that always have one member per line for readability.
var multilineKeys = []string{"properties", "$defs", "definitions", "inputSchema", "payloadSchema"}

// writeBlock writes the members or elements of n on separate lines with the given indentation.
func (p *printer) writeBlock(n *source.Node, indent int) {
	margin := strings.Repeat(" ", indent)
	for _, item := range n.Items {
		p.WriteString(margin + "- ")
		if isContainer(item) && !p.fitsOnLine(item, indent+2) {
			// The first line of the element follows the dash.
			var inner printer
			inner.writeBlock(item, indent+2)
			p.WriteString(inner.String()[indent+2:])
			continue
		}
		p.writeValue(item, indent, indent+2)
	}
	for _, m := range n.Members {
		key := Scalar(m.Key)
		p.WriteString(margin + key + ":")
		if isContainer(m.Value) && (!p.fitsOnLine(m.Value, indent+len(key)+2) || slices.Contains(multilineKeys, m.Key) && isNested(m.Value)) {
			p.WriteByte('\n')
			p.writeBlock(m.Value, indent+2)
			continue
		}
		p.WriteByte(' ')
		p.writeValue(m.Value, indent, indent+len(key)+2)
	}
}

// writeValue writes a scalar or a short container and ends the line.
func (p *printer) writeValue(n *source.Node, indent, column int) {
	if n.Kind == source.String {
		if text, ok := literalBlock(n.Text, indent+2); ok {
			p.WriteString(text)
			return
		}
		p.WriteString(scalar(n.Text, false))
	} else {
		p.WriteString(formatFlow(n))
	}
	p.WriteByte('\n')
}

func isContainer(n *source.Node) bool {
	return n.Kind == source.Array && len(n.Items) > 0 || n.Kind == source.Object && len(n.Members) > 0
}

// isNested reports whether n contains an array or object.
func isNested(n *source.Node) bool {
	return slices.ContainsFunc(n.Items, isContainer) ||
		slices.ContainsFunc(n.Members, func(m source.Member) bool { return isContainer(m.Value) })
}

// isMultiline reports whether n is a string that can be written as a literal block.
func isMultiline(n *source.Node) bool {
	_, ok := literalBlock(n.Text, 0)
	return n.Kind == source.String && ok
}

// fitsOnLine reports whether n can be written on one line.
func (p *printer) fitsOnLine(n *source.Node, column int) bool {
	if slices.ContainsFunc(n.Members, func(m source.Member) bool { return isNested(m.Value) || isMultiline(m.Value) }) || slices.ContainsFunc(n.Items, isNested) {
		return false
	}
	text := formatFlow(n)
	return column+utf8.RuneCountInString(text) <= lineWidth
}

// formatFlow returns n as YAML on one line.
func formatFlow(n *source.Node) string {
	var parts []string
	switch n.Kind {
	case source.String:
		return scalar(n.Text, true)
	case source.Array:
		for _, item := range n.Items {
			parts = append(parts, formatFlow(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case source.Object:
		for _, m := range n.Members {
			parts = append(parts, Scalar(m.Key)+": "+formatFlow(m.Value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return string(n.JSON())
}

// literalBlock returns a multiline string as a literal block. It returns false if the string cannot be written that
// way.
func literalBlock(s string, indent int) (string, bool) {
	body := strings.TrimSuffix(s, "\n")
	if !strings.Contains(body, "\n") || !isPrintable(s, "\n") || strings.HasPrefix(body, " ") || strings.HasSuffix(body, "\n") || strings.HasPrefix(body, "\n") {
		return "", false
	}
	var b strings.Builder
	b.WriteString("|")
	if body == s {
		b.WriteString("-")
	}
	b.WriteByte('\n')
	for line := range strings.SplitSeq(body, "\n") {
		if strings.TrimSpace(line) == "" && line != "" {
			return "", false // an editor would remove this white space
		}
		if line != "" {
			b.WriteString(strings.Repeat(" ", indent) + line)
		}
		b.WriteByte('\n')
	}
	return b.String(), true
}

var (
	// plainWord matches text without a special meaning in any YAML context.
	plainWord = regexp.MustCompile(`^[\pL_/$(]([\pL\pN_./$+();-]| [\pL\pN_(/+-])*$`)
	// plainText matches text without a special meaning in block context.
	plainText = regexp.MustCompile(`^[\pL_/(][^\x00-\x1f"'\\{}\[\]]*$`)
)

// reservedWords lists words that some YAML parsers do not treat as strings.
var reservedWords = []string{"null", "true", "false", "yes", "no", "on", "off"}

// Scalar returns s as a single-line YAML scalar that is valid as a value and as a key.
func Scalar(s string) string { return scalar(s, true) }

// scalar returns a single-line string. Within {…} and […], more strings require quotes.
func scalar(s string, inFlow bool) string {
	switch {
	case slices.Contains(reservedWords, strings.ToLower(s)):
	case plainWord.MatchString(s):
		return s
	case !inFlow && plainText.MatchString(s) && isPrintable(s, "") && !strings.Contains(s, ": ") && !strings.Contains(s, " #") &&
		!strings.HasSuffix(s, ":") && !strings.HasSuffix(s, " "):
		return s
	}
	if isPrintable(s, "") {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case Shown(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			fmt.Fprintf(&b, `\U%08X`, r)
		default:
			fmt.Fprintf(&b, `\u%04X`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// isPrintable reports whether s can be written without escapes. also lists additional allowed characters.
func isPrintable(s, also string) bool {
	for _, r := range s {
		if !Shown(r) && !strings.ContainsRune(also, r) {
			return false
		}
	}
	return true
}

// Shown reports whether r is a visible character or a space. Editors and terminals hide or interpret other characters,
// such as direction controls.
func Shown(r rune) bool { return !plain.Hidden(r) }
