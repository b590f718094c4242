//go:build unix

package wake

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// gone waits until there is no process of that id, a minute at most. One that only waits to be collected is gone.
func gone(pid int) bool {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return true
		}
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && strings.Contains(string(stat), ") Z ") {
			return true
		}
	}
	return false
}

func withGrace(t *testing.T, d time.Duration) {
	before := grace
	grace = d
	t.Cleanup(func() { grace = before })
}

// started waits for the files that commands write when they are ready, and then does something.
func started(t *testing.T, then func(), files ...string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, file := range files {
			if !waitFor(file) {
				t.Errorf("no %s after a minute", filepath.Base(file))
			}
		}
		then()
	}()
	t.Cleanup(func() { <-done })
}

// BRIDGE-4: at the end of the context the command is asked to end; what it then reports does not settle the batch.
func TestAskedToEnd(t *testing.T) {
	withGrace(t, time.Minute)
	file := filepath.Join(t.TempDir(), "polite")
	c := doing(t, "polite", file)
	ctx, cancel := context.WithCancel(t.Context())
	started(t, cancel, file)
	outcome, err := c.Try(ctx, batch(`{}`))
	if outcome != Retry || !errors.Is(err, context.Canceled) {
		t.Error(outcome, err)
	}
	if !read[bool](t, file+".asked") {
		t.Error("it was not asked")
	}
}

// BRIDGE-4: a command that does not end is killed, and so are the processes that it has started.
func TestKilled(t *testing.T) {
	withGrace(t, 20*time.Millisecond)
	dir := t.TempDir()
	own, child := filepath.Join(dir, "own"), filepath.Join(dir, "child")
	c := doing(t, "both", own, child)
	ctx, cancel := context.WithCancel(t.Context())
	started(t, cancel, own, child)
	outcome, err := c.Try(ctx, batch(`{}`))
	if outcome != Retry || !errors.Is(err, context.Canceled) {
		t.Error(outcome, err)
	}
	for _, file := range []string{own, child} {
		if pid := read[int](t, file); !gone(pid) {
			t.Errorf("%s runs on", filepath.Base(file))
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// A process that the command leaves behind, with its input and output, holds nothing up.
func TestLeftBehind(t *testing.T) {
	withGrace(t, 20*time.Millisecond)
	child := filepath.Join(t.TempDir(), "child")
	c := doing(t, "leave", child)
	outcome, err := c.Try(t.Context(), batch(`{"data":"`+strings.Repeat("x", 1<<20)+`"}`))
	if outcome != Settled || err != nil {
		t.Error(outcome, err)
	}
	pid := read[int](t, child)
	_ = syscall.Kill(pid, syscall.SIGKILL)
	if !gone(pid) {
		t.Error("the test leaves a process behind")
	}
}

// A command that runs at the end has its time, and settles its batch.
func TestDrain(t *testing.T) {
	dir := t.TempDir()
	ready, end := filepath.Join(dir, "ready"), filepath.Join(dir, "go")
	c := doing(t, "last", ready, end)
	c.Drain = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	started(t, func() {
		cancel()
		if err := os.WriteFile(end, nil, 0o600); err != nil {
			t.Error(err)
		}
	}, ready)
	if outcome, err := c.Run(ctx, batch(`{}`)); outcome != Settled || err != nil {
		t.Error(outcome, err)
	}
}
