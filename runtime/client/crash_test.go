package client

import (
	"bufio"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/file"
)

const (
	consumerVar = "MCPE_CLIENT_TEST_CONSUMER" // URL, mode and cursor file
	crashEvents = 30
)

// runConsumer makes this test binary a program that prints each eventId it receives, and waits for
// a line on stdin before it asks for the next.
func runConsumer() bool {
	what := strings.Fields(os.Getenv(consumerVar))
	if len(what) != 3 {
		return false
	}
	cursors, err := file.OpenCursors(what[2])
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	cl, err := Connect(ctx, HTTP(what[0], nil), Options{Cursors: cursors, Mode: what[1]})
	if err != nil {
		panic(err)
	}
	o := []SubscribeOption{WithCursorKey("tick")}
	if _, ok, _ := cursors.Load(ctx, "tick"); !ok {
		o = append(o, WithCursor("c0"))
	}
	s, err := Subscribe(ctx, cl, Dynamic("tick"), nil, o...)
	if err != nil {
		panic(err)
	}
	if err := printEach(s); err != nil {
		panic(err)
	}
	return true
}

// printEach prints the eventId of each item, and waits for a line on stdin before it asks for the next.
func printEach[A, P any](s *TypedSubscription[A, P]) error {
	in := bufio.NewScanner(os.Stdin)
	for ev, err := range s.Events() {
		if err != nil {
			return err
		}
		fmt.Println(ev.ID)
		in.Scan()
	}
	return nil
}

// life starts this test binary with a variable that makes it a program that prints eventIds. It reads up to n of them
// after the last one, and kills the program.
func life(t *testing.T, variable string, last, n int) int {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), variable)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	lines := bufio.NewScanner(out)
	for i := 0; i < n && last < crashEvents; i++ {
		if !lines.Scan() {
			t.Errorf("the process ended after e%d", last)
			return last
		}
		got := 0
		fmt.Sscanf(lines.Text(), "e%d", &got)
		if got != last+1 && !(i == 0 && got == last) {
			t.Errorf("item %d: %s after e%d", i, lines.Text(), last)
		}
		last = got
		fmt.Fprintln(in)
	}
	return last
}

// CLI-6, section 13: a client that is killed again and again, at any point between two items,
// misses nothing when it comes back, and repeats at most the one item that it had not committed.
func TestCLI6Killed(t *testing.T) {
	f := newFake(false)
	f.stream = numbered(crashEvents)
	f.poll = func(p wire.PollParams) (any, *jsonrpc.Error) {
		from := 0
		fmt.Sscanf(cursorOf(p), "c%d", &from)
		var batch []string
		for i := from + 1; i <= min(from+7, crashEvents); i++ {
			batch = append(batch, fmt.Sprint("e", i))
		}
		return polled(fmt.Sprint("c", from+len(batch)), from+len(batch) < crashEvents, 0, batch...), nil
	}
	srv := httptest.NewServer(f)
	defer srv.Close()
	for _, mode := range []string{"push", "poll"} {
		path := filepath.Join(t.TempDir(), "cursors.json")
		last, lives := 0, 0
		for last < crashEvents && !t.Failed() {
			lives++
			last = life(t, consumerVar+"="+srv.URL+" "+mode+" "+path, last, 4+lives%5)
		}
		if lives < 3 || lives > 12 {
			t.Errorf("%s: %d lives", mode, lives)
		}
	}
}
