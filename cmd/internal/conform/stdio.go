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

	"github.com/mcpe-gen/mcpe-gen/internal/childenv"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// stdioGrace is how long a process may take to exit after each step of its termination.
const stdioGrace = 3 * time.Second

// A process is a running server process.
type process struct {
	// stdin and stdout are the standard input and output of the process.
	stdin interface {
		io.WriteCloser
		SetWriteDeadline(time.Time) error
	}
	stdout io.ReadCloser
	// exited is closed when the process has exited.
	exited chan struct{}
	// interrupt and kill send signals to the process.
	interrupt, kill func()
}

// A stdioLink exchanges newline-delimited JSON with a process.
type stdioLink struct {
	*process
	// patience is how long the process may leave a request unread.
	patience time.Duration
	read     sync.WaitGroup
	observe  func(*flow, message)

	writing sync.Mutex
	mu      sync.Mutex
	flows   map[string]*flow // by the bytes of the request's id
	latest  *flow            // receives the messages that name no flow
	over    error
	stray   string // the first line that is not a message
}

// start starts the command of the target.
func (r *run) start() (*process, error) {
	if r.o.process != nil {
		return r.o.process(), nil
	}
	return startProcess(r.o.Target.Command, r.o.Stderr)
}

func startProcess(command []string, stderr io.Writer) (*process, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = childenv.WithoutSecrets(cmd.Environ())
	cmd.Stderr, cmd.WaitDelay = stderr, stdioGrace
	// Create the pipes here. Those of exec would stay open while a grandchild holds them.
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
	p := &process{stdin: in, stdout: out, exited: make(chan struct{}), interrupt: func() { cmd.Process.Signal(os.Interrupt) },
		kill: func() { cmd.Process.Kill() }}
	go func() {
		_ = cmd.Wait()
		close(p.exited)
		// A grandchild may hold stdout; ignore its output.
		out.Close()
	}()
	return p, nil
}

func newStdioLink(p *process, patience time.Duration, observe func(*flow, message)) *stdioLink {
	l := &stdioLink{process: p, patience: patience, flows: map[string]*flow{}, observe: observe}
	l.read.Go(func() { l.pump(p.stdout) })
	return l
}

func (*stdioLink) settle(string, string) {}

// pump reads standard output until EOF. It retains the first line that is not a message, such as a log line.
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

// route passes a message to its flow. A message without a flow goes to the latest flow so that its check reports the
// fault.
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

// cancel notifies the server that the request is canceled, and ends its flow. The flow still records later messages.
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
	// If a pipe does not support deadlines, the writer is unblocked when the process exits.
	_ = l.stdin.SetWriteDeadline(time.Now().Add(l.patience))
	_, err := l.stdin.Write(append(bytes.Clone(body), '\n'))
	return err
}

// close terminates the process. It closes standard input, then sends SIGTERM, then SIGKILL.
func (l *stdioLink) close() {
	l.stdin.Close()
	for _, end := range []func(){l.interrupt, l.kill} {
		select {
		case <-l.exited:
		case <-time.After(stdioGrace):
			end()
		}
	}
	<-l.exited
	l.read.Wait()
}
