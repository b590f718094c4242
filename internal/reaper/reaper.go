// Package reaper ends processes, such as a database or a browser, that a killed test or program leaves behind. Start
// with [Watch]. It is for tests, `make demo` and `make bench`.
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

// variable marks a process as a reaper and holds its order.
const variable = "MCPE_GEN_REAPER"

// An order is the task of a reaper process.
type order struct {
	Dir string
	// Above lists the make and go commands that started the starter.
	Above []process
}

// A Reaper is a process that waits for the end of the process that called [Watch].
type Reaper struct {
	cmd  *exec.Cmd
	pipe io.Closer
}

// Watch starts this program again as a reaper process. When the starter, or a make or go command above it, ends for
// any reason, the reaper ends every process that works in dir or names it on its command line, and removes dir.
// Without /proc, the reaper does not watch the commands above and finds processes only by their command line; on
// Windows it finds none. Call Watch before starting anything, and [Reaper.Release] at the end.
func Watch(dir string) (*Reaper, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(order{dir, above()})
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), variable+"="+string(text), "GORACE=atexit_sleep_ms=0")
	cmd.Dir = os.TempDir()
	apart(cmd)
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &Reaper{cmd, pipe}, nil
}

// Release stops the watch and removes dir. The processes in dir must have ended.
func (r *Reaper) Release() error {
	if r == nil {
		return nil
	}
	return errors.Join(r.pipe.Close(), r.cmd.Wait())
}

// The reaper process is this program, but it never reaches main.
func init() {
	text := os.Getenv(variable)
	if text == "" {
		return
	}
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil || o.Dir == "" {
		fmt.Fprintln(os.Stderr, "reaper: bad order", text)
		os.Exit(1)
	}
	o.await()
	o.reap()
	os.Exit(0)
}

// lookEvery is the interval for checking the starter and the commands above it.
const lookEvery = 300 * time.Millisecond

// await returns once the starter or a command above it has ended.
func (o *order) await() {
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	for {
		select {
		case <-ended:
			return
		case <-time.After(lookEvery):
		}
		for _, p := range o.Above {
			if !p.lives() {
				return
			}
		}
	}
}

const (
	// gentle is the time that processes get to end by themselves. reapTime is the time spent looking for processes.
	gentle   = 2 * time.Second
	reapTime = 30 * time.Second
)

// reap ends remaining processes repeatedly, because the starter may have started others just before it died.
func (o *order) reap() {
	began := time.Now()
	for time.Since(began) < reapTime {
		found := working(o.Dir)
		for _, p := range found {
			p.end(time.Since(began) > gentle)
		}
		if len(found) == 0 {
			os.RemoveAll(o.Dir)
			if _, err := os.Lstat(o.Dir); os.IsNotExist(err) && len(working(o.Dir)) == 0 {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// A process is a process of this machine. Began distinguishes it from a later process with the same ID.
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

// above returns the ancestors of this process up to the topmost make or go command. It returns none without such a
// command, so that processes started from a shell outlive it.
func above() []process {
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

// working returns the processes that work in dir or name it on their command line.
func working(dir string) (found []process) {
	if _, _, _, _, ok := stat(os.Getpid()); !ok {
		return naming(dir)
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

// naming is like working, for systems without /proc.
func naming(dir string) (found []process) {
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
