// Package filelock restricts a file to one process at a time. All processes must use the package. The lock is a
// separate file in the same directory, which contains the process ID of its owner. Start with [Acquire].
package filelock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// DefaultWait is a wait that is long enough for the owner to exit during a restart.
const DefaultWait = 10 * time.Second

// Suffix is appended to the name of a file to form the name of its lock file.
const Suffix = ".lock"

// The polling interval for a held lock grows from minPoll to maxPoll.
const (
	minPoll = 10 * time.Millisecond
	maxPoll = 200 * time.Millisecond
)

// A Lock has a single owner across all goroutines and processes. The operating system releases it when the process
// exits for any reason. The lock file is never removed, so no other process can lock a new file with the same name.
// Readers of the locked file do not need a lock and are not blocked.
type Lock struct {
	path string // of the locked file
	file *os.File
}

// lockedFiles is the set of files that this process has locked. On some systems, a lock does not exclude the process
// that holds it.
var lockedFiles = struct {
	sync.Mutex
	paths map[string]bool
}{paths: map[string]bool{}}

// A HeldError reports that the lock has another owner.
type HeldError struct {
	Path   string // of the locked file
	Holder string // such as "held by pid 4711"; less if the holder is unknown
	Waited time.Duration
	Cause  error // the error of the context that ended the wait, or nil
}

func (e *HeldError) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s, waiting for %s: %v", e.Holder, e.Path, e.Cause)
	}
	return fmt.Sprintf("%s, waited %v for %s", e.Holder, e.Waited, e.Path)
}

func (e *HeldError) Unwrap() error { return e.Cause }

// errHeld reports that the lock currently has another owner.
var errHeld = errors.New("held")

// Acquire locks the file at path, which must be a result of [Resolve]. If the lock has an owner, Acquire waits for up
// to wait. If the wait expires or ctx ends, it returns a [*HeldError].
func Acquire(ctx context.Context, path string, wait time.Duration) (*Lock, error) {
	begun := time.Now()
	for pause := minPoll; ; pause = min(2*pause, maxPoll) {
		l, err := tryLock(path)
		if !errors.Is(err, errHeld) {
			return l, err
		}
		left := wait - time.Since(begun)
		if left <= 0 {
			return nil, &HeldError{Path: path, Holder: describeOwner(path), Waited: max(wait, 0)}
		}
		timer := time.NewTimer(min(pause, left))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, &HeldError{Path: path, Holder: describeOwner(path), Waited: time.Since(begun), Cause: context.Cause(ctx)}
		}
	}
}

// tryLock acquires the lock without waiting, or returns errHeld.
func tryLock(path string) (_ *Lock, err error) {
	lockedFiles.Lock()
	defer lockedFiles.Unlock()
	if lockedFiles.paths[path] {
		return nil, errHeld
	}
	l := &Lock{path: path}
	if l.file, err = openLock(path + Suffix); err != nil {
		return nil, fmt.Errorf("making the lock: %w", err)
	}
	defer func() {
		if err != nil {
			l.file.Close()
		}
	}()
	if err := flock(l.file); err != nil {
		if !errors.Is(err, errHeld) {
			err = fmt.Errorf("locking %s: %w", l.file.Name(), err)
		}
		return nil, err
	}
	// If the file has been removed, another process may have created and locked a new one.
	mine, err := l.file.Stat()
	if err != nil {
		return nil, err
	}
	if there, err := os.Stat(l.file.Name()); err != nil || !os.SameFile(mine, there) {
		return nil, errHeld
	}
	if err := l.writeOwner(); err != nil {
		return nil, fmt.Errorf("writing the lock: %w", err)
	}
	lockedFiles.paths[path] = true
	return l, nil
}

// writeOwner writes the process ID and host to the lock file, for error messages of other processes.
func (l *Lock) writeOwner() error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	host, _ := os.Hostname()
	_, err := l.file.WriteAt([]byte(fmt.Sprintf("%d\n%s\n", os.Getpid(), host)), 0)
	return err
}

// describeOwner describes the owner of the lock from the content of the lock file.
func describeOwner(path string) string {
	f, err := os.Open(path + Suffix)
	if err != nil {
		return "held by a process that cannot be named"
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, 512))
	first, host, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(first)
	host = strings.TrimSpace(host)
	here, _ := os.Hostname()
	switch {
	case err != nil:
		return "held by a process that cannot be named"
	case pid == os.Getpid() && host == here:
		return fmt.Sprintf("held by this process, pid %d", pid)
	case host == "":
		return fmt.Sprintf("held by pid %d", pid)
	}
	return fmt.Sprintf("held by pid %d on %q", pid, host)
}

// Release releases the lock.
func (l *Lock) Release() error {
	lockedFiles.Lock()
	defer lockedFiles.Unlock()
	delete(lockedFiles.paths, l.path)
	return errors.Join(l.file.Truncate(0), l.file.Close())
}
