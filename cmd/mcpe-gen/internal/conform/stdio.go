package conform

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// stdioGrace is how long a process may take to exit at each stage of ending it.
const stdioGrace = 3 * time.Second

// A stdioLink speaks newline-delimited JSON with a child process.
type stdioLink struct {
	cmd *exec.Cmd
	in  *os.File
	// patience is how long the process may leave a request unread.
	patience time.Duration
	exited   chan struct{}
	read     sync.WaitGroup
	observe  func(*flow, message)

	writing sync.Mutex
	mu      sync.Mutex
	flows   map[string]*flow // by the bytes of the request's id
	latest  *flow            // takes what names no flow
	over    error
	stray   string // the first line that is no message
}

func newStdioLink(command []string, stderr io.Writer, observe func(*flow, message)) (*stdioLink, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr, cmd.WaitDelay = stderr, stdioGrace
	// Pipes of our own: exec's would stay open as long as a grandchild holds it.
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	childIn, in, err := os.Pipe()
	if err != nil {
		out.Close()
		childOut.Close()
		return nil, err
	}
	cmd.Stdin, cmd.Stdout = childIn, childOut
	err = cmd.Start()
	childIn.Close()
	childOut.Close()
	if err != nil {
		in.Close()
		out.Close()
		return nil, fmt.Errorf("starting %s: %w", filepath.Base(command[0]), err)
	}
	l := &stdioLink{cmd: cmd, in: in, patience: callTimeout, exited: make(chan struct{}), flows: map[string]*flow{}, observe: observe}
	l.read.Go(func() { l.pump(out) })
	go func() {
		_ = cmd.Wait()
		close(l.exited)
		// A grandchild may hold stdout; what it writes is nobody's answer.
		out.Close()
	}()
	return l, nil
}

func (*stdioLink) settle(string, string) {}

// pump reads standard output to its end. Of lines that are no message, such as a logger's, the first is kept.
func (l *stdioLink) pump(out io.Reader) {
	in := bufio.NewReaderSize(out, 64<<10)
	for {
		line, err := readLine(in)
		if err == errTooLong {
			continue
		}
		if err != nil {
			l.fail(errors.New("the process ended its output"))
			io.Copy(io.Discard, in)
			return
		}
		if len(line) == 0 {
			continue
		}
		if m, err := parse(line); err == nil {
			l.route(m)
			continue
		}
		l.mu.Lock()
		if l.stray == "" {
			l.stray = string(line)
		}
		l.mu.Unlock()
	}
}

// route hands a message to the flow it belongs to. What belongs to none goes to the latest, whose check
// will see that it is wrong.
func (l *stdioLink) route(m message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := m.id
	if !m.isResponse() {
		if !strings.HasPrefix(m.method, wire.NotificationPrefix) || m.method == wire.NotificationListChanged {
			return
		}
		key = m.subscription()
	}
	f := l.flows[string(key)]
	if f == nil {
		f = l.latest
	}
	if f == nil {
		return
	}
	f.add(m)
	if m.isResponse() {
		f.finish(nil)
	}
}

func (l *stdioLink) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = err
	for _, f := range l.flows {
		f.finish(err)
	}
}

func (l *stdioLink) start(ctx context.Context, q request, body []byte) (*flow, error) {
	l.mu.Lock()
	if l.over != nil {
		l.mu.Unlock()
		return nil, l.over
	}
	key := string(q.id)
	f := newFlow(q.id, func() {}, l.observe)
	f.stop = sync.OnceFunc(func() { l.cancel(f, key) })
	l.flows[key], l.latest = f, f
	l.mu.Unlock()
	context.AfterFunc(ctx, f.stop)
	return f, l.write(body)
}

// cancel tells the server that nobody waits any more, and goes on collecting what it sends all the same.
func (l *stdioLink) cancel(f *flow, key string) {
	if _, ended, _ := f.messages(); ended {
		return
	}
	_ = l.write(notification("notifications/cancelled", map[string]any{"requestId": f.id}))
	f.finish(context.Canceled)
}

func (l *stdioLink) notify(_ context.Context, method string, params map[string]any) error {
	return l.write(notification(method, params))
}

func (l *stdioLink) write(body []byte) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	// Where a pipe has no deadlines, the end of the process frees the writer.
	_ = l.in.SetWriteDeadline(time.Now().Add(l.patience))
	_, err := l.in.Write(append(bytes.Clone(body), '\n'))
	return err
}

// close ends the process: its input first, then SIGTERM, then SIGKILL.
func (l *stdioLink) close() {
	l.in.Close()
	for _, end := range []func(){func() { l.cmd.Process.Signal(os.Interrupt) }, func() { l.cmd.Process.Kill() },
		func() {}} {
		select {
		case <-l.exited:
			l.read.Wait()
			return
		case <-time.After(stdioGrace):
			end()
		}
	}
	<-l.exited
	l.read.Wait()
}
