// Mcpe-gen turns event files into typed Go for servers and clients of the MCP Events extension.
//
// An event file describes event types: the arguments of a subscription and the payload of an event,
// both as JSON Schema. From it mcpe-gen writes a Go package with typed structs, registration,
// emitters, client stubs and tool descriptors. `mcpe-gen init` starts a project, `mcpe-gen generate` writes the code,
// and `mcpe-gen help` describes the rest.
//
// The command contains no logic: each verb is one small file that turns flags into a call of a library (gen,
// internal/gen/config, internal/gen/schema, templates) and its result into output. Start at newRoot in root.go. Package
// cli has the parts shared with mcpe-ops and mcpe-conform: exit codes, output and help. diagnostics.go writes to
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
