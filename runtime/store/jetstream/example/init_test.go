package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
)

// The project that mcpe-gen init creates for JetStream builds, passes its test, and serves from nats-server: two
// processes share the events, also after a restart.
func TestInit(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it builds what init writes")
	}
	root, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "demo")
	command := filepath.Join(t.TempDir(), "mcpe-gen")
	do(t, root, "go", "build", "-o", command, "./cmd/mcpe-gen")
	said := do(t, root, command, "init", dir, "--module", "example.com/demo", "--transport", "http", "--store", "jetstream", "--auth", "none",
		"--console", "--replace", root)
	if !strings.Contains(said, "export NATS_URL=nats://127.0.0.1:4222") {
		t.Errorf("init does not say what the program needs:\n%s", said)
	}
	// The sums of all modules replace go mod tidy, which would download tests of dependencies.
	var sums []byte
	for _, file := range []string{"go.sum", "runtime/store/jetstream/go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, text...)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o666); err != nil {
		t.Fatal(err)
	}
	do(t, dir, "go", "vet", "./...")
	do(t, dir, "go", "test", "./...")
	do(t, dir, "go", "build", "-o", "demo", ".")

	one := start(t, &server.Options{Host: "127.0.0.1", Port: -1, HTTPHost: "127.0.0.1", HTTPPort: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	serve := func() (*exec.Cmd, string) {
		cmd := exec.CommandContext(t.Context(), "./demo", "-http", "127.0.0.1:0", "-console", "127.0.0.1:0")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "NATS_URL="+one.ClientURL(), "NATS_SINGLE=1", "NATS_MONITORS=http://"+one.MonitorAddr().String(), "OPERATOR_TOKEN=an-operator-in-a-test")
		out, err := os.Create(filepath.Join(t.TempDir(), "log"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		cmd.Stderr = out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Signal(syscall.SIGTERM)
			if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() > 0 {
				text, _ := os.ReadFile(out.Name())
				t.Errorf("%v: %s", err, text)
			}
		})
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			text, err := os.ReadFile(out.Name())
			if err != nil {
				t.Fatal(err)
			}
			if base := regexp.MustCompile(`http://[^/ ]+/mcp`).Find(text); base != nil {
				if !bytes.Contains(text, []byte(one.MonitorAddr().String()+" writes to disk every")) { // JS-43
					t.Errorf("the server of NATS_MONITORS was not asked: %s", text)
				}
				return cmd, string(base)
			}
			if time.Now().After(end) {
				t.Fatalf("it does not serve: %s", text)
			}
		}
	}
	add := func(base, text string) {
		resp, err := http.Post(strings.TrimSuffix(base, "/mcp")+"/notes", "application/json", strings.NewReader(`{"author": "ada", "text": "`+text+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			t.Fatalf("POST /notes: %s", resp.Status)
		}
	}
	first, a := serve()
	_, b := serve()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := client.Connect(ctx, client.HTTP(b, nil), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sub, err := client.Subscribe(ctx, c, client.Dynamic("note.added"), json.RawMessage(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	add(a, "by the first")
	for ev, err := range sub.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(ev.Raw, []byte("by the first")) {
			first.Process.Kill()
			add(b, "by the second")
			continue
		}
		if bytes.Contains(ev.Raw, []byte("by the second")) {
			return
		}
	}
	t.Fatal("an event is missing")
}

// do runs a program that must succeed, and returns its output.
func do(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod -ldflags=-w", "GOPROXY=off", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}
