package store

// An Outgoing is a validated occurrence that is not yet in a log.
type Outgoing struct {
	// Log is the name of its log.
	Log   string
	Entry Entry
	// Once and Above say that it is appended as by AppendOnce. See OCC-5.
	Once  bool
	Above Position
}

// A Prepared is returned by an emitter's Prepare and passed to a store's transactional emit.
type Prepared interface {
	// Outgoing returns the occurrence to append.
	Outgoing() Outgoing
}
