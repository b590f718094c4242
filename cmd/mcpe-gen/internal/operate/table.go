package operate

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

const (
	// tableWidth is the maximum width of a table in characters.
	tableWidth = 120
	// minLast is the minimum width of the last column if its values need it.
	minLast = 24
	// shortID is the length of a subscription ID in a table. Verbs accept a unique prefix.
	shortID = len("sub_") + 8
)

// isTime reports whether a member of a response is a time.
func isTime(name string) bool {
	return strings.HasSuffix(name, "At") || strings.HasSuffix(name, "Since") || name == "asOf" || slices.Contains([]string{"at", "since", "until", "timestamp", "terminated"}, name)
}

// timeText converts an RFC 3339 time to the form of [plain.Time]. It returns any other text unchanged.
func timeText(text string) string {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return plain.Time(at)
}

// setFailure replaces the category of a failure by the HTTP status of the endpoint, if it responded.
func setFailure(m map[string]any, category, status string) {
	if text, ok := m[category].(string); ok {
		n, _ := m[status].(float64)
		m[category] = operator.FailureText(text, int(n))
	}
}

// formatMember returns the value of a member of a response with times, durations and failures as text, except within
// payloads and arguments.
func formatMember(name string, value any) any {
	switch v := value.(type) {
	case string:
		if isTime(name) {
			return timeText(v)
		}
	case float64:
		if strings.HasSuffix(name, "Ms") {
			return plain.Duration(time.Duration(v * float64(time.Millisecond)))
		}
	case map[string]any:
		for member := range v {
			if member != "data" && member != "arguments" {
				v[member] = formatMember(member, v[member])
			}
		}
		setFailure(v, "lastError", "lastStatus")
		setFailure(v, "category", "status")
	case []any:
		for i := range v {
			v[i] = formatMember(name, v[i])
		}
	}
	return value
}

// valueText formats a value on one line. It escapes all invisible characters because subscribers choose the value.
func valueText(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case string:
		return plain.Text(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return plain.Text(string(b))
}

// title returns the heading of a column or member.
func title(name string) string { return strings.TrimSuffix(name, "Ms") }

// cellText formats a value in a table. It shortens the IDs of subscriptions.
func cellText(name string, v any) string {
	text := valueText(v)
	if strings.HasPrefix(text, "sub_") && (name == "id" || name == "subscription") {
		return plain.Cut(text, shortID)
	}
	return text
}

// keptWidth returns the width that a column keeps while another column can be cut. Times and IDs fit in theirs.
func keptWidth(name string) int {
	if isTime(name) || name == "id" {
		return 36
	}
	return 4
}

// printAll prints a table that is at most tableWidth wide. The last column continues on further lines. Long values of
// other columns are cut, those of the widest column first.
func printAll(w io.Writer, columns []string, rows []map[string]any) error {
	widths, table := make([]int, len(columns)), make([][]string, len(rows)+1)
	for i, name := range columns {
		table[0] = append(table[0], title(name))
		for n, r := range rows {
			table[n+1] = append(table[n+1], cellText(name, r[name]))
		}
		for _, cells := range table {
			widths[i] = max(widths[i], min(utf8.RuneCountInString(cells[i]), tableWidth))
		}
	}
	last := len(columns) - 1
	room := tableWidth - min(widths[last], minLast)
	for _, n := range widths[:last] {
		room -= n + 2
	}
	for ; room < 0; room++ {
		widest := 0
		for i, name := range columns[:last] {
			if widths[i]-keptWidth(name) > widths[widest]-keptWidth(columns[widest]) {
				widest = i
			}
		}
		widths[widest]--
	}
	widths[last] = min(widths[last], minLast) + room
	var b strings.Builder
	for _, cells := range table {
		indent := 0
		for i, text := range cells[:last] {
			if r := []rune(text); len(r) > widths[i] {
				text = string(r[:widths[i]-1]) + "…"
			}
			fmt.Fprintf(&b, "%-*s  ", widths[i], text)
			indent += widths[i] + 2
		}
		for rest := []rune(cells[last]); ; fmt.Fprintf(&b, "%*s", indent, "") {
			n := min(len(rest), widths[last])
			fmt.Fprintln(&b, string(rest[:n]))
			if rest = rest[n:]; len(rest) == 0 {
				break
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// firstMembers lists the members of a subscription to print first, in order.
var firstMembers = []string{"done", "kind", "number", "begins", "ended", "attempt", "eventId", "timestamp", "position", "bytes", "targeted", "data", "id", "principal", "event", "arguments", "url", "state", "attempts", "failures", "p50Ms", "p95Ms", "p99Ms", "owner", "asOf", "missing", "behind", "waitingSince", "abandoned", "replay", "cursor",
	"createdAt", "refreshedAt", "expiresAt", "lastDeliveryAt", "failedSince", "lastError", "lastErrorAt", "throttled", "truncated", "requests"}

func printOne(w io.Writer, names []string, m map[string]any) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, name := range names {
		if v, ok := m[name]; ok {
			fmt.Fprintf(tw, "%s\t%s\n", title(name), valueText(v))
		}
	}
	return tw.Flush()
}
