// Mcpe-gen generates typed Go code for servers and clients of the MCP Events extension from event files.
//
// An event file describes event types. It defines the arguments of a subscription and the payload of an event as JSON
// Schemas. mcpe-gen turns it into a Go package with typed structs, registration, emitters, client stubs and tool
// descriptors. `mcpe-gen init` starts a project, `mcpe-gen generate` writes the code, and `mcpe-gen help` describes the
// other verbs.
//
// The command contains no logic. Each verb is a small file that translates flags into a call to a library (gen,
// internal/gen/config, internal/gen/schema, templates) and prints the result. Start at newRoot in root.go. Package cli
// contains the code shared with mcpe-ops and mcpe-conform: exit codes, output and help. diagnostics.go writes to
// standard error.
package main

import (
	"os"
	"runtime/debug"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
)

func main() {
	info, _ := debug.ReadBuildInfo()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, cli.VersionOf(info)))
}
