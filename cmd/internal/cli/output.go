package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Print writes a verb's result to standard output in a single write. A failed write is an error, so truncated output in
// a pipe or on a full disk does not look like success.
func (p *Program) Print(result []byte) error {
	if _, err := p.Stdout.Write(result); err != nil {
		return fmt.Errorf("writing to standard output: %w", err)
	}
	return nil
}

// Printf prints a progress line unless -q was given.
func (p *Program) Printf(format string, args ...any) error {
	if p.Quiet {
		return nil
	}
	return p.Print(fmt.Appendf(nil, format, args...))
}

// PrintJSON prints a verb's result for --format json, on one line like a diagnostic.
func (p *Program) PrintJSON(v any) error { return p.encode(v, "") }

// PrintDocument prints an indented JSON document.
func (p *Program) PrintDocument(v any) error { return p.encode(v, "  ") }

func (p *Program) encode(v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	return p.Print(b.Bytes())
}

// Excerpts reports whether diagnostics on the given writer include source lines for a human reader. With --color
// always, a pipe counts as a terminal.
func (p *Program) Excerpts(to io.Writer) bool {
	if p.Color == "always" {
		return true
	}
	f, ok := to.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Colored reports whether output on the given writer is colored. In mode auto, it respects NO_COLOR (no-color.org) and
// TERM=dumb.
func (p *Program) Colored(to io.Writer) bool {
	switch p.Color {
	case "always":
		return true
	case "never":
		return false
	}
	return p.Excerpts(to) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
