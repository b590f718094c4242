// Mcpe-conform tests servers, webhook receivers and clients of the MCP Events extension, in any language, against the
// protocol's requirements. Package conform judges servers, and the packages clients and receivers next to it judge the
// others. The command turns flags into their options and prints their reports.
package main

import (
	"io"
	"os"
	"runtime/debug"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
)

func main() {
	info, _ := debug.ReadBuildInfo()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, cli.VersionOf(info)))
}

// run runs mcpe-conform without process state.
func run(args []string, stdout, stderr io.Writer, v cli.Version) int {
	c := &command{cli.Program{Stdout: stdout, Stderr: stderr, Version: v}}
	return c.Run(newRoot(c), args)
}

// A command is one run of mcpe-conform.
type command struct{ cli.Program }
