package wake

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os/exec"

	"github.com/mcpe-gen/mcpe-gen/internal/childenv"
	"github.com/mcpe-gen/mcpe-gen/internal/procgroup"
)

// grace is Grace, or a shorter time in tests.
var grace = Grace

// process runs the command. It returns when the command has exited and its output is closed, or when ctx is done and
// the command's process group has ended. The error is a *StartError, or it explains why the exit code does not count.
func (c *Command) process(ctx context.Context, stdin []byte, env []string, out io.Writer) (int, error) {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = append(childenv.WithoutSecrets(cmd.Environ(), c.Secrets...), env...)
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Stdout, cmd.Stderr = out, out // the same writer, so that one goroutine writes
	procgroup.Lead(cmd)
	ended := false
	cmd.Cancel = func() error { // called before Wait returns, and not after the command has exited
		ended = true
		return procgroup.Terminate(cmd.Process)
	}
	cmd.WaitDelay = grace
	if err := cmd.Start(); err != nil {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return 0, &StartError{Name: c.Argv[0], Err: startFailure(err)}
	}
	err := cmd.Wait()
	if ended {
		_ = procgroup.Kill(cmd.Process) // the rest of the group
		return 0, context.Cause(ctx)
	}
	if cmd.ProcessState == nil {
		return 0, err
	}
	// Other errors concern the pipes. A command need not read its input, and processes that it leaves running can keep
	// its output open.
	return cmd.ProcessState.ExitCode(), nil
}

// startFailure returns the reason why a program cannot be started, without text that the outer error repeats.
func startFailure(err error) error {
	if e, ok := errors.AsType[*exec.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
