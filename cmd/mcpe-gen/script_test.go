package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mcpe-gen/mcpe-gen/internal/reaper"
	"github.com/mcpe-gen/mcpe-gen/internal/sampletest"
	"github.com/mcpe-gen/mcpe-gen/internal/testflag"
)

func TestMain(m *testing.M) {
	testscript.Main(scripts{m}, programs)
}

// programs are what scripts run.
var programs = map[string]func(){
	"mcpe-gen": func() {
		if t, err := time.Parse(time.DateOnly, os.Getenv("MCPE_GEN_TEST_NOW")); err == nil {
			now = func() time.Time { return t }
		}
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, testVersion()))
	},
	"peer":     servePeer,
	"onevent":  onEvent,
	"receiver": hookReceiver,
}

// scripts are the tests in the process of go test, not in those that are the command.
type scripts struct{ *testing.M }

func (s scripts) Run() int {
	testflag.Parallel(4) // servers and clients of scripts wait; so do builds, for one another
	// Modules that tests make look at go.mod files that ours leaves out. They are read before the proxy is off.
	if out, err := exec.Command("go", "mod", "graph").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go mod graph: %v\n%s", err, out)
	}
	// Everything that tests and scripts start works below one directory, and ends with us, however we end.
	dir, err := os.MkdirTemp("", "mcpe-gen-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // a PostgreSQL that root starts is another user's
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

// testVersion is the version that scripts inject by MCPE_GEN_TEST_VERSION, as the build info of a
// released binary would hold it. Only the test binary knows the variable.
func testVersion() version {
	info, _ := debug.ReadBuildInfo()
	if v := os.Getenv("MCPE_GEN_TEST_VERSION"); v != "" {
		info = &debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: v}}
	}
	return versionOf(info)
}

// TestScript runs testdata/script: every verb, flag and exit code, with the command in a process of
// its own. Scripts have commands beside testscript's, and the programs peer, a server on standard
// input and output, and receiver, of webhooks:
//
//	exits CODE mcpe-gen ARGS…
//	serve FILE [TOKEN [CERT]]
//	certificate CERT KEY
//	sink STATUS FILE
//	trial ARGS…
//	post STATUS URL BODY [HEADER…]
//	agent TOOL ARGUMENTS PATTERN ARGS…
//	freeaddress VARIABLE
//
// The condition whole holds if everything is tried, as by `make night`.
func TestScript(t *testing.T) {
	t.Parallel()
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition: func(c string) (bool, error) {
			if c != "whole" {
				return false, fmt.Errorf("unknown condition %q", c)
			}
			return sampletest.Whole(), nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "serve": startPeer, "certificate": certificate, "sink": sink,
			"trial": startTrial, "post": post, "agent": callAgent, "freeaddress": freeAddress},
		Setup: func(e *testscript.Env) error {
			e.Setenv("CHECKOUT", checkout)
			// Under -race every process would wait a second at its end.
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			return goEnv(e)
		},
	})
}

// goEnv lets scripts run the go command with the caches of this machine and without the network.
func goEnv(e *testscript.Env) error {
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

func exits(ts *testscript.TestScript, neg bool, args []string) {
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
