package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/starter"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
)

// TestScaffoldFrom does what somebody does after "mcpe-gen init --from SERVICE": what it wrote builds, is current,
// passes its test, which posts a webhook as the service signs it, and lint finds nothing. GitHub's server is run as
// a process too, until a signed POST arrives at a client as an event.
func TestScaffoldFrom(t *testing.T) {
	for _, service := range starter.Services {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			dir := scaffold(t, "--from", service)
			goRun(t, dir, "vet", "./...")
			goRun(t, dir, "test", "./...")
			if out := succeed(t, dir, "mcpe-gen", "generate", "--check"); out != "" {
				t.Errorf("generate --check: %s", out)
			}
			if out := succeed(t, dir, "mcpe-gen", "lint"); out != "" {
				t.Errorf("lint finds\n%s", out)
			}
			if service == "github" {
				goRun(t, dir, "build", "-o", "server.exe", ".")
				serveGitHub(t, dir)
			}
		})
	}
}

// serveGitHub posts webhooks to the server: one that GitHub signed twice under one id, and one that it did not.
func serveGitHub(t *testing.T, dir string) {
	body, err := os.ReadFile(filepath.Join(dir, "testdata", "webhook.json"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "server.exe"), "-http", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "GITHUB_SECRET=s3cret")
	var stderr lines
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	base := stderr.find(t, regexp.MustCompile(`http://[^/ ]+`))
	post := func(secret string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/github", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		for k, v := range map[string]string{"Content-Type": "application/json", "X-GitHub-Event": "push", "X-GitHub-Delivery": "d-1",
			"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil))} {
			r.Header.Set(k, v)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	c, err := client.Connect(t.Context(), client.HTTP(base+"/mcp", nil), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sub, err := client.Subscribe(t.Context(), c, client.Dynamic("push"), json.RawMessage(`{"ref": "re*"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []struct {
		secret string
		want   int
	}{{"guessed", 401}, {"s3cret", 204}, {"s3cret", 204}} {
		if got := post(p.secret); got != p.want {
			t.Errorf("signed with %s: status %d, want %d", p.secret, got, p.want)
		}
	}
	for ev, err := range sub.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if ev.ID != "d-1" || !bytes.Contains(ev.Raw, []byte(`"repository"`)) {
			t.Errorf("received %s %s", ev.ID, ev.Raw)
		}
		break
	}
	terminate(t, cmd, &stderr)
	c.Close()
}
