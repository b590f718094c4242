//go:build linux

package reaper

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// starter is set, to a directory, where the test binary is to be a program that leaves something behind.
const starter = "MCPE_GEN_TEST_STARTER"

func TestMain(m *testing.M) {
	dir := os.Getenv(starter)
	if dir == "" {
		os.Exit(m.Run())
	}
	if _, err := Watch(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// One that works there, one that is deaf to a request to end and starts others, and one that names it.
	for _, script := range []string{"exec sleep 300", "trap '' QUIT; while :; do sleep 1; done", "cd /; exec tail -f " + dir + "/file"} {
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fmt.Println("started")
	time.Sleep(5 * time.Minute)
}

// K14: what a killed program leaves behind ends within 5 s, its directory too; others go on.
func TestWatch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "left")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	other := exec.CommandContext(t.Context(), "sleep", "300")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Process.Kill()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), starter+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "started") {
		t.Fatal(line, err)
	}
	if n := len(processesIn(dir)); n < 3 {
		t.Fatalf("%d processes work there", n)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	cmd.Wait()
	gone := func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err) && len(processesIn(dir)) == 0
	}
	for !gone() && time.Since(killed) < 5*time.Second {
		time.Sleep(10 * time.Millisecond)
	}
	if !gone() {
		t.Errorf("after %v %v are left", time.Since(killed), processesIn(dir))
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("another program was ended: %v", err)
	}
}

// A release ends the watch, with the directory that it was for.
func TestRelease(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := Watch(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is there: %v", err)
	}
	if err := (*Reaper)(nil).Release(); err != nil {
		t.Error(err)
	}
}
