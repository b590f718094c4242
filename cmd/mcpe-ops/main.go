// Mcpe-ops is a tool for operators of servers and consumers of the MCP Events extension. It diagnoses their databases.
// It also lists, retries and drops events that a consumer failed to handle. It contains the database drivers, which
// mcpe-gen does not need.
package main

import (
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
)

func main() {
	info, _ := debug.ReadBuildInfo()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, cli.VersionOf(info)))
}

// run executes mcpe-ops without using process state.
func run(args []string, stdout, stderr io.Writer, v cli.Version) int {
	c := &command{cli.Program{Stdout: stdout, Stderr: stderr, Version: v}}
	return c.Run(newRoot(c), args)
}

// A command is one execution of mcpe-ops.
type command struct{ cli.Program }

const rootHelp = `Mcpe-ops is for the operators of servers and consumers of the MCP Events extension.

It works on databases and files. "mcpe-gen admin" uses the API of a running server.

Exit codes:
  0  done
  1  a failure, such as a database that could not be reached
  2  a mistake in the command line
  7  doctor found something wrong`

// newRoot returns the command tree.
func newRoot(c *command) *cobra.Command {
	root := &cobra.Command{
		Use:   "mcpe-ops",
		Short: "Diagnose stores of events, and work with dead letters",
		Long:  rootHelp,
		Example: `  mcpe-ops doctor postgres://events@db.example.com/events
  mcpe-ops doctor nats://nats.example.com
  mcpe-ops deadletters list consumer.db`,
	}
	c.Root(root, "text", "json")
	cli.Group(root)
	root.AddCommand(newDoctor(c), newDeadLetters(c))
	return root
}
