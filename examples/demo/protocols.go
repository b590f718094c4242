package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// protocolLines lists lines that the assistant's client must print for each protocol.
var protocolLines = []struct{ heading, line string }{
	{"MCP Events:", "  INC-2 P1 checkout: Payments fail"},
	{"MCPE:", "  INC-1 P3 search: Slow search"},
	{"MCPE:", "  INC-2 P1 checkout: Payments fail"},
	{"Conversation events:", `  <server-context server="assistant">`},
	{"MCPC:", "  update: 3 of 3"},
	{"MCPC:", `  complete: "Incidents" has 1 incident`},
	{"MCPC:", "  server event incident.created: INC-1"},
}

// protocols demonstrates the benefit of each of the four protocols for a client of one server on stdio.
func protocols(ctx context.Context, w io.Writer, bin string) error {
	client, err := spawn(filepath.Join(bin, "assistantclient"), filepath.Join(bin, "assistant"), "-stdio")
	if err != nil {
		return err
	}
	defer client.kill()
	if err := client.waitExit(ctx, w, "One incident server, four protocols, on stdio"); err != nil {
		return err
	}
	sections := map[string][]string{}
	heading := ""
	for _, line := range client.lines() {
		if line == "" || strings.HasPrefix(line, " ") {
			sections[heading] = append(sections[heading], line)
		} else {
			before, _, _ := strings.Cut(line, ":")
			heading = before + ":"
		}
	}
	for _, s := range protocolLines {
		if !slices.Contains(sections[s.heading], s.line) {
			return fmt.Errorf("%s does not show %q under %s", client.name, strings.TrimSpace(s.line), s.heading)
		}
	}
	return nil
}
