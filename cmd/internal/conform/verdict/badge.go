package verdict

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// Badges look like other badges in READMEs.
const (
	badgeGreen, badgeRed, badgeGrey = "#2e7d32", "#c62828", "#555"
	// badgeChar is the assumed width of a character in SVG units. The attribute textLength makes the text fit.
	badgeChar, badgePad, badgeHeight = 7, 10, 20
)

// WriteBadge writes the report as an SVG badge for a README. The badge shows what was tested and the number of passed
// or failed checks, or that the run did not finish. It does not depend on an external service, so private projects can
// use it.
func (r *Report) WriteBadge(w io.Writer, what string) error {
	label, result, color := "MCP Events "+what, fmt.Sprintf("%d passed, %d skipped", r.Passed, r.Skipped), badgeGreen
	switch {
	case r.Failed > 0:
		result, color = fmt.Sprintf("%d failed of %d", r.Failed, r.Failed+r.Passed), badgeRed
	case r.Unfinished != nil:
		result, color = "not finished", badgeGrey
	}
	var title strings.Builder
	_ = xml.EscapeText(&title, []byte(label+", "+r.Target+": "+r.Summary())) // a Builder takes any text
	left, right := len(label)*badgeChar, len(result)*badgeChar
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" role="img">
<title>%[3]s</title>
<rect width="%[4]d" height="%[2]d" fill="%[5]s"/>
<rect x="%[4]d" width="%[6]d" height="%[2]d" fill="%[7]s"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="%[8]d" y="14" textLength="%[9]d">%[10]s</text>
<text x="%[11]d" y="14" textLength="%[12]d">%[13]s</text>
</g>
</svg>
`, left+right+4*badgePad, badgeHeight, title.String(), left+2*badgePad, badgeGrey, right+2*badgePad, color, badgePad, left,
		label, left+3*badgePad, right, result)
	return err
}
