package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/config"
	"github.com/mcpe-gen/mcpe-gen/internal/filelock"
)

// A bridgeStatus is what events_subscriptions says of the process that leads.
type bridgeStatus struct {
	Bridge struct {
		PID, Windows int
		Note         string
	}
}

func (b *bridged) status() (s bridgeStatus) {
	b.t.Helper()
	if err := b.call("events_subscriptions", nil, &s); err != nil {
		b.t.Fatal(err)
	}
	return s
}

// BRIDGE-9: all windows of a state directory get every event, each once. A window that begins gets what no window has
// read. When the one that leads ends another one leads, also under a call that waits.
func TestBRIDGE9Windows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		dir := t.TempDir()
		first := h.start(dir, ofDone, nil)
		settled()
		h.emit("m", 1, 2)
		settled()
		want(t, first.wait(0), "m1", "m2")
		h.emit("m", 3)
		settled()
		second := h.start(dir, ofDone, nil)
		want(t, second.wait(0), "m3") // nobody has read it
		want(t, first.wait(0), "m3")
		h.emit("m", 4, 5)
		settled()
		if n := first.status().Bridge.Windows; n != 2 {
			t.Errorf("%d windows", n)
		}
		want(t, second.wait(0), "m4", "m5")
		var box inboxResult
		if err := first.call("events_inbox", map[string]any{"read": []string{"b4"}}, &box); err != nil || *box.Read != 1 {
			t.Fatal(err, box)
		}
		want(t, idsOf(box), "m5")
		var waiting sync.WaitGroup
		waiting.Go(func() { want(t, second.wait(60), "m6") })
		settled()
		first.end()
		settled()
		h.emit("m", 6)
		waiting.Wait()
		settled() // m6 counts as read after its response is written
		if s := second.status(); s.Bridge.Windows != 1 {
			t.Errorf("%+v", s)
		}
		third := h.start(dir, ofDone, nil)
		want(t, third.wait(0))
		h.emit("m", 7)
		settled()
		want(t, third.wait(0), "m7")
		want(t, second.wait(0), "m7")
		third.end() // one that does not lead
		second.end()
		last := h.start(dir, ofDone, nil)
		want(t, last.wait(1))
		last.end()
	})
}

// A deaf meeting is one at which the bridge that leads does not hear what windows have shown.
type deaf struct{ meeting }

func (d deaf) dial(ctx context.Context, dir string) (net.Conn, error) {
	conn, err := d.meeting.dial(ctx, dir)
	return deafConn{conn}, err
}

type deafConn struct{ net.Conn }

func (c deafConn) Write(p []byte) (int, error) {
	if strings.Contains(string(p), `"`+opSettle+`"`) {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// BRIDGE-9: if the bridge that leads ends before it knows what a window has shown, the next one learns it and shows
// nothing twice. The window says meanwhile that the bridge does not answer.
func TestBRIDGE9Unconfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		dir := t.TempDir()
		first := h.start(dir, ofDone, nil)
		settled()
		c := config.New()
		c.Servers = []config.Server{{Name: "ci", Target: peer.Target{URL: "http://ci.example.com/mcp"}}}
		ofDone(c)
		second := startBridge(t, Options{Config: c, State: dir, dial: h.dial, meet: deaf{&h.meet}}, nil)
		h.emit("m", 1)
		want(t, second.wait(5), "m1")
		time.Sleep(answerTime + time.Second)
		if said := second.said.String(); !strings.Contains(said, "does not answer") {
			t.Errorf("standard error has %q", said)
		}
		h.emit("m", 2)
		want(t, second.wait(5), "m2")
		first.end()
		h.emit("m", 3)
		want(t, second.wait(5), "m3")
		want(t, second.wait(5))
		second.end()
	})
}

// BRIDGE-3, BRIDGE-9: each window with a channel gets each notification once, and none for what was announced before
// it.
func TestBRIDGE9Channels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		dir := t.TempDir()
		channel := func(c *config.Config) { ofDone(c); c.Channel = true }
		var mu sync.Mutex
		got := make([][]string, 3)
		window := func(i int) *bridged {
			return h.start(dir, channel, func(_ string, params json.RawMessage) {
				mu.Lock()
				defer mu.Unlock()
				var m channelMessage
				if err := json.Unmarshal(params, &m); err != nil {
					t.Error(err)
				}
				got[i] = append(got[i], m.Meta["batches"])
			})
		}
		first := window(0)
		settled()
		h.emit("m", 1)
		settled()
		second := window(1)
		settled()
		h.emit("m", 2)
		settled()
		first.end()
		settled()
		h.emit("m", 3)
		settled()
		third := window(2)
		settled()
		third.end()
		second.end()
		mu.Lock()
		defer mu.Unlock()
		if text := fmt.Sprint(got); text != "[[b1 b2] [b2 b3] []]" {
			t.Error(text)
		}
	})
}

