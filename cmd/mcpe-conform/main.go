// Mcpe-conform tests servers, webhook receivers and clients of the MCP Events extension against the requirements of the
// protocol. They can be written in any language. Package conform tests servers. The packages clients and receivers next
// to it test clients and webhook receivers. The command translates flags into their options and prints their reports.
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

// run executes mcpe-conform without using process state.
func run(args []string, stdout, stderr io.Writer, v cli.Version) int {
	c := &command{cli.Program{Stdout: stdout, Stderr: stderr, Version: v}}
	return c.Run(newRoot(c), args)
}

// A command is one execution of mcpe-conform.
type command struct{ cli.Program }
