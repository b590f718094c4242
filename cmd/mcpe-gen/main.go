// Mcpe-gen turns event files into typed Go for servers and clients of the MCP Events extension.
//
// An event file describes event types: the arguments of a subscription and the payload of an event,
// both as JSON Schema. From it mcpe-gen writes a Go package with typed structs, registration,
// emitters, client stubs and tool descriptors. `mcpe-gen init` starts a project, `mcpe-gen generate`
// writes the code, and `mcpe-gen help` tells the rest.
//
// The command holds no logic of its own: each verb is one small file that turns flags into a call
// of a library (gen, gen/config, gen/schema, templates) and its result into output. Start at
// newRoot in root.go. What every verb shares is in exit.go (exit codes), output.go (standard
// output) and diagnostics.go (standard error).
package main

import (
	"os"
	"runtime/debug"
)

func main() {
	info, _ := debug.ReadBuildInfo()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, versionOf(info)))
}
