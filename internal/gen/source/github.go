package source

import (
	"fmt"
	"strings"
)

// writeGitHub writes a diagnostic as a workflow command. GitHub Actions displays it next to the line in a pull request.
// GitHub reads commands from standard output and standard error.
func (p *printer) writeGitHub(d Diagnostic) {
	level := map[Severity]string{Error: "error", Warning: "warning", Note: "notice"}[d.Severity]
	var place []string
	add := func(key, value string) {
		place = append(place, key+"="+commandProperty.Replace(value))
	}
	at := d.Range
	add("file", at.Start.File)
	if at.Start.Line > 0 {
		add("line", fmt.Sprint(at.Start.Line))
		if at.End.Line > at.Start.Line {
			add("endLine", fmt.Sprint(at.End.Line))
		}
	}
	if at.Start.Column > 0 {
		add("col", fmt.Sprint(at.Start.Column))
		if at.End.Line == at.Start.Line && at.End.Column > at.Start.Column {
			add("endColumn", fmt.Sprint(at.End.Column-1)) // inclusive in GitHub
		}
	}
	if d.Code != "" {
		add("title", d.Code)
	}
	message := d.Message
	if d.Hint != "" {
		message += " (" + d.Hint + ")"
	}
	if d.Silenced != "" {
		message += " (silenced: " + d.Silenced + ")"
	}
	for _, r := range d.Related {
		message += fmt.Sprintf("\n%s: %s", r.Range.Start, r.Message)
	}
	fmt.Fprintf(p, "::%s %s::%s\n", level, strings.Join(place, ","), CommandData(message))
}

var (
	commandProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	commandData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
)

// CommandData escapes the message of a workflow command of GitHub Actions.
func CommandData(s string) string { return commandData.Replace(s) }
