package server

import "time"

// A Replica configures one of several processes that share a store, such as PostgreSQL. The zero value is ready to use.
type Replica struct {
	// Name identifies the process in logs. The default consists of the host name and the process id.
	Name string
	// Lease is the time after which other replicas take over the work of a dead process; default 10 s. The minimum is 1
	// s. See REP-6.
	Lease time.Duration
}
