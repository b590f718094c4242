// Package reaper terminates processes that a killed test or program leaves behind, such as a database or a browser.
// Start with [Watch]. It is for tests, `make demo` and `make bench`.
package reaper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// taskVariable is the environment variable that contains the task of a reaper process.
const taskVariable = "MCPE_GEN_REAPER"

// A task is the input of a reaper process.
type task struct {
	Dir string
	// Above lists the make and go commands above the process that called [Watch].
	Above []process
}

// A Reaper is a process that waits until the process that called [Watch] has exited.
type Reaper struct {
	cmd  *exec.Cmd
	pipe io.Closer
}

// Watch starts another instance of this program as a reaper process. When the caller, or a make or go command above it,
// exits for any reason, the reaper terminates every process with its working directory in dir or with dir on its
// command line. Then it removes dir. Without /proc, the reaper watches only the caller and finds processes only by
// command line. On Windows, it does not find any. Call Watch before starting any process, and [Reaper.Release] at the
// end.
func Watch(dir string) (*Reaper, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(task{dir, ancestors()})
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), taskVariable+"="+string(text), "GORACE=atexit_sleep_ms=0")
	cmd.Dir = os.TempDir()
	detach(cmd)
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &Reaper{cmd, pipe}, nil
}

// Release stops the reaper, which removes dir. All processes in dir must have exited.
func (r *Reaper) Release() error {
	if r == nil {
		return nil
	}
	return errors.Join(r.pipe.Close(), r.cmd.Wait())
}

// The reaper process runs this program, but never reaches main.
func init() {
	text := os.Getenv(taskVariable)
	if text == "" {
		return
	}
	var o task
	if err := json.Unmarshal([]byte(text), &o); err != nil || o.Dir == "" {
		fmt.Fprintln(os.Stderr, "reaper: bad order", text)
		os.Exit(1)
	}
	o.waitForExit()
	o.reap()
	os.Exit(0)
}

// pollInterval is the interval for checking the commands above the starter.
const pollInterval = 300 * time.Millisecond

// waitForExit returns when the starter or a command above it has exited.
func (o *task) waitForExit() {
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	for {
		select {
		case <-ended:
			return
		case <-time.After(pollInterval):
		}
		for _, p := range o.Above {
			if !p.lives() {
				return
			}
		}
	}
}

const (
	// gracePeriod is the time for processes to exit before they are killed. reapTime is the time for which the reaper
	// searches for processes.
	gracePeriod = 2 * time.Second
	reapTime    = 30 * time.Second
)

// reap terminates the remaining processes. It repeats the search, because the starter may have started other processes
// just before it exited.
func (o *task) reap() {
	began := time.Now()
	for time.Since(began) < reapTime {
		found := processesIn(o.Dir)
		for _, p := range found {
			p.shutDown(time.Since(began) > gracePeriod)
		}
		if len(found) == 0 {
			os.RemoveAll(o.Dir)
			if _, err := os.Lstat(o.Dir); os.IsNotExist(err) && len(processesIn(o.Dir)) == 0 {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// A process identifies a process on this machine. Began distinguishes it from a later process with the same ID.
type process struct {
	ID    int
	Began string
}

// stat reads the status of a process from /proc.
func stat(id int) (name, state, parent, began string, ok bool) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(id), "stat"))
	if err != nil {
		return "", "", "", "", false
	}
	text := string(b) // pid (name) state ppid …; field 22 is the start time
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return "", "", "", "", false
	}
	fields := strings.Fields(text[end+1:])
	if len(fields) < 20 {
		return "", "", "", "", false
	}
	return text[open+1 : end], fields[0], fields[1], fields[19], true
}

func (p process) lives() bool {
	_, state, _, began, ok := stat(p.ID)
	return ok && state != "Z" && state != "X" && began == p.Began
}

// ancestors returns the ancestors of this process up to the topmost make or go command. Without such a command, it
// returns nil, so that processes started from a shell outlive the shell.
func ancestors() []process {
	var all []process
	upTo := 0
	for id := os.Getppid(); id > 1; {
		name, _, parent, began, ok := stat(id)
		if !ok {
			break
		}
		all = append(all, process{id, began})
		if name == "make" || name == "gmake" || name == "go" {
			upTo = len(all)
		}
		id, _ = strconv.Atoi(parent)
	}
	return all[:upTo]
}

// processesIn returns the processes with their working directory in dir or with dir on their command line.
func processesIn(dir string) (found []process) {
	if _, _, _, _, ok := stat(os.Getpid()); !ok {
		return processesNaming(dir)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil || id == os.Getpid() {
			continue
		}
		_, state, _, began, ok := stat(id)
		if !ok || state == "Z" || state == "X" {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		in, _ := os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
		in = strings.TrimSuffix(in, " (deleted)")
		if strings.Contains(string(line), dir) || in == dir || strings.HasPrefix(in, dir+string(filepath.Separator)) {
			found = append(found, process{id, began})
		}
	}
	return found
}

// processesNaming is like processesIn for systems without /proc. It checks only the command line.
func processesNaming(dir string) (found []process) {
	out, err := exec.Command("ps", "-axo", "pid=,command=").Output()
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(out)) {
		text, command, _ := strings.Cut(strings.TrimSpace(line), " ")
		if id, err := strconv.Atoi(text); err == nil && id != os.Getpid() && strings.Contains(command, dir) {
			found = append(found, process{ID: id})
		}
	}
	return found
}
