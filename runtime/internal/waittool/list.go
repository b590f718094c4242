package waittool

import (
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Maximum sizes of the wait tool's description, in bytes, for all event types and for each one.
const (
	maxList   = 8 << 10
	maxSchema = 1 << 10
	maxLine   = 300
)

// describe returns the wait tool for a caller. Its description lists the event types that the caller can wait for,
// because a client without event support cannot list them otherwise (LIST-4).
func describe(t *mcp.Tool, offers []Offer) *mcp.Tool {
	var b strings.Builder
	left := 0
	for _, o := range offers {
		line := o.line()
		if left > 0 || b.Len()+len(line) > maxList {
			left++
			continue
		}
		b.WriteString(line)
	}
	if left > 0 {
		fmt.Fprintf(&b, "\n- and %d more", left)
	}
	shown := *t
	if b.Len() > 0 {
		shown.Description += "\n\nThe event types:" + b.String()
	}
	return &shown
}

// line returns the line that describes one event type in the description of the wait tool.
func (o *Offer) line() string {
	about := strings.Join(strings.Fields(o.Description), " ")
	if len(about) > maxLine {
		about = strings.ToValidUTF8(about[:maxLine], "") + "…"
	}
	line := "\n- " + o.Name + ": " + about
	if schema := string(o.InputSchema); strings.Contains(schema, `"properties"`) && len(schema) <= maxSchema {
		line += " Arguments: " + schema
	}
	return line
}
