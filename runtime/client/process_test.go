package client

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// child is the transport to this test binary as a server of the given kind.
func child(t *testing.T, kind string) (*Process, *lockedBuffer) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	errs := &lockedBuffer{}
	p := Command(exe)
	p.Cmd.Env = append(os.Environ(), childVar+"="+kind)
	p.Cmd.Stderr = errs
	return p, errs
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A server process that prints log lines on stdout, some of them JSON, is understood all the same;
// its stderr is passed on; Close ends it in order.
func TestProcessNoise(t *testing.T) {
	for _, kind := range []string{"noisy-legacy", "noisy"} {
		p, errs := child(t, kind)
		cl, err := Connect(t.Context(), p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := read(t, subscribe(t, cl))
		r.want("e1", "e2", "e3")
		if err := cl.Close(); err != nil {
			t.Error(err)
		}
		if !strings.Contains(errs.String(), "child up") {
			t.Errorf("stderr %q", errs.String())
		}
	}
}

// A process that dies is started anew, and the subscription resumes from its cursor.
func TestProcessDies(t *testing.T) {
	p, errs := child(t, "dies-noisy-legacy")
	cl, err := Connect(t.Context(), p, Options{Backoff: Backoff{Min: 10 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	r := read(t, subscribe(t, cl))
	for i := range 9 {
		r.want(fmt.Sprint("e", i+1))
	}
	if n := strings.Count(errs.String(), "child up"); n < 3 {
		t.Errorf("%d processes", n)
	}
}

// A process that neither ends with its stdin nor on SIGTERM is killed, even with a full pipe.
func TestProcessKilled(t *testing.T) {
	p, errs := child(t, "stubborn-legacy")
	p.Grace = 200 * time.Millisecond
	conn, err := p.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(errs.String(), "child up") { // before that it does not ignore SIGTERM yet
		time.Sleep(time.Millisecond)
	}
	if err := conn.Close(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Error(err)
	}
	if _, err := conn.Read(t.Context()); err != io.EOF {
		t.Error(err)
	}
	conn.Close()
}

// A program that cannot be started, or that is no server, is an error of Connect.
func TestProcessFails(t *testing.T) {
	if _, err := Connect(t.Context(), Command("/nonexistent/program"), Options{}); err == nil {
		t.Error("no error")
	}
	if _, err := Connect(t.Context(), Command("true"), Options{}); err == nil {
		t.Error("no error")
	}
	if _, err := Connect(t.Context(), &Process{}, Options{}); err == nil || !strings.Contains(err.Error(), "Process.Cmd is nil") {
		t.Error(err)
	}
}

// Only JSON-RPC messages count as messages; batches of them are taken apart.
func TestDecodeLine(t *testing.T) {
	for line, want := range map[string]int{
		`{"jsonrpc":"2.0","method":"a"}`:                                       1,
		`[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":1,"result":1}]`: 2,
		``: 0, `{}`: 0, `[]`: 0, `[1]`: 0, `{"a":1}`: 0, `null`: 0, `log`: 0, `{"jsonrpc":"2.0"`: 0,
	} {
		if got := decodeLine([]byte(line)); len(got) != want {
			t.Errorf("%s: %d messages", line, len(got))
		}
	}
}
