// Package filelock lets only one process have a file open, if all ask it. The lock is a file beside it, which names the
// process that has it. Start with [Acquire].
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

// DefaultWait is long enough for the holder to end, as in a restart.
const DefaultWait = 10 * time.Second

// Suffix is what the name of the lock's file has after that of the file it stands for.
const Suffix = ".lock"

// How often a lock that is held is asked for again.
const (
	retry    = 10 * time.Millisecond
	retryMax = 200 * time.Millisecond
)

// A Lock is held by one owner in this process and among others. The system takes
// it from a process that ends, however it ends; the file stays, so that nobody can lock another one
// of the same name. Who only reads, or copies the file that it stands for, needs no lock and finds none in the way.
type Lock struct {
	path string // of the file that it stands for
	file *os.File
}

// owned holds the files that this process has locked: on some systems locks do not keep a
// process from itself.
var owned = struct {
	sync.Mutex
	paths map[string]bool
}{paths: map[string]bool{}}

// A HeldError says that somebody else has the lock.
type HeldError struct {
	Path   string // of the file that the lock stands for
	Holder string // "held by pid 4711", as far as that can be told
	Waited time.Duration
	Cause  error // why nobody waited longer: that of a context, else nil
}

func (e *HeldError) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s, waiting for %s: %v", e.Holder, e.Path, e.Cause)
	}
	return fmt.Sprintf("%s, waited %v for %s", e.Holder, e.Waited, e.Path)
}

func (e *HeldError) Unwrap() error { return e.Cause }

// errHeld says that somebody else has the lock now.
var errHeld = errors.New("held")

// Acquire locks the file at path, which is resolved, waiting up to wait for its holder to go. Then, and when ctx ends,
// the error is a [*HeldError].
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

// tryLock takes the lock or returns errHeld.
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
	// Who removed the file meanwhile made room for another one, which somebody else may have locked.
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

// sign writes who holds the lock, for whoever waits.
func (l *Lock) sign() error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	host, _ := os.Hostname()
	_, err := l.file.WriteAt([]byte(fmt.Sprintf("%d\n%s\n", os.Getpid(), host)), 0)
	return err
}

// holder describes who has the lock, as far as that can be read.
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

// Release gives the lock up.
func (l *Lock) Release() error {
	owned.Lock()
	defer owned.Unlock()
	delete(owned.paths, l.path)
	return errors.Join(l.file.Truncate(0), l.file.Close())
}
