package bridge

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/config"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

const (
	// actVar makes the test binary a program of a test, argVar tells it more.
	actVar = "BRIDGE_TEST_ACT"
	argVar = "BRIDGE_TEST_ARG"
	// secretVar has a token of the server of actBridge, which its command must not see (BRIDGE-6).
	secretVar = "BRIDGE_TEST_SECRET"
	// patience bounds what a test waits for.
	patience = time.Minute
)

func runAct(act string) int {
	args := strings.Split(os.Getenv(argVar), "\n")
	var err error
	switch act {
	case "bridge":
		err = actBridge(args[0], args[1], args[2])
	case "server":
		err = actServer(args[0])
	case "print":
		_, err = os.Stdout.WriteString(os.Getenv(argVar))
	case "environment":
		err = os.WriteFile(args[0], []byte(strings.Join(os.Environ(), "\n")), 0o600)
	case "command":
		return actCommand(args[0])
	default:
		err = errors.New(act + "?")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// actBridge is a bridge of one server at url.
func actBridge(url, dir, command string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c := config.New()
	os.Setenv(secretVar, "hush")
	os.Setenv("MCPE_GEN_TOKEN", "hush")
	c.Servers = []config.Server{{Name: "ci", Target: peer.Target{URL: url}, Token: config.Token{Env: secretVar}}}
	ofDone(c)
	c.Limits.EventsPerBatch, c.Limits.BatchesPerMinute = 5, 6000
	if command != "" {
		os.Setenv(actVar, "command")
		os.Setenv(argVar, command)
		c.Exec = &config.Exec{Command: []string{os.Args[0]}, Timeout: patience, PerMinute: 600}
	}
	return Run(ctx, Options{Config: c, State: dir, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Quiet: true})
}

// actServer serves ci.done out of a file, prints its address, and emits what it reads, which it confirms line by line.
func actServer(path string) error {
	db, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err != nil {
		return err
	}
	srv := mcp.NewServer(&mcp.Implementation{Name: "ci", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{Store: db, Logger: slog.New(slog.DiscardHandler), Retention: server.Retention{MaxCount: 1 << 20}})
	if err != nil {
		return err
	}
	done, err := server.Register(es, typeOf("ci.done", nil), server.Hooks[runArguments, run]{})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go http.Serve(l, transport.NewHandler(es, transport.HandlerOptions{}))
	fmt.Println(l.Addr())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if err := done.Emit(context.Background(), run{Branch: "m"}, events.WithID(in.Text())); err != nil {
			return err
		}
		fmt.Println(in.Text())
	}
	return nil
}

// actCommand appends the ids of a batch to a file; it asks to be run again for what begins with "again", once, and
// gives up what begins with "dead".
func actCommand(path string) int {
	var b struct {
		Untrusted string
		Events    []struct{ EventID string }
	}
	if err := json.NewDecoder(os.Stdin).Decode(&b); err != nil || b.Untrusted == "" || os.Getenv("MCPE_EVENT") != "ci.done" {
		fmt.Fprintln(os.Stderr, "bad batch", err)
		return 65
	}
	if os.Getenv(secretVar)+os.Getenv("MCPE_GEN_TOKEN") != "" {
		fmt.Fprintln(os.Stderr, "the environment has a token")
		return 65
	}
	seen, _ := os.ReadFile(path)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	code := 0
	for _, e := range b.Events {
		fmt.Fprintln(f, e.EventID)
		switch {
		case strings.HasPrefix(e.EventID, "again") && !strings.Contains(string(seen), e.EventID):
			code = 75
		case strings.HasPrefix(e.EventID, "dead"):
			fmt.Println("it is dead")
			code = 65
		}
	}
	if err := f.Close(); err != nil {
		panic(err)
	}
	return code
}

// A program is a test binary that acts.
type program struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  io.ReadCloser
	said *said
}

func act(t *testing.T, what string, args ...string) *program {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, cmd: exec.Command(exe), said: &said{}}
	p.cmd.Env = append(os.Environ(), actVar+"="+what, argVar+"="+strings.Join(args, "\n"), "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = p.said
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	// A pipe of our own: that of exec would be closed before all is read.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out, p.cmd.Stdout = r, w
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		p.cmd.Process.Kill() // nothing when it has ended
		p.cmd.Wait()
		r.Close()
	})
	return p
}

// ends waits for the end of a program, which has to come, and returns its exit code.
func (p *program) ends() int {
	p.t.Helper()
	late := time.AfterFunc(patience, func() { p.cmd.Process.Kill() })
	p.cmd.Wait()
	if !late.Stop() {
		p.t.Fatalf("it does not end; it said %s", p.said)
	}
	return p.cmd.ProcessState.ExitCode()
}

// agent connects an agent to a bridge that runs as a program.
func (p *program) agent() *bridged {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	agent := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, &mcp.ClientOptions{Logger: slog.New(slog.DiscardHandler)})
	session, err := agent.Connect(ctx, &mcp.IOTransport{Reader: p.out, Writer: p.in}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		p.t.Fatal(err, p.said)
	}
	return &bridged{t: p.t, session: session, said: p.said}
}

// until waits until something holds, a minute at most.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}
