//go:build unix

package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const (
	fullEnv   = "MCPE_JOURNAL_FULL"
	nobodyEnv = "MCPE_JOURNAL_NOBODY"
	// nobody is the user and the group of a child that modes bind.
	nobody = 65534
)

// limit is how large a file of this process may become, in place of a full disk.
func limit(t *testing.T, bytes uint64) {
	t.Helper()
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
		t.Fatal(err)
	}
	if l.Cur = l.Max; bytes > 0 {
		l.Cur = bytes
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
		t.Fatal(err)
	}
}

// CLI-6: on a full disk a change is an error and has not happened, and a damaged file stays; with room again all goes on.
func TestFullDisk(t *testing.T) {
	if os.Getenv(fullEnv) != "" {
		fullDisk(t)
		return
	}
	child(t, fullEnv)
}

// child runs the test in a child process, with an environment variable that tells it so.
func child(t *testing.T, env string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), env+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
}

func fullDisk(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	dir := t.TempDir()
	path := filepath.Join(dir, "j")
	j := open(t, path)
	all := map[string]string{}
	fails := func(key string) {
		t.Helper()
		if err := j.Put(entry(key, "1")); !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), "file too large") {
			t.Errorf("%s: %v", key, err)
		}
		want(t, j, all)
	}
	limit(t, 1000)
	for i := range 100 {
		key := fmt.Sprint("k", i)
		if len(read1(path))+64 > 1000 {
			fails(key) // it appends
			fails(key) // it writes the file anew
			break
		}
		put(t, j, key, "1")
		all[key] = "1"
	}
	if len(all) < 5 {
		t.Fatalf("%q", all)
	}
	limit(t, 0)
	put(t, j, "more", "1")
	all["more"] = "1"
	j.Close()

	damaged := read(t, path) + strings.Repeat("x", 100) + "\n"
	write(t, path, damaged)
	for _, room := range []uint64{50, 500} { // for the line that is set aside, or only for it
		limit(t, room)
		_, err := Open(t.Context(), path, format)
		limit(t, 0)
		if !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), "damaged") || read(t, path) != damaged {
			t.Errorf("room for %d bytes: %v", room, err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*damaged*")); left != nil {
			t.Errorf("room for %d bytes: %v is left", room, left)
		}
	}
	j = open(t, path)
	want(t, j, all)
	if got := read(t, path+".damaged"); got != strings.Repeat("x", 100)+"\n" {
		t.Errorf("set aside: %q", got)
	}
}

// read1 returns what the file has, which need not exist.
func read1(path string) []byte {
	text, _ := os.ReadFile(path)
	return text
}

// A file that this process must not read or write is an error that says what it needs, and stays.
func TestNotPermitted(t *testing.T) {
	if os.Geteuid() == 0 { // modes do not bind root: a child tries it as nobody
		if os.Getenv(nobodyEnv) == "" {
			child(t, nobodyEnv)
			return
		}
		if err := errors.Join(syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
			t.Fatal(err)
		}
	}
	whole, _ := typical(t)
	path := filepath.Join(t.TempDir(), "j")
	write(t, path, whole)
	for _, mode := range []os.FileMode{0, 0o400} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), path, format)
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "let this process read and write it") {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
	// Where nothing can be set aside, a damaged file stays.
	damaged := whole + "damage\n"
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, path, damaged)
	write(t, path+".lock", "")
	if err := os.Chmod(filepath.Dir(path), 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Dir(path), 0o700)
	_, err := Open(t.Context(), path, format)
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "the damaged lines 8 ") || read(t, path) != damaged {
		t.Error(err)
	}
}
