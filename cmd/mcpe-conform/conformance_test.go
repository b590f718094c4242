package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/clitest"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/testkit/freeport"
)

const conformancePage = "../../docs/conformance.md"

// A judged is one row of docs/conformance.md. In its words BIN stands for where the programs are, PEERS for those of
// npm, and PORT for a free port; serve is the command of a server, "" for none.
type judged struct {
	what, version  string
	serve, conform string
}

// judgedRows are the rows, with the versions of peers in versions.
func judgedRows(versions map[string]string) []judged {
	ours := "this one"
	rows := []judged{
		{"our conformance fixture", ours, "BIN/conformance -addr 127.0.0.1:PORT -heartbeat 500ms -cadence 50ms", "http://127.0.0.1:PORT/mcp --allow-quiet"},
		{"the same, older era", ours, "BIN/conformance -addr 127.0.0.1:PORT -heartbeat 500ms -cadence 50ms", "http://127.0.0.1:PORT/mcp --allow-quiet --revision 2025-11-25"},
		{"`mcpe-gen serve`, with webhooks", ours, "BIN/mcpe-gen serve events.yaml --http PORT --sample 200ms --token hush --dev --callback-ca cert.pem",
			"http://127.0.0.1:PORT/mcp --token hush --listen 127.0.0.1:0 --tls-cert cert.pem --tls-key key.pem"},
		{"our client, `examples/watch`", ours, "", "--client --handled - -- BIN/watch -url {url} -event tick -listen 127.0.0.1:0 -tls-cert cert.pem -tls-key key.pem"},
	}
	for _, peer := range []struct{ name, npm, serve, conform string }{
		{"a server on the TypeScript SDK 1.x", "@modelcontextprotocol/sdk", "server.mjs 1 PORT", " --allow-quiet"},
		{"a server on the TypeScript SDK 2.x", "@modelcontextprotocol/server", "server.mjs 2 PORT", " --allow-quiet"},
		{"the same, older era", "@modelcontextprotocol/server", "server.mjs 2 PORT", " --allow-quiet --revision 2025-11-25"},
		{"a server on mcp-handler, with webhooks", "mcp-handler", "handler.mjs PORT cert.pem",
			" --token hush --other-token other --listen 127.0.0.1:0 --tls-cert cert.pem --tls-key key.pem"},
	} {
		rows = append(rows, judged{peer.name, peer.npm + " " + versions[peer.npm], "node PEERS/" + peer.serve, "http://127.0.0.1:PORT/mcp" + peer.conform})
	}
	for _, peer := range []struct{ name, npm, make, more string }{
		{"a poll loop on the TypeScript SDK 1.x", "@modelcontextprotocol/sdk", "1", ""},
		{"a poll loop on the TypeScript SDK 2.x", "@modelcontextprotocol/client", "2", ""},
		{"the same, older era", "@modelcontextprotocol/client", "2-legacy", ""},
		{"the AI SDK, by webhook", "@ai-sdk/mcp", "ai-sdk", " cert.pem key.pem"},
	} {
		rows = append(rows, judged{peer.name, peer.npm + " " + versions[peer.npm], "",
			"--client --handled - -- node PEERS/follow.mjs " + peer.make + " {url}" + peer.more})
	}
	return rows
}

// result is what a report comes to: which requirements fail and which are advised, in the order of the report.
func result(r *verdict.Report) string {
	by := map[verdict.Outcome][]string{}
	for _, f := range r.Findings {
		by[f.Outcome] = append(by[f.Outcome], "`"+f.Name+"`")
	}
	cell := func(o verdict.Outcome) string {
		if len(by[o]) == 0 {
			return "none"
		}
		return strings.Join(by[o], ", ")
	}
	return cell(verdict.Fail) + " | " + cell(verdict.Advice)
}

