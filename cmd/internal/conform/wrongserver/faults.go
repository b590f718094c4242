package wrongserver

import "slices"

// A Peer is a kind of program that can have a fault.
type Peer int

// The kinds of peers. The tests of their checks include a client and a receiver that implement the faults.
const (
	Serving Peer = iota
	Client
	Receiver
)

// A Fault is one deliberate fault of a peer. The zero value represents a correct peer.
type Fault struct {
	// Name identifies the fault and enables it.
	Name string
	Peer Peer
	// Checks contains the names of the checks that must report it.
	Checks []string
	// Also contains the names of other checks that may fail because they depend on the broken behavior.
	Also []string

	// Stdio reports whether the fault is visible on standard input and output. Webhook, SSRF and Other report whether
	// the fault is visible only with a receiver, with private addresses, and with another caller's token.
	Stdio, Webhook, SSRF, Other bool
	// Slow reports whether only the slow checks detect the fault.
	Slow bool
}

// Faults contains the faults of all kinds of peers.
var Faults = slices.Concat(listFaults, pollFaults, streamFaults, webhookFaults, callbackFaults, slowFaults, clientFaults, receiverFaults)

// Of returns the faults of a kind of peer.
func Of(p Peer) []Fault {
	return slices.DeleteFunc(slices.Clone(Faults), func(f Fault) bool { return f.Peer != p })
}
