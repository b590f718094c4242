// Package reaper ends what a test or program leaves behind when it is killed, such as a database or a browser. Start
// with [Watch]. It is for tests and for what `make demo` and `make bench` run.
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

// variable tells a process that it is to watch, and what.
const variable = "MCPE_GEN_REAPER"

// An order is what a watching process is told.
type order struct {
	Dir string
	// Above are the make and go commands that the starter was started by.
	Above []process
}

// A Reaper is a process that waits for the death of the one that called [Watch].
type Reaper struct {
	cmd  *exec.Cmd
	pipe io.Closer
}

// Watch starts a process, this program once more, that outlives this one by a moment: when this one has ended, by
// whatever signal, or the make or go command that it was started by, every process that works in dir, or names it
// in its command line, is ended, and dir is removed. Where there is no /proc, those below make and go go on, and
// processes are found by the command line alone; on Windows none are. Call it before anything is started, and [Reaper.Release] at the end.
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

// Release ends the watch. What dir was for has ended; what is left of it is removed.
func (r *Reaper) Release() error {
	if r == nil {
		return nil
	}
	return errors.Join(r.pipe.Close(), r.cmd.Wait())
}

// The program that watches is this one: it never comes to its main.
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

// lookEvery is how often it is looked whether those above the starter live.
const lookEvery = 300 * time.Millisecond

// await returns when the starter has ended, or one above it.
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
	// gentle is how long processes have to end by themselves, reapTime how long they are looked for.
	gentle   = 2 * time.Second
	reapTime = 30 * time.Second
)

// reap ends what is left, again and again: what was being started when the starter died may come yet.
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

// A process is one of this machine; Began tells it from a later one with its id.
type process struct {
	ID    int
	Began string
}

// stat reads what /proc says of a process.
func stat(id int) (name, state, parent, began string, ok bool) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(id), "stat"))
	if err != nil {
		return "", "", "", "", false
	}
	text := string(b) // pid (name) state ppid …; the 22nd is when it began
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

// above returns the processes above this one up to the topmost make or go command; none where neither started it,
// so that what runs in a shell outlives that.
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

// working returns the processes that work in dir or name it in their command line.
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

// naming is working for systems without /proc.
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
