// Package clitest contains code that the tests of the commands share: programs and servers to start, and script
// commands that testscript lacks.
package clitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/reaper"
	"github.com/mcpe-gen/mcpe-gen/internal/testkit/testflag"
)

// Main runs the tests of a package. If a script started this process as one of the programs, Main runs that program
// instead. It does not return.
func Main(m *testing.M, programs map[string]func()) { testscript.Main(scripts{m}, programs) }

// scripts runs the tests in the go test process only, not in the processes of the programs.
type scripts struct{ *testing.M }

func (s scripts) Run() int {
	testflag.Parallel(4) // servers and clients in scripts wait for one another, and so do builds
	// Modules that tests create need go.mod files that this module does not require. Read them before the proxy is
	// disabled.
	if out, err := exec.Command("go", "mod", "graph").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go mod graph: %v\n%s", err, out)
	}
	// All processes that tests and scripts start use one directory. They end with this process, even if it crashes.
	dir, err := os.MkdirTemp("", "mcpe-gen-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // a PostgreSQL that root starts runs as another user
	}
	var watch *reaper.Reaper
	if err == nil {
		watch, err = reaper.Watch(dir)
	}
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	code := 1
	if err == nil {
		code = s.M.Run()
		err = watch.Release()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// GoEnv lets scripts run the go command with the caches of this machine but without the network.
func GoEnv(e *testscript.Env) error {
	out, err := exec.Command("go", "env", "-json", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		return err
	}
	var dirs map[string]string
	if err := json.Unmarshal(out, &dirs); err != nil {
		return err
	}
	for key, dir := range dirs {
		e.Setenv(key, dir)
	}
	e.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -mod=mod")
	e.Setenv("GOPROXY", "off")
	e.Setenv("GOWORK", "off")
	return nil
}

// Exits implements the script command "exits CODE COMMAND ARGS…". It requires the command to exit with the code.
func Exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		got = e.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
