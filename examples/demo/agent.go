package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// agentLines lists the lines that the agent must print.
var agentLines = []string{"  test of 4f2a91c: failure", "agent: calls rerun_job: started run-2-again", "  test of 4f2a91c: success"}

// codingAgent shows how a coding agent receives a server's events through the bridge.
func codingAgent(ctx context.Context, w io.Writer, bin string) error {
	agent, err := spawn(filepath.Join(bin, "agent"), "-bridge", filepath.Join(bin, "mcpe-gen"))
	if err != nil {
		return err
	}
	defer agent.kill()
	if err := agent.waitExit(ctx, w, "An agent without event support, over mcpe-gen bridge"); err != nil {
		return err
	}
	for _, line := range agentLines {
		if !slices.Contains(agent.lines(), line) {
			return fmt.Errorf("%s does not show %q", agent.name, strings.TrimSpace(line))
		}
	}
	return nil
}
