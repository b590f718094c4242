package main

import (
	"errors"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// writePage replaces the text between these lines.
const (
	pageBegin = "<!-- rows: written by make bench UPDATE=1 -->\n"
	pageEnd   = "<!-- end of rows -->\n"
)

// chartFile is the chart's path relative to the page.
const chartFile = "images/benchmarks.svg"

// writePage writes the rows and about between the two marker lines of a Markdown page. about describes how the rows
// were measured. It also writes a chart of the rows to chartFile. If the page does not have the markers, it writes
// nothing.
func writePage(path, about string, rows []row) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), pageBegin)
	_, after, closed := strings.Cut(rest, pageEnd)
	if !ok || !closed {
		return fmt.Errorf("%s has no lines %q and %q", path, strings.TrimSpace(pageBegin), strings.TrimSpace(pageEnd))
	}
	var b strings.Builder
	b.WriteString(before + pageBegin + about + "\n\n![Each ratio against its target](" + chartFile + ")\n\n" +
		tableLine(columns) + strings.Repeat("|---", len(columns)) + "|\n")
	for _, r := range rows {
		b.WriteString(tableLine(r.cells()))
	}
	b.WriteString(pageEnd + after)
	image := filepath.Join(filepath.Dir(path), filepath.FromSlash(chartFile))
	return errors.Join(os.WriteFile(image, []byte(chart(rows)), 0o666), os.WriteFile(path, []byte(b.String()), 0o666))
}

// tableLine returns a line of a table.
func tableLine(cells []string) string {
	line := ""
	for _, text := range cells {
		line += "| " + strings.NewReplacer("|", "\\|", "\n", " ").Replace(text) + " "
	}
	return line + "|\n"
}

// targetRatio returns the ratio of a row relative to its target. At 1 it meets the target, and more is better. It
// returns false if the row does not have a target.
func targetRatio(r row) (float64, bool) {
	sign, number, _ := strings.Cut(r.target, " ")
	target, err := strconv.ParseFloat(number, 64)
	if r.most > 0 {
		sign, target, err = "≤", 1, nil
	}
	ratio := r.ratio()
	if err != nil || target <= 0 || ratio <= 0 || math.IsInf(ratio, 0) || math.IsNaN(ratio) {
		return 0, false
	}
	switch sign {
	case "≥":
		return ratio / target, true
	case "≤":
		return target / ratio, true
	}
	return 0, false
}

// The dimensions of the chart in pixels.
const (
	chartWidth = 860
	labelWidth = 500
	rowHeight  = 22
)

// chart returns an SVG with a bar for each row that has a target. The line is the target. A bar that reaches the edge
// is at least twice as good. The colors follow the reader's color scheme. The chart has a background, because the page
// may have a different color scheme than the reader's system.
func chart(rows []row) string {
	var b strings.Builder
	n := 0
	const unit = (chartWidth - labelWidth - 60) / 2 // of the target
	for _, r := range rows {
		x, ok := targetRatio(r)
		if !ok {
			continue
		}
		y := n * rowHeight
		class := "good"
		if x < 1 {
			class = "bad"
		}
		width := min(x, 2) * unit
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text><rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.0f\" height=\"14\"/>"+
			"<text x=\"%.0f\" y=\"%d\">%.2f</text>\n",
			labelWidth-8, y+15, html.EscapeString(shorten(r.what)), class, labelWidth, y+4, width, labelWidth+width+6, y+15, r.ratio())
		n++
	}
	height := n * rowHeight
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%[1]d\" role=\"img\" aria-label=\"Each ratio against its target\">\n"+
		"<style>text{font:12px sans-serif;fill:#1f2328}.good{fill:#1a7f37}.bad{fill:#bc4c00}.back{fill:#fff}line{stroke:#1f2328;stroke-dasharray:3 3}\n"+
		"@media(prefers-color-scheme:dark){text{fill:#e6edf3}.good{fill:#3fb950}.bad{fill:#f0883e}.back{fill:#0d1117}line{stroke:#e6edf3}}</style>\n"+
		"<rect class=\"back\" width=\"100%%\" height=\"100%%\"/>\n%[3]s<line x1=\"%[4]d\" x2=\"%[4]d\" y1=\"0\" y2=\"%[2]d\"/></svg>\n", chartWidth, max(height, rowHeight), b.String(), labelWidth+unit)
}

// shorten truncates a label so that it fits.
func shorten(text string) string {
	if r := []rune(text); len(r) > 76 {
		return string(r[:75]) + "…"
	}
	return text
}
