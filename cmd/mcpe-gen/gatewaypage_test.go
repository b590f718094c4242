//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGatewayPage does what docs/gateway.md says with a server of the TypeScript SDK: an event comes through the gateway,
// the server ends and starts again, and the subscriber goes on. `make peers` installs the SDK.
func TestGatewayPage(t *testing.T) {
	peers := os.Getenv("MCPE_TEST_PEERS")
	if peers == "" {
		t.Skip("NOT RUN: MCPE_TEST_PEERS is not set; make peers installs the TypeScript SDK with npm")
	}
	own, tried := readText(t, "../../examples/gateway/package.json"), readText(t, filepath.Join(peers, "package.json"))
	for line := range strings.Lines(own) {
		if name, _, ok := strings.Cut(line, `": "`); ok && !strings.Contains(name, `"name`) && !strings.Contains(name, `"type`) && !strings.Contains(tried, strings.Trim(line, " ,\n")) {
			t.Errorf("examples/gateway has %s, which make peers does not install", strings.TrimSpace(line))
		}
	}
	page := readText(t, "../../docs/gateway.md")
	page, _, ok := strings.Cut(page, "\n## Emitting")
	install := "$ npm install --silent\n"
	if !ok || strings.Count(page, install) != 1 {
		t.Fatal("docs/gateway.md has no npm install before the part Emitting")
	}
	follow(t, strings.Replace(page, install, "$ ln -s "+filepath.Join(peers, "node_modules")+" node_modules\n", 1))
}
