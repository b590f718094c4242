package source

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	goccy "github.com/goccy/go-yaml"
	goccyparser "github.com/goccy/go-yaml/parser"
)

// secondParser bounds the texts that are parsed a second time only to place a syntax error.
const secondParser = 1 << 20

var unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// syntaxError reports why the text is no YAML. yaml.v3 knows a line at most, and within flow
// collections one that is a little early; a second parser is asked for the place. A column that
// neither knows is left out.
func (p *parser) syntaxError(err error) {
	if p.jsonError() {
		return
	}
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		line, _ = strconv.Atoi(m[1])
		message = strings.TrimPrefix(err.Error(), m[0])
	} else if strings.HasPrefix(err.Error(), "yaml: ") {
		line = 1 // of the first line yaml.v3 does not speak
	}
	if d, ok := p.tab(line); ok {
		p.report(d)
		return
	}
	if m := unknownAnchor.FindStringSubmatch(message); m != nil {
		if at, ok := p.aliasOf(m[1]); ok {
			p.report(New("MCPE109", at, "there is no anchor &%s before this", m[1]))
			return
		}
	}
	at := InFile(p.path)
	if line > 0 {
		at.Start.Line = min(line, len(p.lines))
		at.End = at.Start
	}
	if found, why, ok := p.secondOpinion(); ok {
		at, message = found, why
	}
	if at.Start.Line > 0 && at.Start.Column == 0 {
		if m := keyValue.FindStringSubmatchIndex(p.lineText(at.Start.Line)); m != nil {
			at.Start.Column = utf8.RuneCountInString(p.lineText(at.Start.Line)[:m[6]]) + 1 // of the value
			at.End = at.Start
		}
	}
	d := New("MCPE101", at, "%s", message)
	if hint := p.remedy(message, at.Start); hint != "" {
		d = d.WithHint("%s", hint)
	}
	p.report(d)
}

// tab finds the tab in the indentation of the line, or of the one after it: yaml.v3 counts from
// either.
func (p *parser) tab(line int) (Diagnostic, bool) {
	for l := line; l <= line+1; l++ {
		if l < 1 || l > len(p.lines) {
			continue
		}
		start := p.lines[l-1]
		text := p.src[start:p.lineEnd(start)]
		blank := text[:len(text)-len(strings.TrimLeft(text, " \t"))]
		if i := strings.IndexByte(blank, '\t'); i >= 0 && len(blank) < len(text) {
			return New("MCPE101", p.span(start+i, start+i+1), "YAML cannot be indented with tabs").WithHint("indent with spaces"), true
		}
	}
	return Diagnostic{}, false
}

func (p *parser) secondOpinion() (at Range, message string, ok bool) {
	if len(p.src) > secondParser {
		return at, "", false
	}
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	_, err := goccyparser.ParseBytes([]byte(p.src), 0)
	var e goccy.Error
	if !errors.As(err, &e) || e.GetToken() == nil || e.GetToken().Position == nil {
		return at, "", false
	}
	pos := e.GetToken().Position
	if pos.Line < 1 || pos.Line > len(p.lines) {
		return at, "", false
	}
	start := p.lines[pos.Line-1]
	width := len([]rune(p.src[start:p.lineEnd(start)]))
	at = InFile(p.path)
	at.Start.Line = pos.Line
	if pos.Column >= 1 && pos.Column <= width+1 {
		at.Start.Column = pos.Column
	}
	at.End = at.Start
	return at, e.GetMessage(), true
}

// aliasOf returns the place of the only text that can be an alias of the name.
func (p *parser) aliasOf(name string) (Range, bool) {
	found := -1
	for i := 0; ; {
		n := strings.Index(p.src[i:], "*"+name)
		if n < 0 {
			break
		}
		at := i + n
		i = at + 1 + len(name)
		if (at == 0 || strings.IndexByte(" \t\r\n,[{", p.src[at-1]) >= 0) && p.wordEnd(at) == i {
			if found >= 0 {
				return Range{}, false
			}
			found = at
		}
	}
	if found < 0 {
		return Range{}, false
	}
	return p.span(found, found+1+len(name)), true
}
