package store

// Outgoing is a validated occurrence that is not yet in a log.
type Outgoing struct {
	// Log is the name of the log to append to.
	Log   string
	Entry Entry
	// If Once is true, the entry is appended as if by AppendOnce with the argument Above. See OCC-5.
	Once  bool
	Above Position
}

// Prepared is an occurrence that was returned by an emitter's Prepare and can be emitted in a transaction.
type Prepared interface {
	// Outgoing returns the occurrence to append.
	Outgoing() Outgoing
}
