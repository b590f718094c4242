package procgroup

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/childenv"
)

// exitTimeout is the time limit for a program to exit after SIGTERM.
const exitTimeout = 3 * time.Second

// A Program is a running command with its child processes.
type Program struct {
	// Name is the base name of the command.
	Name   string
	cmd    *exec.Cmd
	exited chan struct{}
}

// Start starts the command with the environment of this process, without secrets, and the variables in env. The caller
// must call End or Kill.
func Start(command, env []string, stdout, stderr io.Writer) (*Program, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(childenv.WithoutSecrets(cmd.Environ()), env...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = stdout, stderr, exitTimeout
	Lead(cmd)
	p := &Program{Name: filepath.Base(command[0]), cmd: cmd, exited: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.Name, err)
	}
	go func() {
		_ = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Exited returns a channel that is closed after the program has exited and its output was read.
func (p *Program) Exited() <-chan struct{} { return p.exited }

// HasEnded reports whether Exited is closed.
func (p *Program) HasEnded() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// Status returns the exit status, such as "exit status 0". The channel Exited must be closed.
func (p *Program) Status() string { return p.cmd.ProcessState.String() }

// Kill kills the program immediately, as in a crash.
func (p *Program) Kill() {
	_ = Kill(p.cmd.Process) // the program may have ended
	<-p.exited
}

// End sends SIGTERM to the program, kills it after a timeout, and reports whether it exited before the timeout.
func (p *Program) End() bool {
	_ = Terminate(p.cmd.Process)
	asked := false
	select {
	case <-p.exited:
		asked = true
	case <-time.After(exitTimeout):
	}
	p.Kill()
	return asked
}
