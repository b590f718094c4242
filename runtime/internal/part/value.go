package part

import (
	"context"
	"sync/atomic"
)

// A Kind is the name of the server's option for a part.
type Kind string

// The kinds of parts.
const (
	Webhooks  Kind = "Webhooks"
	Replicas  Kind = "Replicas"
	Operators Kind = "Operators"
)

// A Part is an optional part of a server. Package durable implements it.
type Part interface{ Value() *Value }

// A Value is what a server needs to know of a part.
type Value struct {
	Kind Kind
	// Options points to the author's options of the part.
	Options any
	// Start starts all parts of a server, including this part.
	Start func(ctx context.Context, core *Core, all []Part) (Service, error)

	taken atomic.Bool
}

// Take reserves the part for a server. It returns false if another server has it.
func (v *Value) Take() bool { return v.taken.CompareAndSwap(false, true) }

// Release ends a reservation.
func (v *Value) Release() { v.taken.Store(false) }
