// Package filelock lets only one cooperating process open a file. The lock is a file next to it, which names its
// owner. Start with [Acquire].
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

// DefaultWait is long enough for the owner to end, as in a restart.
const DefaultWait = 10 * time.Second

// Suffix is appended to the name of a file to form the name of its lock file.
const Suffix = ".lock"

// Polling intervals for a held lock.
const (
	retry    = 10 * time.Millisecond
	retryMax = 200 * time.Millisecond
)

// A Lock has one owner across goroutines and processes. The system releases it when the process ends for any reason.
// The lock file stays, so that no other process can lock a new file with the same name. Readers of the locked file
// need no lock and are not blocked.
type Lock struct {
	path string // of the locked file
	file *os.File
}

// owned holds the files that this process has locked. On some systems a lock does not exclude its own process.
var owned = struct {
	sync.Mutex
	paths map[string]bool
}{paths: map[string]bool{}}

// A HeldError reports that another owner has the lock.
type HeldError struct {
	Path   string // of the locked file
	Holder string // "held by pid 4711", as far as that can be told
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

// errHeld reports that another owner has the lock now.
var errHeld = errors.New("held")

// Acquire locks the file at path, after resolving symbolic links. It waits up to wait for the owner to release it.
// After that, or when ctx ends, the error is a [*HeldError].
func Acquire(ctx context.Context, path string, wait time.Duration) (*Lock, error) {
	begun := time.Now()
	for pause := retry; ; pause = min(2*pause, retryMax) {
		l, err := tryLock(path)
		if !errors.Is(err, errHeld) {
			return l, err
		}
		left := wait - time.Since(begun)
		if left <= 0 {
			return nil, &HeldError{Path: path, Holder: holder(path), Waited: max(wait, 0)}
		}
		timer := time.NewTimer(min(pause, left))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, &HeldError{Path: path, Holder: holder(path), Waited: time.Since(begun), Cause: context.Cause(ctx)}
		}
	}
}

// tryLock takes the lock, or returns errHeld.
func tryLock(path string) (_ *Lock, err error) {
	owned.Lock()
	defer owned.Unlock()
	if owned.paths[path] {
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
	// If the file was removed meanwhile, another process may have created and locked a new one.
	mine, err := l.file.Stat()
	if err != nil {
		return nil, err
	}
	if there, err := os.Stat(l.file.Name()); err != nil || !os.SameFile(mine, there) {
		return nil, errHeld
	}
	if err := l.sign(); err != nil {
		return nil, fmt.Errorf("writing the lock: %w", err)
	}
	owned.paths[path] = true
	return l, nil
}

// sign writes the owner into the lock file, for processes that wait.
func (l *Lock) sign() error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	host, _ := os.Hostname()
	_, err := l.file.WriteAt([]byte(fmt.Sprintf("%d\n%s\n", os.Getpid(), host)), 0)
	return err
}

// holder describes the owner of the lock, as far as the file shows it.
func holder(path string) string {
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
	owned.Lock()
	defer owned.Unlock()
	delete(owned.paths, l.path)
	return errors.Join(l.file.Truncate(0), l.file.Close())
}
