package verdict

// A Check describes a check.
type Check struct {
	// Name identifies the check in reports and options. It is unique among the checks of a role, and stays the same
	// when Title is reworded.
	Name string
	// ID is the requirement's ID in docs/requirements.md.
	ID string
	// Title describes what the tested program does if the check passes.
	Title string
	// Flags are the command-line flags that the check needs. Without them, the check is skipped.
	Flags []string
	// Advice reports whether the check's findings do not fail the run.
	Advice bool
}
