package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.yaml.in/yaml/v4"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/clitest"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
)

func TestMain(m *testing.M) { clitest.Main(m, programs) }

// programs are what scripts run.
var programs = map[string]func(){
	"mcpe-conform": func() {
		info, _ := debug.ReadBuildInfo()
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, cli.VersionOf(info)))
	},
	"peer":     clitest.ServePeer,
	"lister":   list,
	"receiver": hookReceiver,
}

// list is the program lister URL of scripts: a client that asks for the event types and ends.
func list() {
	if err := listAt(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func listAt(ctx context.Context, url string) error {
	c, err := client.Connect(ctx, client.HTTP(url, nil), client.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.List(ctx)
	return err
}

// TestScript runs testdata/script, with the programs peer, a server on standard input and output, lister, a client that
// follows nothing, and receiver, of webhooks.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": clitest.Exits, "serve": clitest.StartPeer,
			"certificate": clitest.Certificate, "sink": clitest.Sink, "freeaddress": freeAddress, "action": runAction},
		Setup: clitest.GoEnv,
	})
}

// runAction runs the step of the conform action: action ADDRESS START ARGUMENTS. START may be "".
func runAction(ts *testscript.TestScript, neg bool, args []string) {
	text, err := os.ReadFile(actionFile)
	ts.Check(err)
	var action struct {
		Runs struct {
			Steps []struct {
				Run string
				Env map[string]string
			}
		}
	}
	ts.Check(yaml.Unmarshal(text, &action))
	if len(action.Runs.Steps) != 1 || strings.Contains(action.Runs.Steps[0].Run, "${{") {
		ts.Fatalf("the action is not one step, or an input is part of its script")
	}
	_, port, _ := strings.Cut(args[0], ":")
	values := map[string]string{"MCPE_CONFORM": "mcpe-conform", "DIRECTORY": ".", "PORT": port, "START": args[1], "ARGUMENTS": args[2]}
	for name := range action.Runs.Steps[0].Env {
		if _, ok := values[name]; !ok {
			ts.Fatalf("this test does not know the variable %s", name)
		}
		ts.Setenv(name, values[name])
	}
	ts.Setenv("GITHUB_STEP_SUMMARY", ts.MkAbs("summary.md"))
	if err := ts.Exec("bash", "-e", "-c", action.Runs.Steps[0].Run); (err != nil) != neg {
		ts.Fatalf("the action: %v", err)
	}
}

// actionFile is absolute because scripts change the working directory.
var actionFile, _ = filepath.Abs("../../.github/actions/conform/action.yml")
