package main

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

// endTime is how long an example may take to exit after SIGTERM.
const endTime = 10 * time.Second

// A process is a started program. It stores the lines of its output.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and its output is read
	err  error         // of Wait; read after done

	mu     sync.Mutex
	stdout []string
	came   []time.Time // arrival times of the lines of stdout
	stderr []string
	more   chan struct{} // closed and replaced at each line of stderr
}

func spawn(name string, args ...string) (*process, error) {
	p := &process{name: name, cmd: exec.Command(name, args...), done: make(chan struct{}), more: make(chan struct{})}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	var readers sync.WaitGroup
	readers.Go(func() { p.runReader(stdout, &p.stdout) })
	readers.Go(func() { p.runReader(stderr, &p.stderr) })
	go func() {
		readers.Wait()
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *process) runReader(r io.Reader, lines *[]string) {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		p.mu.Lock()
		*lines = append(*lines, sc.Text())
		if lines == &p.stdout {
			p.came = append(p.came, time.Now())
		}
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
	}
}

// waitFor waits for a line of stderr that contains mark. It returns the text after mark.
func (p *process) waitFor(ctx context.Context, mark string) (string, error) {
	for {
		p.mu.Lock()
		more := p.more
		for _, l := range p.stderr {
			if _, rest, ok := strings.Cut(l, mark); ok {
				p.mu.Unlock()
				return rest, nil
			}
		}
		p.mu.Unlock()
		select {
		case <-more:
		case <-p.done:
			return "", fmt.Errorf("%s ended early (%v): %s", p.name, p.err, strings.Join(p.stderr, "; "))
		case <-ctx.Done():
			return "", fmt.Errorf("%s: waiting for %q: %w", p.name, mark, ctx.Err())
		}
	}
}

// lines returns the lines that the process has written to stdout.
func (p *process) lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stdout
}

// waitExit waits until the process exits, prints its output to w and returns its error.
func (p *process) waitExit(ctx context.Context, w io.Writer, heading string) error {
	select {
	case <-p.done:
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", p.name, ctx.Err())
	}
	fmt.Fprintln(w, "\n"+heading)
	for _, line := range p.lines() {
		fmt.Fprintln(w, strings.TrimRight("  "+line, " "))
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w: %s", p.name, p.err, strings.Join(p.stderr, "; "))
	}
	return nil
}

// next returns the arrival time of the first line of stdout after at.
func (p *process) next(at time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.came {
		if t.After(at) {
			return t
		}
	}
	return time.Now()
}

func (p *process) count() int { return len(p.lines()) }

// end stops the process. It returns an error unless the process exits with code 0 within endTime.
func (p *process) end() error {
	// After Ctrl-C in a terminal, the process may have already exited.
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	select {
	case <-p.done:
	case <-time.After(endTime):
		return fmt.Errorf("%s did not end within %v of SIGTERM", p.name, endTime)
	}
	if p.err != nil {
		return fmt.Errorf("%s ended with %w: %s", p.name, p.err, strings.Join(p.stderr, "; "))
	}
	return nil
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}
