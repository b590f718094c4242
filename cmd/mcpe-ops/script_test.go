package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, programs) }

// programs are what scripts run.
var programs = map[string]func(){
	"mcpe-ops": func() {
		info, _ := debug.ReadBuildInfo()
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, cli.VersionOf(info)))
	},
	"mcpe-jetstream": func() {
		fmt.Println(strings.Join(os.Args[1:], " "), "at", os.Getenv("NATS_URL"))
		os.Exit(exitDoctor)
	},
}

// TestScript runs testdata/script. The program mcpe-jetstream prints its arguments and finds something wrong.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": clitest.Exits},
		Setup:               clitest.GoEnv,
	})
}

// TestDoctorWithoutJetStream expects the command that installs mcpe-jetstream, in the version of mcpe-ops.
func TestDoctorWithoutJetStream(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for version, want := range map[string]string{
		"v0.3.0":  "install it with: go install github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream/cmd/mcpe-jetstream@v0.3.0\n",
		"(devel)": "install it with: go install ./cmd/mcpe-jetstream in runtime/store/jetstream of a checkout of mcpe-gen\n",
	} {
		var stderr strings.Builder
		v := cli.VersionOf(&debug.BuildInfo{Main: debug.Module{Path: cli.Module, Version: version}})
		if code := run([]string{"doctor", "nats://user:hunter2@127.0.0.1:1"}, &stderr, &stderr, v); code != cli.Failure {
			t.Errorf("%s: exit code %d", version, code)
		}
		if got := stderr.String(); !strings.HasSuffix(got, want) || strings.Contains(got, "hunter2") {
			t.Errorf("%s: %q", version, got)
		}
	}
}
