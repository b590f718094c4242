package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

const noComments = "JSON has no comments"

// jsonError reports the syntax error in a .json file that is not valid JSON. The YAML parser would accept some of these
// files with a different meaning, or report errors in YAML terms.
func (p *parser) jsonError() bool {
	if !p.namedJSON() {
		return false
	}
	var v json.RawMessage
	var fault *json.SyntaxError
	if err := json.Unmarshal([]byte(p.src), &v); !errors.As(err, &fault) {
		return false
	}
	i := min(max(int(fault.Offset)-1, 0), len(p.src))
	rest := p.src[i:]
	_, size := utf8.DecodeRuneInString(rest)
	at := p.span(i, i+size)
	why := strings.TrimPrefix(fault.Error(), "invalid character ")
	switch {
	case strings.HasPrefix(rest, "//"), strings.HasPrefix(rest, "/*"), strings.HasPrefix(rest, "#"):
		p.report(New("MCPE101", at, "%s", noComments).WithHint("remove it, or name the file .yaml, where # begins a comment"))
	case strings.HasPrefix(rest, "'"):
		p.report(New("MCPE101", at, "JSON strings need double quotes").WithHint(`write "…" instead of '…'`))
	case strings.TrimSpace(rest) == "" || int(fault.Offset) >= len(p.src) && strings.HasPrefix(fault.Error(), "unexpected end"):
		p.report(New("MCPE101", p.span(len(p.src), len(p.src)), "the file ends within a value").WithHint("close what is open with }, ] or a quote"))
	case strings.HasSuffix(why, "after object key:value pair"), strings.HasSuffix(why, "after array element"):
		p.report(New("MCPE101", at, "a comma or a closing bracket is missing before %s", why[:strings.LastIndex(why, " after ")]))
	case strings.HasPrefix(rest, "}"), strings.HasPrefix(rest, "]"):
		p.report(New("MCPE101", at, "%s comes after a comma", rest[:1]).WithHint("remove the comma before it"))
	default:
		p.report(New("MCPE101", at, "this is not JSON: %s", fault.Error()))
	}
	return true
}

func (p *parser) namedJSON() bool { return strings.EqualFold(filepath.Ext(p.path), ".json") }

// keyValue matches a line with indentation, a key and an unquoted value.
var keyValue = regexp.MustCompile(`^( *(?:- +)*)([^\s"'\[\]{},#&*!|>%@][^"'\[\]{},#]*?): +([^\s"'\[{|>&*!#].*?)\s*$`)

// suggestFix returns a hint for fixing a YAML syntax error at a position, or "".
func (p *parser) suggestFix(message string, at Position) string {
	line := p.lineText(at.Line)
	before, here := []rune(line), rune(0)
	if at.Column <= len(before) {
		before, here = before[:at.Column-1], before[at.Column-1]
	}
	if m := keyValue.FindStringSubmatch(line); m != nil {
		switch value := m[3]; {
		case strings.Contains(value, ": ") || strings.HasSuffix(value, ":"),
			strings.HasPrefix(value, "- "), strings.HasPrefix(value, "? "), strings.IndexAny(value, "@`%") == 0:
			return "quote it: " + m[2] + ": " + quoteYAML(value)
		}
	}
	if m := quotedThenMore.FindStringSubmatch(line); m != nil {
		return "quote all of the value: " + strings.TrimSpace(m[1]) + ": " + quoteYAML(strings.Trim(m[2], `"'`)+m[3])
	}
	switch {
	case here == '@' || here == '`':
		return "quote the value: a text of YAML cannot begin with " + string(here)
	case tightColon.MatchString(line):
		return "put a space after the colon: " + tightColon.ReplaceAllString(line, "$1: $2")
	case strings.Contains(message, "quoted scalar"):
		return "close the text with the quote that it begins with"
	case strings.Contains(message, "parsing a flow node"):
		return "close what is open with ] or }, or quote a text that begins with [ or {"
	case strings.Contains(message, "',' or ']'"):
		return "close the list with ], or quote the value if it is a text that begins with ["
	case flowColon.MatchString(line):
		return `quote a text that contains ": "`
	case strings.Contains(message, "',' or '}'"):
		return "members stand between { and }, separated by commas; a text with one of these is quoted"
	}
	if hint := p.indentationHint(at.Line); hint != "" {
		return hint
	}
	if !strings.Contains(message, "mapping value") {
		return ""
	}
	if at.Line > 1 && !strings.Contains(string(before), ": ") {
		return "end the key of the line above with a colon, or quote its text"
	}
	return `quote a text that contains ": "`
}

// tightColon matches a line with a key and a value without a space between them.
var tightColon = regexp.MustCompile(`^ *(?:- +)*([A-Za-z][\w-]*):([^\s:/].*?)\s*$`)

// flowColon matches a member within braces that has an unquoted value with a colon.
var flowColon = regexp.MustCompile(`[{,] *[^\s"'\[\]{},#:]+: +[^\s"'\[\]{},#][^"'\[\]{},#]*?: `)

// quotedThenMore matches a line with text after a quoted value.
var quotedThenMore = regexp.MustCompile(`^( *(?:- +)*[^\s"'\[\]{},#]+): +("[^"]*"|'[^']*')( *[^\s,#\]}].*?)\s*$`)

// quoteYAML quotes s as a YAML string. It uses double quotes, or single quotes if s contains double quotes or
// backslashes.
func quoteYAML(s string) string {
	if utf8.RuneCountInString(s) > 60 {
		s = string([]rune(s)[:59]) + "…"
	}
	if strings.ContainsAny(s, `"\`) {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return `"` + s + `"`
}

// indentationHint returns a hint if the indentation of a line or the next line differs from that of the preceding line.
// If it does not, it returns "".
func (p *parser) indentationHint(line int) string {
	for _, l := range []int{line, line + 1} {
		if l > len(p.lines) {
			break
		}
		begin := keyColumn(p.lineText(l))
		for above := l - 1; above >= 1 && begin > 0; above-- {
			column := keyColumn(p.lineText(above))
			if column > 0 && column != begin {
				return fmt.Sprintf("check the indentation: line %d begins in column %d, line %d in column %d", above, column, l, begin)
			}
			if column > 0 {
				break
			}
		}
	}
	return ""
}

// keyColumn returns the column of the first character after indentation and list dashes. For a blank line or a comment,
// it returns 0.
func keyColumn(line string) int {
	rest := strings.TrimLeft(line, " ")
	for strings.HasPrefix(rest, "- ") {
		rest = strings.TrimLeft(rest[2:], " ")
	}
	if rest == "" || rest[0] == '#' {
		return 0
	}
	return len(line) - len(rest) + 1
}

// lineText returns the text of a line, as numbered by editors.
func (p *parser) lineText(line int) string {
	start := p.lines[line-1]
	return p.src[start:p.lineEnd(start)]
}