// BRIDGE-9: a window that does not read does not hold up the others, and learns what it has missed, once.
func TestBRIDGE9Idle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		dir := t.TempDir()
		small := func(c *config.Config) { ofDone(c); c.Limits.Inbox, c.Limits.BatchesPerMinute = 3, 6000 }
		busy, idle := h.start(dir, small, nil), h.start(dir, small, nil)
		settled()
		for i := range 10 {
			h.emit("m", i)
			settled()
			want(t, busy.wait(0), fmt.Sprint("m", i))
		}
		for i, missed := range []int{7, 0} {
			var r inboxResult
			if err := idle.call("events_wait", map[string]any{"waitSeconds": 0}, &r); err != nil || r.Missed != missed || strings.Contains(r.Hint, "missedBatches") != (missed > 0) {
				t.Errorf("result %d: %v, %+v", i, err, r)
			}
			if i == 0 {
				want(t, idsOf(r), "m7", "m8", "m9")
			}
		}
		idle.end()
		busy.end()
	})
}

// BRIDGE-9: a window with other settings shares the bridge and says so; one with other servers or tokens is refused.
func TestBRIDGE9OtherConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		dir := t.TempDir()
		first := h.start(dir, ofDone, nil)
		settled()
		second := h.start(dir, func(c *config.Config) { ofDone(c); c.CatchUp = time.Hour }, nil)
		if s := second.status(); !strings.Contains(s.Bridge.Note, "another configuration") || !strings.Contains(second.said.String(), "has another configuration") {
			t.Errorf("%+v, %s", s, second.said)
		}
		if s := first.status(); s.Bridge.Note != "" {
			t.Errorf("%+v", s)
		}
		c := config.New()
		c.Servers = []config.Server{{Name: "ci", Target: peer.Target{URL: "http://ci.example.com/mcp"}, Token: config.Token{Text: "other"}}}
		err := Run(t.Context(), Options{Config: c, State: dir, dial: h.dial, meet: &h.meet, Stderr: &said{}})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("pid %d, whose configuration has other servers or tokens", os.Getpid())) {
			t.Error(err)
		}
		second.end()
		first.end()
	})
}

// BRIDGE-9: if whoever has the state directory cannot be reached, the error names it and says what to do.
func TestBRIDGE9Unreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		dir := t.TempDir()
		lock, err := filelock.Acquire(t.Context(), filepath.Join(dir, "bridge"), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Release()
		c := config.New()
		ofDone(c)
		err = Run(t.Context(), Options{Config: c, State: dir, dial: h.dial, meet: &h.meet, Stderr: &said{}})
		for _, part := range []string{"another bridge has the state in " + dir, fmt.Sprintf("pid %d", os.Getpid()), "cannot attach to it", "connection refused", "--state"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%v\nhas nothing of %q", err, part)
			}
		}
	})
}

