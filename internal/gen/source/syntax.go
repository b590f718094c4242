package source

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// errTooDeep is the parser error for a document that exceeds maxDepth.
var errTooDeep = fmt.Errorf(tooDeepMessage, maxDepth)

// parserLimits limits the nesting depth in the YAML parser. It also prevents the parser from expanding aliases, which
// the converter does with a separate limit.
var parserLimits = loaderlimits.New(loaderlimits.AliasNone(), loaderlimits.DepthFunc(func(depth int, _ *loaderlimits.DepthContext) error {
	if depth > maxDepth {
		return errTooDeep
	}
	return nil
}))

// syntaxError reports a YAML syntax error.
func (p *parser) syntaxError(err error) {
	fault, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		p.report(New("MCPE101", InFile(p.path), "%s", err))
		return
	}
	at, message := p.locateFault(fault)
	switch {
	case fault.Message == errTooDeep.Error():
		p.report(New("MCPE111", p.span(at, at), "%s", message))
		return
	case p.isIndentingTab(at):
		p.report(New("MCPE101", p.span(at, at+1), "YAML cannot be indented with tabs").WithHint("indent with spaces"))
		return
	case fault.Stage == yaml.ComposerStage && strings.HasPrefix(p.src[at:], "*"):
		alias := p.src[at:p.wordEnd(at)]
		p.report(New("MCPE109", p.span(at, at+len(alias)), "anchor &%s is not defined before this", alias[1:]))
		return
	}
	for _, find := range []func(at int) (Diagnostic, bool){p.conflictMarker, p.wideSpace, p.commentedValue} {
		if d, ok := find(at); ok {
			p.report(d)
			return
		}
	}
	d := New("MCPE101", p.span(at, at), "%s", message)
	if hint := p.suggestFix(message, d.Range.Start); hint != "" {
		d = d.WithHint("%s", hint)
	}
	p.report(d)
}

// conflictMarker returns a diagnostic if a line is a conflict marker of Git.
func (p *parser) conflictMarker(int) (Diagnostic, bool) {
	for i, start := range p.lines {
		if line := p.lineText(i + 1); conflict.MatchString(line) {
			return New("MCPE101", p.span(start, start+len(line)), "this is a conflict marker of Git").
				WithHint("keep one of the two versions, and delete the lines with <<<<<<<, ======= and >>>>>>>"), true
		}
	}
	return Diagnostic{}, false
}

var conflict = regexp.MustCompile(`^(<<<<<<< |>>>>>>> |\|{7} |=======$)`)

// wideSpace returns a diagnostic if the indentation at an offset, or of the line above, contains a character that looks
// like a space and that YAML reads as text, such as a no-break space.
func (p *parser) wideSpace(at int) (Diagnostic, bool) {
	line := p.span(at, at).Start.Line
	for l := line; l >= max(1, line-1); l-- {
		start := p.lines[l-1]
		if m := wideIndentation.FindStringSubmatchIndex(p.lineText(l)); m != nil {
			found := p.src[start+m[2] : start+m[3]]
			return New("MCPE101", p.span(start+m[2], start+m[3]), "YAML cannot be indented with the character %U", []rune(found)[0]).
				WithHint("indent with spaces"), true
		}
	}
	return Diagnostic{}, false
}

// wideIndentation matches the first character in the indentation of a line that only looks like a space.
var wideIndentation = regexp.MustCompile(`^ *([\x{a0}\x{1680}\x{2000}-\x{200b}\x{202f}\x{205f}\x{3000}])`)

// commentedValue returns a diagnostic if a value within braces starts with #, as in {$ref: #/schemas/Task}. YAML treats
// the value and the closing brace as a comment.
func (p *parser) commentedValue(int) (Diagnostic, bool) {
	for i, start := range p.lines {
		m := commentValue.FindStringSubmatchIndex(p.lineText(i + 1))
		if m == nil {
			continue
		}
		key, value := p.src[start+m[2]:start+m[3]], p.src[start+m[4]:start+m[5]]
		return New("MCPE101", p.span(start+m[4], start+m[5]), "the line from # on is a comment, so that %s has no value", key).
			WithHint("quote it: %s: '%s'", key, value), true
	}
	return Diagnostic{}, false
}

// commentValue matches a line with a member value that starts with #, and a closing brace after the value.
var commentValue = regexp.MustCompile(`^(?:(?:[^#'"]|'[^']*'|"[^"]*")*[{,])? *([^\s"'\[\]{},#:]+): +(#[^\s,}\]'"]+)[^}]*}`)

// locateFault returns the offset and message of a parser error. For an error at the end of the text or in a key without
// a colon, it returns the offset of the enclosing value or key.
func (p *parser) locateFault(fault *yaml.LoadError) (at int, message string) {
	end := len(strings.TrimRight(p.src, " \t\r\n"))
	at = p.yamlOffset(fault.Mark.Line, fault.Mark.Column)
	if fault.ContextMark.Line > 0 && (at >= end || fault.ContextMsg == "while scanning a simple key") {
		return min(p.yamlOffset(fault.ContextMark.Line, fault.ContextMark.Column), end), fault.Message + " " + fault.ContextMsg
	}
	return min(at, end), fault.Message
}

// isIndentingTab reports whether the character at an offset is a tab in the indentation of a line.
func (p *parser) isIndentingTab(at int) bool {
	before := p.src[:at]
	return strings.HasPrefix(p.src[at:], "\t") && strings.Trim(before[strings.LastIndexAny(before, "\r\n")+1:], " ") == ""
}
