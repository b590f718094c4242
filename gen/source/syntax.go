package source

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	goccy "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	goccyparser "github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// secondParser bounds the texts, in bytes, that are parsed a second time only to place a syntax error. That
// parser takes memory by the square of the nesting, so that it sees no more than maxDepth levels of it.
const secondParser = 1 << 16

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
	deep := strings.HasPrefix(message, "exceeded max depth")
	if tokens, ok := p.tokens(); ok {
		if beyond := deepToken(tokens); beyond != nil {
			at, deep = p.place(beyond), true
		} else if found, why, ok := p.secondOpinion(tokens); ok {
			at, message = found, why
		}
	}
	if deep {
		p.report(New("MCPE111", at, tooDeep, maxDepth))
		return
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

// tokens returns the words of a text that the second parser may see.
func (p *parser) tokens() (list token.Tokens, ok bool) {
	if len(p.src) > secondParser {
		return nil, false
	}
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return lexer.Tokenize(p.src), true
}

// deepToken returns the token that opens one level more than maxDepth, nil if none does. Each dash of a
// line opens a level.
func deepToken(tokens token.Tokens) *token.Token {
	brackets, dashes, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			dashes, line = 0, t.Position.Line
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets--
		case token.SequenceEntryType, token.MappingKeyType:
			dashes++
		}
		if brackets+dashes > maxDepth {
			return t
		}
	}
	return nil
}

// secondOpinion returns what the second parser says of a text, and where.
func (p *parser) secondOpinion(tokens token.Tokens) (at Range, message string, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	_, err := goccyparser.Parse(tokens, 0)
	var e goccy.Error
	if !errors.As(err, &e) || e.GetToken() == nil || e.GetToken().Position == nil {
		return at, "", false
	}
	if line := e.GetToken().Position.Line; line < 1 || line > len(p.lines) {
		return at, "", false
	}
	return p.place(e.GetToken()), e.GetMessage(), true
}

// place returns the position of a token, without a column that its line does not have.
func (p *parser) place(t *token.Token) Range {
	at := InFile(p.path)
	at.Start.Line = min(t.Position.Line, len(p.lines))
	if width := utf8.RuneCountInString(p.lineText(at.Start.Line)); t.Position.Column >= 1 && t.Position.Column <= width+1 {
		at.Start.Column = t.Position.Column
	}
	at.End = at.Start
	return at
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
