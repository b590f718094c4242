package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/clitest"
	"github.com/mcpe-gen/mcpe-gen/internal/testkit/sampletest"
)

func TestMain(m *testing.M) {
	clitest.Main(m, programs)
}

// programs are what scripts run.
var programs = map[string]func(){
	"mcpe-gen": func() {
		if t, err := time.Parse(time.DateOnly, os.Getenv("MCPE_GEN_TEST_NOW")); err == nil {
			now = func() time.Time { return t }
		}
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, testVersion()))
	},
	"peer":    clitest.ServePeer,
	"onevent": onEvent,
	"letters": letters,
}

// testVersion is the version that scripts inject by MCPE_GEN_TEST_VERSION, as the build info of a
// released binary would hold it. Only the test binary knows the variable.
func testVersion() cli.Version {
	info, _ := debug.ReadBuildInfo()
	if v := os.Getenv("MCPE_GEN_TEST_VERSION"); v != "" {
		info = &debug.BuildInfo{Main: debug.Module{Path: cli.Module, Version: v}}
	}
	return cli.VersionOf(info)
}

// TestScript runs testdata/script: every verb, flag and exit code, with the command in a process of
// its own. Scripts have commands beside testscript's, and the programs peer, a server on standard
// input and output:
//
//	exits CODE mcpe-gen ARGS…
//	serve FILE [TOKEN [CERT]]
//	certificate CERT KEY
//	sink STATUS FILE
//	trial ARGS…
//	post STATUS URL BODY [HEADER…]
//	agent TOOL ARGUMENTS PATTERN ARGS…
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
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": clitest.Exits, "serve": clitest.StartPeer, "certificate": clitest.Certificate, "sink": clitest.Sink,
			"trial": startTrial, "post": post, "agent": callAgent, "agents": callTwoAgents},
		Setup: func(e *testscript.Env) error {
			e.Setenv("CHECKOUT", checkout)
			// Under -race every process would wait a second at its end.
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			return clitest.GoEnv(e)
		},
	})
}
