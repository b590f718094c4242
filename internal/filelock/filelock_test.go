package filelock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const childEnv = "MCPE_FILELOCK_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if _, err := Acquire(context.Background(), path, 0); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("held")
		io.Copy(io.Discard, os.Stdin) // until it is killed; without cgo, select {} is a deadlock that the runtime ends
	}
	os.Exit(m.Run())
}

func wantHeld(t *testing.T, err error, by string) {
	t.Helper()
	held := (*HeldError)(nil)
	if !errors.As(err, &held) || !strings.Contains(err.Error(), by) || !strings.Contains(err.Error(), held.Path) {
		t.Fatalf("%v, want that it is held by %s", err, by)
	}
}

// Who waits is told who holds the file; whoever waits when it is given up gets it.
func TestAcquire(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	synctest.Test(t, func(t *testing.T) {
		l, err := Acquire(t.Context(), path, 0)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		_, err = Acquire(t.Context(), path, time.Minute)
		wantHeld(t, err, fmt.Sprintf("by this process, pid %d, waited 1m0s", os.Getpid()))
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("it waited %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err = Acquire(ctx, path, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		wantHeld(t, err, "by this process")
		time.AfterFunc(time.Second, func() { l.Release() })
		next, err := Acquire(t.Context(), path, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Release(); err != nil {
			t.Error(err)
		}
	})
}

// A process that is killed leaves nothing locked.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	_, err = Acquire(t.Context(), path, 0)
	wantHeld(t, err, fmt.Sprint("by pid ", cmd.Process.Pid))
	cmd.Process.Kill()
	cmd.Wait()
	l, err := Acquire(t.Context(), path, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
}
