package sqlite

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

// lockSuffix is what the name of the lock's file has after the database's.
const lockSuffix = ".lock"

// How often a lock that is held is asked for again.
const (
	lockRetry    = 10 * time.Millisecond
	lockRetryMax = 200 * time.Millisecond
)

// A lock makes a Store the only one on its file, in this process and among others. The system takes
// it from a process that ends, however it ends; the file stays, so that nobody can lock another one
// of the same name. Who only reads, or copies the file, needs no lock and finds none in the way.
type lock struct {
	path string // of the database
	file *os.File
}

// owned holds the databases that this process has locked: on some systems locks do not keep a
// process from itself.
var owned = struct {
	sync.Mutex
	paths map[string]bool
}{paths: map[string]bool{}}

// errHeld says that somebody else has the lock.
var errHeld = errors.New("held")

// acquire locks the database at path, which is resolved, waiting up to wait for its holder to go.
func acquire(ctx context.Context, path string, wait time.Duration) (*lock, error) {
	begun := time.Now()
	for pause := lockRetry; ; pause = min(2*pause, lockRetryMax) {
		l, err := tryLock(path)
		if !errors.Is(err, errHeld) {
			return l, err
		}
		left := wait - time.Since(begun)
		if left <= 0 {
			return nil, fmt.Errorf("%w: %s, waited %v for %s", ErrBusy, holder(path), max(wait, 0), path)
		}
		timer := time.NewTimer(min(pause, left))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("%w: %s, waiting for %s: %w", ErrBusy, holder(path), path, context.Cause(ctx))
		}
	}
}

// tryLock takes the lock or returns errHeld.
func tryLock(path string) (_ *lock, err error) {
	owned.Lock()
	defer owned.Unlock()
	if owned.paths[path] {
		return nil, errHeld
	}
	l := &lock{path: path}
	if l.file, err = openLock(path + lockSuffix); err != nil {
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
func (l *lock) sign() error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	host, _ := os.Hostname()
	_, err := l.file.WriteAt([]byte(fmt.Sprintf("%d\n%s\n", os.Getpid(), host)), 0)
	return err
}

// holder describes who has the lock, as far as that can be read.
func holder(path string) string {
	f, err := os.Open(path + lockSuffix)
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

// release gives the lock up.
func (l *lock) release() error {
	owned.Lock()
	defer owned.Unlock()
	delete(owned.paths, l.path)
	return errors.Join(l.file.Truncate(0), l.file.Close())
}
