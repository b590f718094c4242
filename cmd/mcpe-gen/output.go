package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// print writes a verb's result to standard output in one go. Output that could not be written is a
// failure: a pipe or a disk that swallowed half a schema must not look like success.
func (c *command) print(result []byte) error {
	if _, err := c.stdout.Write(result); err != nil {
		return fmt.Errorf("writing to standard output: %w", err)
	}
	return nil
}

// printf writes one line of progress, unless -q was given.
func (c *command) printf(format string, args ...any) error {
	if c.quiet {
		return nil
	}
	return c.print(fmt.Appendf(nil, format, args...))
}

// printJSON writes an indented JSON document.
func (c *command) printJSON(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	return c.print(b.Bytes())
}

// excerpts reports whether diagnostics are read by a person: then they come with their source line.
// --color always asks for the same in a pipe.
func (c *command) excerpts(to io.Writer) bool {
	if c.color == "always" {
		return true
	}
	f, ok := to.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// colored reports whether diagnostics on standard error carry color.
func (c *command) colored() bool { return c.coloredOn(c.stderr) }

// coloredOn reports whether what is written there carries color. NO_COLOR (no-color.org) and
// TERM=dumb are obeyed in mode auto.
func (c *command) coloredOn(to io.Writer) bool {
	switch c.color {
	case "always":
		return true
	case "never":
		return false
	}
	return c.excerpts(to) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
