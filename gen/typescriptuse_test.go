package gen_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/templates"
)

// addTests adds the TypeScript of testdata/typescript.
func (p *tsProject) addTests(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob("testdata/typescript/*.ts")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		p.write(t, filepath.Base(f), text)
	}
}

// client.ts, webhook.ts and schemas.ts do what testdata/typescript/*.test.ts say: streams, cursors and their stores, failures,
// subscriptions, signatures, node:http and express, validators (TS-2, TS-8, TS-9).
func TestTypeScriptBehaviour(t *testing.T) {
	p := newProject(t)
	m, found, err := gen.Inspect(t.Context(), gen.Request{Dir: "../examples/schemas", Files: []string{"incidents.yaml"}, Out: "want"})
	if err != nil || m == nil {
		t.Fatal(diagnosticText(found), err)
	}
	p.add(t, "incidents", m, true)
	p.addTests(t)
	if err := os.Remove(filepath.Join(p.dir, "types.ts")); err != nil { // its other packages are not here
		t.Fatal(err)
	}
	out := filepath.Join(p.dir, "out")
	if text, err := p.node(t, nil, "node_modules/typescript/bin/tsc", "-p", p.dir, "--noEmit", "false", "--outDir", out); err != nil {
		t.Fatalf("tsc: %v\n%s", err, text)
	}
	tests, err := filepath.Glob(filepath.Join(out, "*.test.js"))
	if err != nil || len(tests) < 2 {
		t.Fatal(tests, err)
	}
	cmd := exec.CommandContext(t.Context(), "node", append([]string{"--test", "--test-timeout=60000"}, tests...)...)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("node --test: %v\n%s", err, text)
	}
	if !bytes.Contains(text, []byte("pass ")) {
		t.Errorf("no test ran:\n%s", text)
	}
}

// What init writes with --typescript installs by its lock file and compiles next to the TypeScript of its event file, on each
// transport (TS-7).
func TestTypeScriptScaffold(t *testing.T) {
	p := newProject(t)
	dir := t.TempDir()
	for _, transport := range templates.Transports {
		files, err := templates.Render(templates.Scaffold{
			Module: "example.com/demo", Name: "demo", Transport: transport, Source: "emit", GoVersion: "1.26.0", TypeScript: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasPrefix(f.Path, "web/") {
				p.write(t, transport+"/"+f.Path, f.Content)
			}
			if f.Path == "events/notes.yaml" {
				write(t, dir, "notes.yaml", string(f.Content))
			}
		}
		m, found, err := gen.Inspect(t.Context(), gen.Request{Dir: dir, Files: []string{"notes.yaml"}, Out: "notes"})
		if err != nil || m == nil {
			t.Fatal(diagnosticText(found), err)
		}
		p.write(t, transport+"/web/src/notes/events.ts", typescriptOf(t, m)["events.ts"])
		p.write(t, transport+"/web/src/notes/client.ts", typescriptOf(t, m)["client.ts"])
		for _, args := range [][]string{{"ci", "--ignore-scripts", "--no-fund", "--no-audit"}, {"run", "build"}} {
			cmd := exec.CommandContext(t.Context(), "npm", args...)
			cmd.Dir = filepath.Join(p.dir, transport, "web")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("npm %v: %v\n%s", args, err, out)
			}
		}
	}
}

// The code of docs/typescript.md compiles against the TypeScript of examples/schemas/github.yaml (TS-7).
func TestTypeScriptGuide(t *testing.T) {
	p := newProject(t)
	guide, err := os.ReadFile("../docs/typescript.md")
	if err != nil {
		t.Fatal(err)
	}
	m, found, err := gen.Inspect(t.Context(), gen.Request{Dir: "../examples/schemas", Files: []string{"github.yaml"}, Out: "github"})
	if err != nil || m == nil {
		t.Fatal(diagnosticText(found), err)
	}
	p.add(t, "events", m, true)
	p.write(t, "around.d.ts", []byte(`// What the guide's code stands in.
declare let kept: string | null;
declare const url: string, repo: string, callback: string, text: string;
declare const cursors: import('./events/client.js').CursorStore;
declare const subscriptions: Map<string, import('./events/webhook.js').Subscription>;
declare const controller: AbortController;
declare const store: import('@ai-sdk/mcp').Experimental_MCPEventStore;
declare const queue: { add(id: string, event: unknown): Promise<void> };
declare function deploy(ref: string): Promise<void>;
`))
	_, uses, _ := strings.Cut(string(guide), "\n## With the official SDK\n")
	blocks := strings.Split(uses, "\n```ts\n")[1:]
	for i, b := range blocks {
		code, _, _ := strings.Cut(b, "\n```\n")
		p.write(t, fmt.Sprintf("block%d.ts", i), []byte(code+"\n"))
	}
	if len(blocks) != 6 {
		t.Errorf("the guide has %d blocks of code", len(blocks))
	}
	p.compile(t)
}
