package receivers

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/procgroup"
)

// grace is how long the program may take to end when it is asked to.
const grace = 3 * time.Second

// A program is the receiver's, started by its command.
type program struct {
	name   string
	cmd    *exec.Cmd
	exited chan struct{}
}

// start starts the command. The caller calls end or kill.
func start(command []string, out io.Writer) (*program, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, out, grace
	procgroup.Lead(cmd)
	p := &program{name: filepath.Base(command[0]), cmd: cmd, exited: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	go func() {
		_ = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// kill ends the program at once, as a crash does, with all that it has started.
func (p *program) kill() {
	procgroup.Kill(p.cmd.Process)
	<-p.exited
}

// end asks the program to end, and kills it when it does not.
func (p *program) end() {
	_ = procgroup.Terminate(p.cmd.Process)
	select {
	case <-p.exited:
	case <-time.After(grace):
	}
	p.kill()
}
