package source

// lintCodes lists the codes for diagnostics about comments that suppress lint rules, and about old versions in
// comparisons. Other diagnostics of the commands lint and breaking have a rule ID instead of a code.
var lintCodes = []Code{
	{ID: "MCPE550", Title: "exception without a reason", Explanation: "A comment `# mcpe:ignore RULE reason` keeps lint from reporting one rule on its line, or on the next line when " +
		"it stands alone. The reason is for later readers; without one the comment has no effect."},
	{ID: "MCPE551", Title: "exception from an unknown rule", Severity: Warning, Explanation: "A comment `# mcpe:ignore RULE reason` names a rule that lint does not have, so it has no effect. " +
		"`mcpe-gen rules lint` lists the rules; they are written in capitals."},
	{ID: "MCPE552", Title: "exception without effect", Severity: Warning, Explanation: "Lint finds nothing on the comment's line: the finding was corrected or has moved. Remove it, or put it on the " +
		"line of the finding or alone on the line above. A leftover exception would hide the next finding."},
	{ID: "MCPE560", Title: "old version cannot be read", Explanation: "`breaking` compares the event files with an older version. That version has errors of its own, shown with this " +
		"one, or does not exist: the path, or the file in that revision of git. Name a version that `mcpe-gen generate` " +
		"accepts."},
}
