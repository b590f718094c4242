package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// defaultGrace is the default of Process.Grace.
	defaultGrace = 5 * time.Second
)

// A Process is a transport to a server that runs as a child process. Client and server exchange newline-delimited JSON
// over stdin and stdout. Each call to Connect starts a new process. Lines on stdout that are not JSON-RPC messages,
// such as log lines, are skipped.
type Process struct {
	// Cmd is the command to start. Each call to Connect starts a copy with the same Path, Args, Env, Dir, Stderr,
	// ExtraFiles and SysProcAttr. If Stderr is nil, os.Stderr is used.
	Cmd *exec.Cmd
	// Grace is how long the process may take to exit; 0 means 5 s. This time is allowed after stdin is closed and again
	// after SIGTERM. Then the process is killed.
	Grace time.Duration
	// Logger logs skipped lines at debug level; nil means slog.Default().
	Logger *slog.Logger

	// limit is the maximum length of a line in bytes; 0 means defaultMessage.
	limit int64
}

// withLimit returns a copy of p that limits the length of a line.
func (p *Process) withLimit(limit int64) *Process {
	own := *p
	own.limit = limit
	return &own
}

// Command returns a transport that runs the named program with args on each call to Connect.
func Command(name string, args ...string) *Process { return &Process{Cmd: exec.Command(name, args...)} }

// Connect starts the process. The process runs until the connection is closed; ctx has no effect after Connect has
// returned.
func (p *Process) Connect(ctx context.Context) (mcp.Connection, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if p.Cmd == nil {
		return nil, errors.New("client: Process.Cmd is nil")
	}
	grace := cmp.Or(max(p.Grace, 0), defaultGrace)
	cmd := &exec.Cmd{Path: p.Cmd.Path, Args: p.Cmd.Args, Env: p.Cmd.Env, Dir: p.Cmd.Dir, Stderr: p.Cmd.Stderr,
		ExtraFiles: p.Cmd.ExtraFiles, SysProcAttr: p.Cmd.SysProcAttr, WaitDelay: grace, Err: p.Cmd.Err}
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	// Use a separate pipe. Wait would close the pipe of package exec while it still contains output, or wait until a
	// grandchild closes it.
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
		return nil, fmt.Errorf("client: starting %s: %w", p.Cmd.Path, err)
	}
	log := cmp.Or(p.Logger, slog.Default())
	c := &processConn{cmd: cmd, in: in, out: out, grace: grace, exited: make(chan struct{}),
		lineConn: newLineConn(out, in, p.limit, log)}
	go func() {
		c.exit = cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

// A processConn is the connection to a running process.
type processConn struct {
	*lineConn
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *os.File
	grace time.Duration

	exited chan struct{} // closed when the process has exited; exit is its error
	exit   error

	closeOnce sync.Once
	closeErr  error
}

// Close ends the process. It closes stdin, then sends SIGTERM, then SIGKILL. It continues with the next step if the
// process does not exit within the grace period.
func (c *processConn) Close() error {
	c.closeOnce.Do(func() {
		c.lineConn.close()
		c.in.Close()
		c.closeErr = c.end()
		// A grandchild may still have stdout open, but nothing reads it.
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
