package verdict

// A Check describes one check of a judge, for the table of docs/conform.md.
type Check struct {
	// ID is the requirement's ID, and Title says what holds if the check passes.
	ID, Title string
	// Flags are the flags that the check needs; without them it is skipped.
	Flags []string
	// Advice marks a check whose findings do not fail the run.
	Advice bool
}
