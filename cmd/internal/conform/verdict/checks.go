package verdict

// A Check describes a check for the table in docs/conform.md.
type Check struct {
	// ID is the requirement's ID. Title describes what holds if the check passes.
	ID, Title string
	// Flags are the command-line flags that the check needs. Without them, the check is skipped.
	Flags []string
	// Advice reports whether the check's findings do not fail the run.
	Advice bool
}
