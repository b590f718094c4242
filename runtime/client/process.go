package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxLine bounds one message of a process.
	maxLine = 16 << 20
	// defaultGrace is how long a process may take to exit at each stage of ending it.
	defaultGrace = 5 * time.Second
)

// A Process is the transport to a server that runs as a child process and speaks newline-delimited
// JSON on its stdin and stdout. Each Connect starts a fresh process. Lines of stdout that are no
// JSON-RPC message, such as a logger's, are skipped.
type Process struct {
	// Name and Args are the program and its arguments, as for exec.Command.
	Name string
	Args []string
	// Env is the environment; nil means this process's.
	Env []string
	// Dir is the working directory; empty means this process's.
	Dir string
	// Stderr receives the process's stderr; nil means this process's.
	Stderr io.Writer
	// Grace is how long the process may take to exit after its stdin was closed, and again after
	// SIGTERM, before it is killed; 0 means 5 s.
	Grace time.Duration
	// Logger receives the skipped lines at debug level; nil discards them.
	Logger *slog.Logger
}

// Command is the transport to the program name with args, started by each Connect.
func Command(name string, args ...string) *Process { return &Process{Name: name, Args: args} }

// Connect starts the process. It runs until the connection is closed; ctx bounds nothing after
// Connect has returned.
func (p *Process) Connect(ctx context.Context) (mcp.Connection, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cmd := exec.Command(p.Name, p.Args...)
	cmd.Env, cmd.Dir, cmd.Stderr = p.Env, p.Dir, p.Stderr
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	grace := p.Grace
	if grace <= 0 {
		grace = defaultGrace
	}
	cmd.WaitDelay = grace
	// A pipe of our own: exec's would be closed by Wait with output still in it, or stay open as
	// long as a grandchild holds it.
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = childOut
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	childOut.Close()
	if err != nil {
		out.Close()
		return nil, fmt.Errorf("client: starting %s: %w", p.Name, err)
	}
	log := p.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &processConn{cmd: cmd, in: in, out: out, grace: grace, log: log,
		messages: make(chan jsonrpc.Message), closed: make(chan struct{}), read: make(chan struct{}), exited: make(chan struct{})}
	go c.pump()
	go func() {
		c.exit = cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

// A processConn is the connection to one running process.
type processConn struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *os.File
	grace time.Duration
	log   *slog.Logger

	messages chan jsonrpc.Message
	read     chan struct{} // closed when stdout has ended; readErr says how
	readErr  error
	exited   chan struct{} // closed when the process is gone; exit is its error
	exit     error

	writing   sync.Mutex
	closeOnce sync.Once
	closed    chan struct{}
	closeErr  error
}

// pump reads stdout to its end, also while nobody asks for messages any more: a process that
// cannot write does not exit.
func (c *processConn) pump() {
	lines := bufio.NewReaderSize(c.out, 64<<10)
	for {
		line, err := readLine(lines)
		if err != nil {
			if err == errLineTooLong {
				c.log.Warn("process wrote a line above 16 MiB")
			}
			c.readErr = err
			close(c.read)
			io.Copy(io.Discard, lines)
			return
		}
		messages := decodeLine(line)
		if messages == nil && len(line) > 0 {
			c.log.Debug("skipped a line of stdout that is no message", "line", string(line[:min(len(line), 200)]))
		}
		for _, m := range messages {
			select {
			case c.messages <- m:
			case <-c.closed:
			}
		}
	}
}

var errLineTooLong = errors.New("client: line above 16 MiB")

// readLine returns the next line without its end. A last line without an end counts.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, errLineTooLong
		}
		if err == nil || err == io.EOF && len(line) > 0 {
			return bytes.TrimSpace(line), nil
		}
		if err != bufio.ErrBufferFull {
			return nil, io.EOF
		}
	}
}

// decodeLine returns the messages of a line: one, those of a batch, or none when the line is
// something else.
func decodeLine(line []byte) []jsonrpc.Message {
	if len(line) == 0 {
		return nil
	}
	switch line[0] {
	case '{':
		if m, err := jsonrpc.DecodeMessage(line); err == nil {
			return []jsonrpc.Message{m}
		}
	case '[':
		var parts []json.RawMessage
		if json.Unmarshal(line, &parts) != nil {
			return nil
		}
		var batch []jsonrpc.Message
		for _, part := range parts {
			m, err := jsonrpc.DecodeMessage(part)
			if err != nil {
				return nil
			}
			batch = append(batch, m)
		}
		return batch
	}
	return nil
}

func (c *processConn) SessionID() string { return "" }

func (c *processConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-c.messages:
		return m, nil
	case <-c.read:
		return nil, c.readErr
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *processConn) Write(ctx context.Context, m jsonrpc.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err = c.in.Write(append(data, '\n'))
	return err
}

// Close ends the process in order: stdin is closed, then SIGTERM, then SIGKILL, each when the stage
// before did not help within the grace.
func (c *processConn) Close() error {
	c.closeOnce.Do(func() {
		close(c.closed)
		c.in.Close()
		c.closeErr = c.end()
		// A grandchild may hold stdout; nobody reads it any more.
		c.out.Close()
	})
	<-c.exited
	return c.closeErr
}

func (c *processConn) end() error {
	if c.gone() {
		return c.exit
	}
	c.cmd.Process.Signal(syscall.SIGTERM)
	if c.gone() {
		return nil
	}
	c.cmd.Process.Kill()
	<-c.exited
	return fmt.Errorf("client: %s did not exit and was killed", c.cmd.Path)
}

func (c *processConn) gone() bool {
	t := time.NewTimer(c.grace)
	defer t.Stop()
	select {
	case <-c.exited:
		return true
	case <-t.C:
		return false
	}
}
