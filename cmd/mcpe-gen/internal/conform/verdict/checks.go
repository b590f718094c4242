package verdict

// A Check is what a judge says of one of its checks, for the table of docs/conform.md.
type Check struct {
	// ID is the requirement's, Title says what holds when the check passes.
	ID, Title string
	// Flags are those without which the check is skipped.
	Flags []string
	// Advice tells that what is found does not fail the run.
	Advice bool
}
