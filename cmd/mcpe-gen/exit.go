package main

// These exit codes are in addition to those of package cli.
const (
	exitDiagnostics = 3 // errors in event files; with --strict also warnings
	exitUnknown     = 3 // init found a server that it does not know
	exitDrift       = 4 // --check found files to create, update or delete
	exitBreaking    = 5 // breaking found breaking changes
)