// TestConformancePage judges our servers and client and those of other makes, and holds docs/conformance.md to it.
// `make conformance` runs it; it takes minutes.
func TestConformancePage(t *testing.T) {
	peers := os.Getenv("MCPE_TEST_CONFORMANCE")
	if peers == "" {
		t.Skip("NOT RUN: make conformance runs it")
	}
	text, err := os.ReadFile("../../runtime/internal/testkit/peers/testdata/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var packages struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &packages); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, program := range []string{".", "../mcpe-gen", "../../examples/conformance", "../../examples/watch"} {
		if out, err := exec.Command("go", "build", "-o", dir+string(filepath.Separator), program).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	cert := exec.Command("go", "run", filepath.Join(goRoot(t), "src/crypto/tls/generate_cert.go"), "--host", "127.0.0.1", "--ecdsa-curve", "P256")
	cert.Dir = dir
	if out, err := cert.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "events.yaml"), []byte(judgedEvents), 0o666); err != nil {
		t.Fatal(err)
	}
	rows := judgedRows(packages.Dependencies)
	lines := make([]string, len(rows))
	slots := make(chan struct{}, 2) // a judge waits more than it works
	var judging sync.WaitGroup
	for i, row := range rows {
		judging.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			lines[i] = row.judge(t, dir, peers)
		})
	}
	judging.Wait()
	if t.Failed() {
		return
	}
	table := "| What | Version | Command | Fails | Advice |\n|---|---|---|---|---|\n" + strings.Join(lines, "")
	page, err := os.ReadFile(conformancePage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), "<!-- begin: make conformance UPDATE=1 -->\n")
	_, after, also := strings.Cut(rest, "<!-- end -->")
	if !ok || !also {
		t.Fatal("docs/conformance.md has no table")
	}
	now := before + "<!-- begin: make conformance UPDATE=1 -->\n" + table + "<!-- end -->" + after
	if now == string(page) {
		return
	}
	if !*updateTable {
		t.Fatalf("docs/conformance.md says something else: make conformance UPDATE=1\n%s", table)
	}
	if err := os.WriteFile(conformancePage, []byte(now), 0o666); err != nil {
		t.Fatal(err)
	}
}

func goRoot(t *testing.T) string {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

const judgedEvents = `version: 1
events:
  - name: incident.created
    description: Fires when a new incident is created.
    inputSchema:
      type: object
      properties:
        severity: {type: string, enum: [P1, P2, P3], x-match: /severity}
      additionalProperties: false
    payloadSchema:
      type: object
      properties:
        incidentId: {type: string}
        severity: {type: string, enum: [P1, P2, P3]}
      required: [incidentId, severity]
`

// judge runs the commands of a row and writes its line.
func (j judged) judge(t *testing.T, dir, peers string) string {
	addrs, release, err := freeport.Reserve(1)
	if err != nil {
		t.Error(err)
		return ""
	}
	_, port, _ := net.SplitHostPort(addrs[0])
	release()
	command := func(words string) *exec.Cmd {
		all := strings.Fields(strings.NewReplacer("BIN", dir, "PEERS", peers, "PORT", port).Replace(words))
		cmd := exec.CommandContext(t.Context(), all[0], all[1:]...)
		cmd.Dir = dir
		return cmd
	}
	if j.serve != "" {
		server := command(j.serve)
		var log clitest.Lines
		server.Stdout, server.Stderr = &log, &log
		if err := server.Start(); err != nil {
			t.Error(err)
			return ""
		}
		defer func() {
			_ = server.Process.Signal(os.Interrupt)
			_ = server.Wait()
		}()
		for began := time.Now(); !regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+/mcp`).MatchString(log.String()); time.Sleep(20 * time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Errorf("%s does not listen: %s", j.serve, log.String())
				return ""
			}
		}
	}
	out, err := command("BIN/mcpe-conform --format json --seed 1 " + j.conform).Output()
	var report verdict.Report
	if json.Unmarshal(out, &report) != nil || len(report.Findings) == 0 {
		t.Errorf("%s: %v: %s", j.conform, err, out)
		return ""
	}
	t.Logf("%s: %s", j.what, report.Summary())
	if report.Unfinished != nil {
		t.Errorf("%s: %s", j.what, report.Unfinished)
	}
	shown := func(words string) string { return strings.NewReplacer("BIN/", "", "PEERS/", "").Replace(words) }
	how := "`mcpe-conform --seed 1 " + shown(j.conform) + "`"
	if j.serve != "" {
		how = "`" + shown(j.serve) + "`, " + how
	}
	if slices.Contains([]string{j.what, j.version}, "") {
		t.Errorf("a row without a name or version: %+v", j)
	}
	return fmt.Sprintf("| %s | %s | %s | %s |\n", j.what, j.version, how, result(&report))
}
