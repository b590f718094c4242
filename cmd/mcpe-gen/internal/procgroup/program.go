package procgroup

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/childenv"
)

// grace is how long a program may take to end when it is asked to.
const grace = 3 * time.Second

// A Program is a command that runs, with all that it starts.
type Program struct {
	// Name is the command's, without its directory.
	Name   string
	cmd    *exec.Cmd
	exited chan struct{}
}

// Start starts the command with more of an environment than this process has. The caller calls End or Kill.
func Start(command, env []string, stdout, stderr io.Writer) (*Program, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(childenv.WithoutSecrets(cmd.Environ()), env...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = stdout, stderr, grace
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

// Exited is closed once the program has ended and its output was read.
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

// Status says how the program ended, once Exited is closed: "exit status 0".
func (p *Program) Status() string { return p.cmd.ProcessState.String() }

// Kill ends the program at once, as a crash does.
func (p *Program) Kill() {
	Kill(p.cmd.Process)
	<-p.exited
}

// End asks the program to end, kills it when it does not, and reports whether it ended by itself.
func (p *Program) End() bool {
	_ = Terminate(p.cmd.Process)
	asked := false
	select {
	case <-p.exited:
		asked = true
	case <-time.After(grace):
	}
	p.Kill()
	return asked
}
