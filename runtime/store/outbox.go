package store

// Outgoing is a validated occurrence that is not yet in a log.
type Outgoing struct {
	// Log is the name of the log to append to.
	Log   string
	Entry Entry
	// If Once is true, the entry is appended as by AppendOnce, with Above as its argument. See OCC-5.
	Once  bool
	Above Position
}

// Prepared is an occurrence that an emitter's Prepare returns and a store's transactional emit accepts.
type Prepared interface {
	// Outgoing returns the occurrence to append.
	Outgoing() Outgoing
}
