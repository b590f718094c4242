package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// Markdown writes the page as GitHub-flavored Markdown.
func (p *Page) Markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n", escapeInline(p.Title))
	b.WriteString("| Event | What it tells | Delivery |\n|---|---|---|\n")
	for _, e := range p.Events {
		fmt.Fprintf(&b, "| [%s](#%s)%s | %s | %s |\n", escapeInline(e.Name), e.Anchor, e.marks(), escapeCell(firstSentence(e.Description)), strings.Join(e.Delivery, ", "))
	}
	if p.Since != "" {
		p.markdownChanges(&b)
	}
	for _, e := range p.Events {
		e.markdown(&b)
	}
	if len(p.Modes) > 0 {
		b.WriteString("\n## Delivery\n")
	}
	for _, m := range p.Modes {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n```mermaid\n%s```\n", m.Title, m.Text, m.Diagram.Mermaid())
	}
	if len(p.Overrides) > 0 {
		b.WriteString("\n## Overrides\n\nThe schemas on this page differ from their files here:\n\n| File | Place | Change |\n|---|---|---|\n")
	}
	for _, o := range p.Overrides {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", formatCode(o.File), formatCode(o.At), escapeCell(o.Does))
	}
	return []byte(source.Visible(b.String()))
}

func (p *Page) markdownChanges(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n## Changes since %s\n\n", escapeInline(p.Since))
	if len(p.Changes) == 0 {
		b.WriteString("None.\n")
	}
	for _, c := range p.Changes {
		name := "`" + c.Event + "`"
		if c.Anchor != "" {
			name = fmt.Sprintf("[%s](#%s)", escapeInline(c.Event), c.Anchor)
		}
		fmt.Fprintf(b, "- %s\n", name)
		for _, n := range c.Notes {
			mark := ""
			if n.Breaking {
				mark = "**breaking:** "
			}
			fmt.Fprintf(b, "  - %s%s\n", mark, escapeInline(n.Text))
		}
	}
}

func (e Event) marks() string {
	var marks string
	if e.Deprecated != nil {
		marks += " (deprecated)"
	}
	if e.Experimental {
		marks += " (experimental)"
	}
	return marks
}

func (e Event) markdown(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n<a id=\"%s\"></a>\n\n## %s\n\n%s\n\n", e.Anchor, escapeInline(e.Name), paragraphs(e.Description))
	if e.Deprecated != nil {
		fmt.Fprintf(b, "> **Deprecated.** %s\n\n", escapeInline(e.Farewell()))
	}
	if e.Experimental {
		b.WriteString("> **Experimental:** it may change in any way.\n\n")
	}
	fmt.Fprintf(b, "Delivery: %s. Events are %s%s.\n", strings.Join(e.Delivery, ", "), e.Sources(), e.Keeping())
	if e.Actor != "" {
		fmt.Fprintf(b, "\nWho caused an event: %s.\n", formatCode(e.Actor))
	}
	if e.Coalesce != "" {
		fmt.Fprintf(b, "\n%s\n", escapeInline(e.Coalesce))
	}
	fmt.Fprintf(b, "\n### Arguments of %s\n\n", escapeInline(e.Name))
	markdownTable(b, e.Arguments, "It takes no arguments.")
	fmt.Fprintf(b, "\n### Payload of %s\n\n", escapeInline(e.Name))
	markdownTable(b, e.Payload, "The payload has no described members.")
	if e.Example != nil {
		fmt.Fprintf(b, "\nAn example, as it is delivered:\n\n```json\n%s\n```\n", indented(e.Example))
	}
	fmt.Fprintf(b, "\nTo see it arrive:\n\n```sh\n%s\n```\n", e.Command())
}

func markdownTable(b *bytes.Buffer, rows []Row, none string) {
	if len(rows) == 0 {
		b.WriteString(none + "\n")
		return
	}
	b.WriteString("| Name | Type | |\n|---|---|---|\n")
	for _, r := range rows {
		if r.Variant != "" {
			fmt.Fprintf(b, "| *%s* | | |\n", escapeCell(r.Variant))
			continue
		}
		name := formatCode(r.Path)
		if r.Required {
			name += " required"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", name, escapeCell(r.Type), r.details())
	}
}

// details returns the table cell with the description and constraints of a member.
func (r Row) details() string {
	var parts []string
	if r.Description != "" {
		parts = append(parts, escapeCell(r.Description))
	}
	if r.Deprecated {
		parts = append(parts, "**Deprecated.**")
	}
	if r.Filter != "" {
		parts = append(parts, "Filter: "+escapeCell(r.Filter)+".")
	}
	var facts []string
	if len(r.Values) > 0 {
		var values []string
		for _, v := range r.Values {
			values = append(values, formatCode(v))
		}
		facts = append(facts, strings.Join(values, ", "))
	}
	for _, l := range r.Limits {
		facts = append(facts, escapeCell(l))
	}
	if r.Default != "" {
		facts = append(facts, "default "+formatCode(r.Default))
	}
	if len(facts) > 0 {
		parts = append(parts, strings.Join(facts, "; ")+".")
	}
	return strings.Join(parts, " ")
}

// Farewell describes the removal of a deprecated event.
func (e Event) Farewell() string {
	var parts []string
	if by := e.Deprecated.ReplacedBy; by != "" {
		parts = append(parts, "Use "+by+" instead.")
	}
	if date := e.Deprecated.RemoveAfter; date != "" {
		parts = append(parts, "It may be removed after "+date+".")
	}
	if len(parts) == 0 {
		return "Do not use it in new programs."
	}
	return strings.Join(parts, " ")
}

// Keeping describes whether subscribers can replay missed events.
func (e Event) Keeping() string {
	if e.Replay {
		return "; missed events can be replayed from a cursor"
	}
	return "; missed events cannot be replayed"
}

var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "|", `\|`, "[", `\[`, "]", `\]`, "*", `\*`, "_", `\_`, "`", "\\`", "\\", `\\`)

// escapeInline joins the lines of s and escapes Markdown syntax.
func escapeInline(s string) string { return escapes.Replace(strings.Join(strings.Fields(s), " ")) }

// escapeCell returns s in a form that is valid in a table cell.
func escapeCell(s string) string { return escapeInline(s) }

// paragraphs escapes Markdown syntax in s and preserves paragraphs.
func paragraphs(s string) string {
	var parts []string
	for _, p := range splitParagraphs(s) {
		parts = append(parts, escapeInline(p))
	}
	return strings.Join(parts, "\n\n")
}

func splitParagraphs(s string) []string {
	var parts []string
	for p := range strings.SplitSeq(strings.ReplaceAll(s, "\r\n", "\n"), "\n\n") {
		if p = strings.TrimSpace(p); p != "" {
			parts = append(parts, p)
		}
	}
	return parts
}

// formatCode formats s as inline code that is valid in a table cell.
func formatCode(s string) string {
	s = source.Visible(s)
	s = strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}

func firstSentence(s string) string {
	parts := splitParagraphs(s)
	if len(parts) == 0 {
		return ""
	}
	if i := strings.Index(parts[0], ". "); i > 0 {
		return parts[0][:i+1]
	}
	return parts[0]
}

// indented returns indented JSON.
func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}
