package campaign

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// listening is the line by which a replica says that it serves.
	listening = "campaign: listening on"
	// startTime and endTime bound the start and the orderly end of a replica, while the database has faults.
	startTime = 30 * time.Second
	endTime   = 30 * time.Second
	// quitTime is how long one that is made to say what its goroutines do may take for that.
	quitTime = 10 * time.Second
)

// A Slot is a place of the cluster: one replica after the other runs in it, at the same address.
type Slot struct {
	number  int
	program string
	env     []string
	log     io.Writer // of all its replicas
	lost    func()    // told when a replica says that it has lost its lease

	turn sync.Mutex // held by who starts, stops, kills or holds it

	mu      sync.Mutex
	options replicaOptions
	process *replica // nil while none runs
}

// A replica is a running process.
type replica struct {
	cmd   *exec.Cmd
	ready chan struct{} // closed when it serves
	done  chan struct{} // closed when it has ended
	err   error         // of Wait; read after done
}

// start starts a replica and waits until it serves. The slot is the caller's turn.
func (s *Slot) start(ctx context.Context) error {
	s.mu.Lock()
	args := s.options.args()
	s.mu.Unlock()
	p := &replica{cmd: exec.Command(s.program, args...), ready: make(chan struct{}), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), s.env...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return err
	}
	fmt.Fprintf(s.log, "--- %s starts at %s: %s\n", args[2], time.Now().Format(time.RFC3339Nano), strings.Join(args, " "))
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		lines := bufio.NewScanner(stderr)
		lines.Buffer(nil, 1<<20)
		for ready := false; lines.Scan(); {
			if !ready && strings.HasPrefix(lines.Text(), listening) {
				ready = true
				close(p.ready)
			}
			if strings.Contains(lines.Text(), "the lease is lost") {
				s.lost()
			}
			fmt.Fprintln(s.log, lines.Text())
		}
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	timer := time.NewTimer(startTime)
	defer timer.Stop()
	select {
	case <-p.ready:
		return nil
	case <-p.done:
		return fmt.Errorf("%s ended when it started: %w", s.options.name, p.err)
	case <-timer.C:
		return fmt.Errorf("%s does not serve after %v", s.options.name, startTime)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// restart starts a replica until one serves: a database that is away lets it end.
func (s *Slot) restart(ctx context.Context) error {
	for {
		err := s.start(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		s.kill()
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// Number is the slot's, from 0 to Replicas-1.
func (s *Slot) Number() int { return s.number }

// Name is its replicas' in leases.
func (s *Slot) Name() string { return s.options.name }

// Lock takes the turn: nobody else starts, stops, kills or holds its replica until Unlock.
func (s *Slot) Lock() { s.turn.Lock() }

// Unlock gives the turn back.
func (s *Slot) Unlock() { s.turn.Unlock() }

// Pause lets its replica, if one runs, stand still until Resume. The slot is the caller's turn.
func (s *Slot) Pause() error {
	if p := s.running(); p != nil {
		return Pause(p.cmd.Process)
	}
	return nil
}

// Resume lets its replica go on.
func (s *Slot) Resume() error {
	if p := s.running(); p != nil {
		return Resume(p.cmd.Process)
	}
	return nil
}

func (s *Slot) running() *replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// kill ends the replica as kill -9 does.
func (s *Slot) kill() {
	p := s.running()
	if p == nil {
		return
	}
	s.mu.Lock()
	s.process = nil
	s.mu.Unlock()
	p.cmd.Process.Kill()
	<-p.done
}

// dump ends the replica with what its goroutines do, which its log shows then.
func (s *Slot) dump() {
	p := s.running()
	if p == nil {
		return
	}
	s.mu.Lock()
	s.process = nil
	s.mu.Unlock()
	p.quit()
}

func (p *replica) quit() {
	_ = p.cmd.Process.Signal(syscall.SIGQUIT) // one that has died says nothing
	select {
	case <-p.done:
	case <-time.After(quitTime):
		p.cmd.Process.Kill()
		<-p.done
	}
}

// end asks the replica to end and reports anything but an orderly end.
func (s *Slot) end() error {
	p := s.running()
	if p == nil {
		return nil
	}
	s.mu.Lock()
	s.process = nil
	s.mu.Unlock()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
		if p.err != nil {
			return fmt.Errorf("%s ended with %w", s.options.name, p.err)
		}
		return nil
	case <-time.After(endTime + 5*time.Second):
		p.quit()
		return fmt.Errorf("%s did not end within %v of SIGTERM", s.options.name, endTime)
	}
}
