package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

const lockEnv = "MCPE_SQLITE_LOCK_CHILD"

// TestChildHolds is the child of the tests below. Its orders: "hold" keeps the file open until its
// standard input ends; "loop" opens it, appends and closes it, several times.
func TestChildHolds(t *testing.T) {
	order, path, ok := strings.Cut(os.Getenv(lockEnv), " ")
	if !ok {
		return // only meant to run as a child
	}
	for i := range map[string]int{"hold": 1, "loop": 5}[order] {
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{Wait: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		appendAll(t, openLog(t, s, store.LogOptions{}), fmt.Sprint(os.Getpid(), ".", i))
		if order == "hold" {
			fmt.Println("held")
			os.Stdin.Read(make([]byte, 1))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func child(t *testing.T, order, path string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^TestChildHolds$")
	cmd.Env = append(os.Environ(), lockEnv+"="+order+" "+path)
	cmd.Stderr = os.Stderr
	return cmd
}

// hold starts a child that holds the file until release; kill kills it.
func hold(t *testing.T, path string) (pid int, release, kill func()) {
	t.Helper()
	cmd := child(t, "hold", path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 5)
	if _, err := out.Read(first); err != nil || string(first) != "held\n" {
		t.Fatalf("the child says %q, %v", first, err)
	}
	var once sync.Once
	end := func(f func()) func() { return func() { once.Do(func() { f(); cmd.Wait() }) } }
	kill = end(func() { cmd.Process.Kill() })
	t.Cleanup(kill)
	return cmd.Process.Pid, end(func() { in.Close() }), kill
}

// A file that another process has open is refused, with the name of the file and of its holder,
// after the time to wait; those who only read go on, and so does a backup. A holder that was killed
// leaves nothing behind.
func TestHeldByAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	pid, _, kill := hold(t, path)
	for _, wait := range []time.Duration{-1, 100 * time.Millisecond} {
		_, err := sqlite.Open(t.Context(), path, sqlite.Options{Wait: wait})
		if !errors.Is(err, sqlite.ErrBusy) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "pid "+strconv.Itoa(pid)) {
			t.Fatalf("waiting %v: %v", wait, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := sqlite.Open(ctx, path, sqlite.Options{}); !errors.Is(err, sqlite.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a context that ends: %v", err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var n int
	if err := db.QueryRow("SELECT count(*) FROM entries").Scan(&n); err != nil || n != 1 {
		t.Errorf("a reader sees %d entries, %v", n, err)
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	if _, err := db.Exec("VACUUM INTO ?", copied); err != nil {
		t.Errorf("backup: %v", err)
	}
	if got := ids(t, openLog(t, open(t, copied, sqlite.Options{}), store.LogOptions{}), 0); len(got) != 1 {
		t.Errorf("the copy holds %v", got)
	}
	kill()
	if got := ids(t, openLog(t, open(t, path, sqlite.Options{Wait: -1}), store.LogOptions{}), 0); len(got) != 1 {
		t.Errorf("after the kill: %v", got)
	}
}

// A process that starts before the other one has ended waits for it, as in a rolling restart.
func TestWaitsForTheOtherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	_, release, _ := hold(t, path)
	go func() {
		time.Sleep(300 * time.Millisecond) // most of the time Open has come by then; if not, it need not wait
		release()
	}()
	appendAll(t, openLog(t, open(t, path, sqlite.Options{}), store.LogOptions{}), "next")
}

// Processes that compete for a file get it one after the other.
func TestProcessesTakeTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if out, err := child(t, "loop", path).Output(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	wg.Wait()
	got := ids(t, openLog(t, open(t, path, sqlite.Options{}), store.LogOptions{}), 0)
	seen := map[string]bool{}
	for _, id := range got {
		seen[id] = true
	}
	if len(got) != 20 || len(seen) != 20 {
		t.Errorf("%d entries: %v", len(got), got)
	}
}

// A file counts as the same under all its names.
func TestHeldUnderAnyName(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, err := range []error{os.MkdirAll("data/deep", 0o700), os.Symlink("data/deep", "link"), os.Symlink("data/events.db", "to"),
		os.Symlink("to", "to-to"), os.Symlink(filepath.Join(dir, "data"), "abs"), os.Symlink("loop", "loop")} {
		if err != nil {
			t.Skip(err) // a system without links
		}
	}
	real := filepath.Join(dir, "data", "events.db")
	names := []string{"data/events.db", "./data/../data/events.db", "to", "to-to", "abs/events.db", "link/../events.db", real, "./data//events.db"}
	for _, first := range names {
		s, err := sqlite.Open(t.Context(), first, sqlite.Options{Wait: -1})
		if err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		for _, second := range names {
			_, err := sqlite.Open(t.Context(), second, sqlite.Options{Wait: -1})
			if !errors.Is(err, sqlite.ErrBusy) || !strings.Contains(err.Error(), "by this process") || !strings.Contains(err.Error(), real) {
				t.Errorf("%s beside %s: %v", second, first, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if left, _ := filepath.Glob("*.db*"); left != nil {
			t.Fatalf("%s made %v", first, left)
		}
		for _, name := range []string{real, real + "-wal", real + "-shm"} {
			os.Remove(name) // so that the next process creates it, even through a dangling link
		}
	}
	for name, want := range map[string]string{"": "not a file", ":memory:": "not a file", "file:x.db?mode=memory": "not a URI", "a\x00b": "NUL",
		"data": "regular", "loop": "", "none/x.db": "", "data/": "regular"} {
		if _, err := sqlite.Open(t.Context(), name, sqlite.Options{Wait: -1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
	s, err := sqlite.Open(t.Context(), "./file:%41?x#y.db", sqlite.Options{Wait: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := os.Stat(filepath.Join(dir, "file:%41?x#y.db")); err != nil {
		t.Error(err)
	}
}

// A second name of the file, a hard link, would have a separate journal.
func TestHardLink(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "events.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path, filepath.Join(dir, "second.db")); err != nil || runtime.GOOS == "windows" {
		t.Skip(err)
	}
	for _, name := range []string{path, filepath.Join(dir, "second.db")} {
		if _, err := sqlite.Open(t.Context(), name, sqlite.Options{}); err == nil || !strings.Contains(err.Error(), "has 2 hard links") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "second.db")); err != nil {
		t.Fatal(err)
	}
	open(t, path, sqlite.Options{})
}

// Within one process, the second Open waits as well; a store that failed to open holds nothing.
func TestWaitsInOneProcess(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(dir, "events.db")
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if _, err := sqlite.Open(t.Context(), path, sqlite.Options{}); !errors.Is(err, sqlite.ErrBusy) || time.Since(begun) != 10*time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		go func() {
			time.Sleep(9 * time.Second)
			s.Close()
		}()
		if _, err := sqlite.Open(t.Context(), path, sqlite.Options{Key: []byte("bad")}); !errors.Is(err, sqlite.ErrKey) {
			t.Error(err)
		}
		for range 2 {
			s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		garbage := filepath.Join(dir, "garbage.db")
		if err := os.WriteFile(garbage, []byte(strings.Repeat("no database", 100)), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := sqlite.Open(t.Context(), garbage, sqlite.Options{Wait: -1}); !errors.Is(err, sqlite.ErrCorrupt) {
				t.Error(err)
			}
		}
	})
}

// Only the owner can access the files; if an existing one has other modes, that is logged.
func TestModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes say nothing there")
	}
	path := filepath.Join(t.TempDir(), "events.db")
	var logged bytes.Buffer
	o := sqlite.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))}
	s, err := sqlite.Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	appendAll(t, openLog(t, s, store.LogOptions{}), "a")
	all := []string{path, path + "-wal", path + "-shm", path + ".lock"}
	for _, name := range all {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if logged.Len() > 0 {
		t.Errorf("logged: %s", logged.String())
	}
	for i, name := range []string{path, path + ".lock"} {
		if err := os.Chmod(name, []os.FileMode{0o640, 0o604}[i]); err != nil {
			t.Fatal(err)
		}
	}
	if s, err = sqlite.Open(t.Context(), path, o); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, want := range []string{"path=" + path + " mode=0640", "path=" + path + ".lock mode=0604"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("%q is not in the log: %s", want, logged.String())
		}
	}
}
