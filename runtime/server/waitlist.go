package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bounds of what the description of the wait tool says, in bytes: of all event types, and of one.
const (
	maxWaitList   = 8 << 10
	maxWaitSchema = 1 << 10
	maxWaitLine   = 300
)

// describeWaitTool is the wait tool as a caller sees it: its description lists the event types that the caller can
// wait for, since a client that knows no events has no other list of them (LIST-4).
func (s *Server) describeWaitTool(ctx context.Context, principal string, t *mcp.Tool) *mcp.Tool {
	s.mu.Lock()
	order := slices.Clone(s.order)
	s.mu.Unlock()
	var b strings.Builder
	left := 0
	for _, et := range order {
		d := et.current()
		if d == nil || !d.polls() {
			continue
		}
		if ok, err := s.visible(ctx, principal, et.name); err != nil || !ok {
			s.log.Internal(ctx, "listing tool "+t.Name, err)
			continue
		}
		line := waitLine(d)
		if left > 0 || b.Len()+len(line) > maxWaitList {
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

// waitLine is one event type in the description of the wait tool.
func waitLine(d *definition) string {
	about := strings.Join(strings.Fields(d.info.Description), " ")
	if len(about) > maxWaitLine {
		about = strings.ToValidUTF8(about[:maxWaitLine], "") + "…"
	}
	line := "\n- " + d.info.Name + ": " + about
	if schema := string(d.info.InputSchema); strings.Contains(schema, `"properties"`) && len(schema) <= maxWaitSchema {
		line += " Arguments: " + schema
	}
	return line
}
