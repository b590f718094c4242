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
	// listening is the log line of a replica that accepts requests.
	listening = "campaign: listening on"
	// startTime and endTime are the maximum times for a replica's start and graceful shutdown while the database has
	// faults.
	startTime = 30 * time.Second
	endTime   = 30 * time.Second
	// quitTime is the maximum time for a replica to dump its goroutines.
	quitTime = 10 * time.Second
)

// A Slot is an address in the cluster with a sequence of replicas. At most one of its replicas runs at a time.
type Slot struct {
	number  int
	program string
	env     []string
	log     io.Writer // of all its replicas
	lost    func()    // called when a replica logs that it has lost its lease

	turn sync.Mutex // held while starting, stopping, killing or pausing the replica

	mu      sync.Mutex
	options replicaOptions
	process *replica // nil if no replica runs
}

// A replica is a running process.
type replica struct {
	cmd   *exec.Cmd
	ready chan struct{} // closed when it accepts requests
	done  chan struct{} // closed when it has exited
	err   error         // of Wait; read after done
}

// start starts a replica and waits until it accepts requests. The caller must hold the slot's lock.
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
		return fmt.Errorf("%s ended during its start: %w", s.options.name, p.err)
	case <-timer.C:
		return fmt.Errorf("%s does not accept requests after %v", s.options.name, startTime)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// restart starts replicas until one accepts requests. A replica exits if the database is unavailable.
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

// Number returns the slot's number, from 0 to Replicas-1.
func (s *Slot) Number() int { return s.number }

// Name returns the name that the slot's replicas use in leases.
func (s *Slot) Name() string { return s.options.name }

// Lock locks the slot. Until Unlock is called, no other goroutine starts, stops, kills or pauses the slot's replica.
func (s *Slot) Lock() { s.turn.Lock() }

// Unlock unlocks the slot.
func (s *Slot) Unlock() { s.turn.Unlock() }

// Pause suspends the slot's replica, if one is running, until Resume is called. The caller must hold the slot's lock.
func (s *Slot) Pause() error {
	if p := s.running(); p != nil {
		return Pause(p.cmd.Process)
	}
	return nil
}

// Resume resumes the slot's replica.
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

// kill kills the replica with SIGKILL.
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

// dump terminates the replica and writes a dump of its goroutines to its log.
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
	_ = p.cmd.Process.Signal(syscall.SIGQUIT) // fails if the process has exited
	select {
	case <-p.done:
	case <-time.After(quitTime):
		p.cmd.Process.Kill()
		<-p.done
	}
}

// end shuts the replica down gracefully. It returns an error if that fails.
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
