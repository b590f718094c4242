package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The demo is the end-to-end test with real processes over HTTP and stdio: it fails when an event is
// missing, doubled or not asked for, and when a program does not end in order.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it builds the examples")
	}
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "../github", "../watch", "../assistant", "../assistantclient", "../agent", "../../cmd/mcpe-gen", "../tickets", "../../runtime/internal/testkit/pgtest/throwaway").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := run(t.Context(), bin, "../github/testdata"); err != nil {
		t.Fatal(err)
	}
	t.Run("console", func(t *testing.T) { testConsole(t, bin) })
}

// With DEMO_CONSOLE the console serves what happens, to who has the token, and ends in order.
func testConsole(t *testing.T, bin string) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := withTokens(func(tokens string) error { return console(ctx, bin, "../github/testdata", tokens, w) })
		w.CloseWithError(errors.Join(io.EOF, err))
		done <- err
	}()
	lines := bufio.NewReader(r)
	var url, password string
	for password == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, ok := strings.Cut(line, "The console is on "); ok {
			url, rest, _ = strings.Cut(rest, " ")
			_, password, _ = strings.Cut(strings.TrimSpace(rest), "password ")
		}
	}
	go io.Copy(io.Discard, lines)
	get := func(path, password string) (int, string) {
		req, err := http.NewRequestWithContext(ctx, "GET", strings.TrimSuffix(url, "/ops/")+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("anybody", password)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	if status, _ := get("/ops/", "guessed"); status != http.StatusUnauthorized {
		t.Errorf("with another password: %d", status)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		status, page := get("/ops/api/subscriptions", password)
		if status == http.StatusOK && strings.Contains(page, "lastDeliveryAt") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("no delivery shows: %d %s", status, page)
		}
	}
	for _, path := range []string{"/ops/", "/ops/tail", "/healthz", "/readyz"} {
		if status, body := get(path, password); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
