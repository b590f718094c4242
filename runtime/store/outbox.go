package store

// An Outgoing is a validated occurrence that is not in a log yet.
type Outgoing struct {
	// Log is the name of the log that it is for.
	Log   string
	Entry Entry
	// Once and Above tell that it is appended as by AppendOnce. See OCC-5.
	Once  bool
	Above Position
}

// A Prepared is what an emitter's Prepare returns and a store's transactional emit takes.
type Prepared interface {
	// Outgoing returns what is to be appended.
	Outgoing() Outgoing
}
