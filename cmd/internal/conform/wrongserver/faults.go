package wrongserver

import "slices"

// A Peer is a kind of peer that can have a fault.
type Peer int

// The kinds of peers. The tests of their judges have a client and a receiver that follow the faults.
const (
	Serving Peer = iota
	Client
	Receiver
)

// A Fault is one deliberate fault of a peer. The zero value stands for a correct peer.
type Fault struct {
	// Name describes the fault and switches it on.
	Name string
	Peer Peer
	// Checks are the titles of the checks that have to report it.
	Checks []string
	// Also has the titles of other checks that it may fail, because they need the broken behavior.
	Also []string

	// Stdio is set if the fault shows on standard input and output. Webhook, SSRF and Other are set if it shows only
	// with a receiver, with private addresses, and with another caller's token.
	Stdio, Webhook, SSRF, Other bool
	// Slow is set if only the slow checks show it.
	Slow bool
}

// Faults are the faults of all peers.
var Faults = slices.Concat(listFaults, pollFaults, streamFaults, webhookFaults, callbackFaults, slowFaults, clientFaults, receiverFaults)

// Of returns the faults of a peer.
func Of(p Peer) []Fault {
	return slices.DeleteFunc(slices.Clone(Faults), func(f Fault) bool { return f.Peer != p })
}