// BRIDGE-9: the socket is the user's only, in the state directory or, if its path would be too long for a socket, in
// one for temporary files. One that a crash has left is replaced, and an orderly end leaves none.
func TestBRIDGE9Socket(t *testing.T) {
	base, err := os.MkdirTemp("", "b")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	t.Setenv("TMPDIR", base)
	for name, dir := range map[string]string{"short": filepath.Join(base, "s"), "long": filepath.Join(base, strings.Repeat("long", 30))} {
		t.Run(name, func(t *testing.T) {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if _, err := (sockets{}).dial(t.Context(), dir); err == nil {
				t.Fatal("connected to nobody")
			}
			crashed, err := sockets{}.listen(dir)
			if err != nil {
				t.Fatal(err)
			}
			left := crashed.(*socket)
			left.Listener.(*net.UnixListener).SetUnlinkOnClose(false)
			left.Listener.Close() // and nothing else
			if _, err := (sockets{}).dial(t.Context(), dir); err == nil {
				t.Fatal("connected to a socket of a crash")
			}
			l, err := sockets{}.listen(dir)
			if err != nil {
				t.Fatal(err)
			}
			accepted := make(chan error, 1)
			go func() {
				conn, err := l.Accept()
				if err == nil {
					err = conn.Close()
				}
				accepted <- err
			}()
			conn, err := sockets{}.dial(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
			if err := <-accepted; err != nil {
				t.Error(err)
			}
			path := l.Addr().String()
			if inside := strings.HasPrefix(path, dir); inside != (name == "short") {
				t.Errorf("the socket is %s", path)
			}
			if runtime.GOOS != "windows" {
				for at, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700, filepath.Join(dir, runDir): 0o700} {
					if info, err := os.Lstat(at); err != nil || info.Mode().Perm() != mode {
						t.Errorf("%s: %v, %v", at, info.Mode(), err)
					}
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			rest, err := filepath.Glob(filepath.Join(base, "mcpe-gen-*"))
			if _, gone := os.Lstat(path); gone == nil || err != nil || len(rest) != 0 {
				t.Errorf("after the end there is %q", rest)
			}
		})
	}
}

// BRIDGE-9: of bridges that start at once exactly one leads, and all are served.
func TestBRIDGE9AtOnce(t *testing.T) {
	f := newFront(t)
	src := f.serve(t, filepath.Join(t.TempDir(), "server.db"))
	state := filepath.Join(t.TempDir(), "state")
	var programs []*program
	for range 4 {
		programs = append(programs, act(t, "bridge", f.URL, state, ""))
	}
	var windows []*bridged
	for _, p := range programs {
		windows = append(windows, p.agent())
	}
	leads := windows[0].status().Bridge.PID
	if !slices.ContainsFunc(programs, func(p *program) bool { return p.cmd.Process.Pid == leads }) {
		t.Fatalf("pid %d leads", leads)
	}
	for _, b := range windows {
		if s := b.status().Bridge; s.PID != leads || s.Windows != len(windows) {
			t.Errorf("%+v, not pid %d with %d windows", s, leads, len(windows))
		}
	}
	until(t, "the subscription", func() bool { return windows[0].subscriptions()[0].State == active })
	src.emit("e1")
	for i, b := range windows {
		want(t, b.wait(50), "e1")
		b.session.Close()
		if code := programs[i].ends(); code != 0 {
			t.Errorf("%d: %s", code, programs[i].said)
		}
	}
	src.in.Close()
	src.ends()
}

// A reader reads what comes to a window until it is stopped.
type windowReader struct {
	*program
	b     *bridged
	since int // how many events there were before it began
	mu    sync.Mutex
	seen  map[string]int
	done  chan struct{}
}

func readWindow(p *program, since int) *windowReader {
	r := &windowReader{program: p, b: p.agent(), since: since, seen: map[string]int{}, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for {
			var result inboxResult
			if r.b.call("events_wait", map[string]any{"waitSeconds": 50}, &result) != nil {
				return // killed, or its end
			}
			r.mu.Lock()
			for _, id := range idsOf(result) {
				r.seen[id]++
			}
			r.mu.Unlock()
		}
	}()
	return r
}

// has reports whether the window has got all events since it began, and none of them twice.
func (r *windowReader) has(events int) bool {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	all := true
	for i := range events {
		n := r.seen[fmt.Sprint("e", i+1)]
		if n > 1 {
			r.t.Errorf("pid %d was shown e%d %d times", r.cmd.Process.Pid, i+1, n)
		}
		if i >= r.since && n == 0 {
			all = false
		}
	}
	return all
}

// BRIDGE-9: kills of the bridge that leads lose nothing for the windows that are left and show them nothing twice,
// whatever is under way.
func TestBRIDGE9Killed(t *testing.T) {
	f := newFront(t)
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	src := f.serve(t, filepath.Join(dir, "server.db"))
	emitted := 0
	emit := func(n int) {
		var ids []string
		for range n {
			emitted++
			ids = append(ids, fmt.Sprint("e", emitted))
		}
		src.emit(ids...)
	}
	var windows []*windowReader
	for range 3 {
		windows = append(windows, readWindow(act(t, "bridge", f.URL, state, ""), emitted))
	}
	until(t, "the first cursor", func() bool {
		text, _ := os.ReadFile(filepath.Join(state, "cursors"))
		return strings.Contains(string(text), `"kind":"cursor"`)
	})
	kill := func(i int) {
		t.Helper()
		w := windows[i]
		w.cmd.Process.Kill()
		w.cmd.Wait()
		<-w.done
		windows = slices.Delete(windows, i, i+1)
	}
	const rounds = 5
	for round := range rounds {
		emit(10 + round)
		leads := windows[0].b.status().Bridge.PID
		emit(5)
		i := slices.IndexFunc(windows, func(w *windowReader) bool { return w.cmd.Process.Pid == leads })
		if i < 0 {
			t.Fatalf("round %d: pid %d leads, which is no window", round, leads)
		}
		kill(i)
		if round == 2 { // another one too, which does not lead
			kill(0)
			windows = append(windows, readWindow(act(t, "bridge", f.URL, state, ""), emitted))
		}
		emit(5)
		windows = append(windows, readWindow(act(t, "bridge", f.URL, state, ""), emitted))
		emit(5)
		for _, w := range windows {
			until(t, fmt.Sprintf("round %d: all of %d events since %d in pid %d", round, emitted, w.since, w.cmd.Process.Pid), func() bool { return w.has(emitted) })
		}
	}
	for _, w := range windows {
		w.cmd.Process.Signal(syscall.SIGTERM)
		if code := w.ends(); code != 0 {
			t.Errorf("%d: %s", code, w.said)
		}
		<-w.done
	}
	last := act(t, "bridge", f.URL, state, "")
	b := last.agent()
	want(t, b.wait(1))
	b.session.Close()
	last.ends()
	src.in.Close()
	src.ends()
}
