//go:build linux

package pgtest

import (
	"bufio"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/procgroup"
)

// starter is set if the test binary must act as a program that starts a cluster and then does nothing.
const starter = "MCPE_GEN_TEST_STARTER"

func init() {
	if os.Getenv(starter) == "" || os.Getenv("MCPE_GEN_REAPER") != "" {
		return
	}
	c, err := Start(Fast)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(os.Getpid(), c.URL())
	time.Sleep(5 * time.Minute)
	os.Exit(2)
}

// K14: within 5 s of the death of the process that started it, nothing remains of a PostgreSQL cluster: no process,
// no directory. The dying process may be the test binary or a make above it, by any signal, also one to its group, as
// with Ctrl-C.
func TestKilled(t *testing.T) {
	Local(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	make, _ := exec.LookPath("make")
	for _, c := range []struct {
		name   string
		make   bool
		group  bool // the signal goes to the whole group
		early  bool // while the cluster is being created
		signal syscall.Signal
	}{
		{name: "SIGKILL", signal: syscall.SIGKILL},
		{name: "SIGTERM", signal: syscall.SIGTERM},
		{name: "Ctrl-C", signal: syscall.SIGINT, group: true},
		{name: "SIGHUP of the group", signal: syscall.SIGHUP, group: true},
		{name: "SIGKILL of the group", signal: syscall.SIGKILL, group: true},
		{name: "SIGKILL while it is made", signal: syscall.SIGKILL, early: true},
		{name: "SIGKILL of make", signal: syscall.SIGKILL, make: true},
		{name: "SIGTERM of make", signal: syscall.SIGTERM, make: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.make && make == "" {
				t.Skip("no make")
			}
			if c.signal == syscall.SIGHUP && signal.Ignored(c.signal) {
				t.Skip("SIGHUP is ignored here, as below nohup: it ends nobody")
			}
			scratch, err := os.MkdirTemp("", "mcpe-killed-") // not t.TempDir, because another user needs access
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(scratch)
			if err := os.Chmod(scratch, 0o777); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(program)
			if c.make {
				cmd = exec.Command(make, "--no-print-directory", "-f", "-") // make test is a make above it
				cmd.Stdin = strings.NewReader("all:\n\t@" + program + "; true\n")
			}
			cmd.Env = append(os.Environ(), starter+"=1", "TMPDIR="+scratch, "GORACE=atexit_sleep_ms=0")
			procgroup.Lead(cmd)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stderr = os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			clusters := func() []string {
				found, _ := filepath.Glob(filepath.Join(scratch, "mcpe-pg-*"))
				return found
			}
			address, child := "", 0
			if c.early {
				for begun := []string(nil); len(begun) == 0; { // until initdb is running
					time.Sleep(time.Millisecond)
					begun, _ = filepath.Glob(filepath.Join(scratch, "mcpe-pg-*", "data", "*"))
				}
			} else {
				line, err := bufio.NewReader(out).ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				id, text, _ := strings.Cut(strings.TrimSpace(line), " ")
				u, err := url.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				address = u.Host
				if child, err = strconv.Atoi(id); err != nil {
					t.Fatal(err)
				}
			}
			target := cmd.Process.Pid
			if c.group {
				target = -target
			}
			if err := syscall.Kill(target, c.signal); err != nil {
				t.Fatal(err)
			}
			killed := time.Now()
			if c.make { // make's children may live, but their database is gone
				defer procgroup.Kill(cmd.Process)
			}
			left := func() string {
				if found := clusters(); len(found) > 0 {
					return found[0]
				}
				if address != "" {
					if conn, err := net.DialTimeout("tcp", address, time.Second); err == nil {
						conn.Close()
						return address
					}
				}
				return naming(scratch, child)
			}
			for left() != "" && time.Since(killed) < 30*time.Second {
				time.Sleep(20 * time.Millisecond)
			}
			if what := left(); what != "" {
				t.Errorf("%s is left after %v", what, time.Since(killed))
			}
			t.Log("gone after", time.Since(killed))
			go cmd.Wait()
		})
	}
}

// naming returns the command line of a process that names dir, but for one.
func naming(dir string, but int) string {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		b, _ := os.ReadFile(path)
		if text := string(b); strings.Contains(text, dir) && filepath.Base(filepath.Dir(path)) != strconv.Itoa(but) {
			return text
		}
	}
	return ""
}
