package main

// The exit codes that package cli does not have.
const (
	exitDiagnostics = 3 // errors in event files; with --strict also warnings
	exitDrift       = 4 // --check found files to create, update or delete
	exitBreaking    = 5 // breaking found breaking changes
)
