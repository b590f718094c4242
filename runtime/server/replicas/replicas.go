// Package replicas lets several processes serve the events of one store, such as package postgres.
package replicas

import (
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/durable"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/part"
)

// Options configures one of several processes that share a store. The zero value is ready to use.
type Options struct {
	// Name identifies the process in logs and for operators. The default consists of the host name and the process id.
	Name string
	// Lease is the time after which other replicas take over the work of a dead process; default 10 s. The minimum is 1
	// s. See REP-6.
	Lease time.Duration
}

// New returns the part of a server that connects it to the other processes on its store. Set server.Options.Replicas to
// it.
func New(o Options) part.Part {
	return durable.NewPart(part.Replicas, &o, func(_ *part.Core, all *durable.Options) error {
		all.Name, all.Lease = o.Name, o.Lease
		return nil
	})
}
