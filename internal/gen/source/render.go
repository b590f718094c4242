package source

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A Format is an output format for diagnostics.
type Format string

// The formats.
const (
	Text Format = "text"
	JSON Format = "json"
	// GitHub writes a GitHub Actions workflow command on each line.
	GitHub Format = "github"
	// SARIF writes a single SARIF 2.1.0 log, which can be empty.
	SARIF Format = "sarif"
)

// WriteOptions configures [Write].
type WriteOptions struct {
	// Format is the output format. The default is Text.
	Format Format
	// Excerpt adds the source line and carets to text output, and moves hints to separate lines.
	Excerpt bool
	// Color adds ANSI escape codes to text output.
	Color bool
	// ReadFile returns the content of a file for excerpts. If it is nil, excerpts are omitted.
	ReadFile func(path string) ([]byte, error)
	// Describe returns the description of a code for SARIF. The default is [Lookup].
	Describe func(id string) (Code, bool)
}

// Write writes diagnostics in the given order. In text format, a diagnostic has the form `file:line:col: error MCPE103:
// message (hint)`. The format JSON has an object on each line, GitHub has a workflow command on each line, and SARIF is
// a single document.
func Write(w io.Writer, ds []Diagnostic, o WriteOptions) error {
	p := &printer{o: o, texts: make(map[string]*text)}
	if o.Format == SARIF {
		if err := p.writeSARIF(ds); err != nil {
			return err
		}
		ds = nil
	}
	for _, d := range ds {
		switch o.Format {
		case JSON:
			line, err := json.Marshal(d)
			if err != nil {
				return fmt.Errorf("writing a diagnostic as JSON: %w", err)
			}
			p.Write(line)
			p.WriteByte('\n')
		case GitHub:
			p.writeGitHub(d)
		default:
			p.writeText(d)
		}
	}
	_, err := io.WriteString(w, p.String())
	return err
}

type printer struct {
	strings.Builder
	o     WriteOptions
	texts map[string]*text
}

// ANSI escape codes for severities and highlighted text.
const (
	bold   = "1"
	red    = "1;31"
	yellow = "1;33"
	cyan   = "1;36"
)

func (p *printer) color(code, s string) string {
	if !p.o.Color {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p *printer) writeText(d Diagnostic) {
	tint := map[Severity]string{Error: red, Warning: yellow, Note: cyan}[d.Severity]
	fmt.Fprintf(p, "%s: %s: %s", p.color(bold, oneLine(d.Range.Start.String())), p.color(tint, d.Severity.String()+" "+d.Code), oneLine(d.Message))
	if d.Hint != "" && !p.o.Excerpt {
		fmt.Fprintf(p, " (%s)", oneLine(d.Hint))
	}
	p.WriteByte('\n')
	if p.o.Excerpt {
		p.writeExcerpt(d.Range, tint)
		if d.Hint != "" {
			fmt.Fprintf(p, "  = hint: %s\n", oneLine(d.Hint))
		}
	}
	for _, r := range d.Related {
		fmt.Fprintf(p, "  %s: %s\n", oneLine(r.Range.Start.String()), oneLine(r.Message))
	}
}

// oneLine escapes characters that would end the line, reorder it or control the terminal.
func oneLine(s string) string {
	if strings.IndexFunc(s, Hidden) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if Hidden(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// maxExcerpt is the maximum number of characters to display of a source line.
const maxExcerpt = 160

// writeExcerpt writes the first line of a range, and carets below the characters in the range. It truncates long lines.
func (p *printer) writeExcerpt(r Range, tint string) {
	t := p.fileText(r.Start)
	if t == nil {
		return
	}
	number := strconv.Itoa(r.Start.Line)
	start := t.lines[r.Start.Line-1]
	end := len(t.src)
	if r.Start.Line < len(t.lines) {
		end = start + len(strings.TrimRight(t.src[start:t.lines[r.Start.Line]], "\r\n"))
	}
	width := t.runesBefore(end) - t.runesBefore(start)
	if r.Start.Column == 0 {
		shown := t.src[start:min(end, t.skipCharacters(start, maxExcerpt))]
		fmt.Fprintf(p, "  %s | %s\n", number, oneLine(strings.ReplaceAll(shown, "\t", " ")))
		return
	}
	from := min(r.Start.Column-1, width)
	to := width
	if r.End.Line == r.Start.Line {
		to = min(max(r.End.Column-1, from), width)
	}
	first := 0
	if from > maxExcerpt/2 && width > maxExcerpt {
		first = from - maxExcerpt/2
	}
	last := min(width, first+maxExcerpt)
	to = min(to, last)
	shown := []rune(t.src[t.skipCharacters(start, first):t.skipCharacters(start, last)])
	for i, c := range shown {
		if Hidden(c) {
			shown[i] = ' '
		}
	}
	pad := strings.Repeat(" ", from-first)
	carets := strings.Repeat("^", max(1, to-from))
	fmt.Fprintf(p, "  %s | %s\n  %s | %s%s\n", number, string(shown), strings.Repeat(" ", len(number)), pad, p.color(tint, carets))
}

// fileText returns the text of the file that contains a position. If the text is not available, it returns nil.
func (p *printer) fileText(at Position) *text {
	if at.Line == 0 || p.o.ReadFile == nil {
		return nil
	}
	t, ok := p.texts[at.File]
	if !ok {
		if content, err := p.o.ReadFile(at.File); err == nil {
			t = newText(at.File, strings.TrimPrefix(strings.ToValidUTF8(string(content), "\uFFFD"), "\uFEFF"))
		}
		p.texts[at.File] = t
	}
	if t == nil || at.Line > len(t.lines) {
		return nil
	}
	return t
}
