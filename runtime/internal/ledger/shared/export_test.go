package shared

// MarkPrefix begins the keys of the marks of a log that the ledger has no place for.
func MarkPrefix(log string) string { return markPrefix + name(log) + "/" }
