package main

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// agentsVar names the directory with the node_modules of testdata/agents, which `make agents` installs.
const agentsVar = "MCPE_TEST_AGENTS"

// BRIDGE-5, BRIDGE-9, BRIDGE-10: the command lines of coding agents, without a login, read what bridge install writes,
// and connect to the bridge while another window has it.
func TestAgentsList(t *testing.T) {
	installed := os.Getenv(agentsVar)
	if installed == "" {
		t.Skip("NOT RUN: the command lines of coding agents; `make agents` installs and tries them")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program, conf, state := filepath.Join(dir, "mcpe-gen"), filepath.Join(dir, "bridge.yaml"), filepath.Join(dir, "state")
	if runtime.GOOS == "windows" {
		t.Skip("NOT RUN: the test needs a symbolic link to a program")
	}
	if err := os.Symlink(exe, program); err != nil {
		t.Fatal(err)
	}
	text := "servers: {ci: {url: 'http://127.0.0.1:1/mcp'}}\nsubscriptions: [{server: ci, event: ci.done}]\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"HOME": dir, "PATH": dir + string(os.PathListSeparator) + os.Getenv("PATH"), "CODEX_HOME": "", "CLAUDE_CONFIG_DIR": "",
		"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"} {
		t.Setenv(name, value)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	first := mcp.NewClient(&mcp.Implementation{Name: "first", Version: "1"}, &mcp.ClientOptions{Logger: slog.New(slog.DiscardHandler)})
	session, err := first.Connect(ctx, &mcp.CommandTransport{Command: exec.CommandContext(ctx, program, "bridge", "-q", "--config", conf, "--state", state)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for name, want := range map[string]string{
		"claude": `(?m)^events: \S+ bridge --config \S+ --state \S+ - . Connected$`,
		"codex":  `(?m)^events +\S+ +bridge --config \S+ --state \S+ .*\benabled\b`,
	} {
		t.Run(name, func(t *testing.T) {
			out, err := exec.CommandContext(ctx, program, "bridge", "install", name, "--config", conf, "--state", state, "--write").CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			agent := exec.CommandContext(ctx, filepath.Join(installed, "node_modules", ".bin", name), "mcp", "list")
			agent.Dir = dir
			out, err = agent.CombinedOutput()
			if err != nil || !regexp.MustCompile(want).Match(out) {
				t.Errorf("%v: %s", err, out)
			}
			version, err := exec.CommandContext(ctx, agent.Path, "--version").Output()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("tried with %s", strings.TrimSpace(string(version)))
		})
	}
}
