package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

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
			"certificate": clitest.Certificate, "sink": clitest.Sink, "freeaddress": freeAddress},
		Setup: clitest.GoEnv,
	})
}
