// Package freeport finds ports for servers that have to know them, or each other's, before they start, and that start again on
// them.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Systems give ports of 32768 and above to who asks for any, and to every connection that somebody makes. Those from first to
// last nobody gets who does not ask for one by its number.
const (
	first = 20_000
	last  = 32_000
	// attempts bounds how many ports that are taken are met for one that is free.
	attempts = 1000
)

// Reserve returns n addresses of the loopback interface, such as 127.0.0.1:20301, on which nothing listens. Nobody else can
// until release is called.
func Reserve(n int) (addrs []string, release func(), err error) {
	var held []net.Listener
	release = func() {
		for _, ln := range held {
			ln.Close()
		}
	}
	for tries := 0; len(held) < n; tries++ {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.N(last-first)))
		if err == nil {
			held, addrs = append(held, ln), append(addrs, ln.Addr().String())
		} else if tries > n*attempts {
			release()
			return nil, nil, fmt.Errorf("no port from %d to %d is free: %w", first, last, err)
		}
	}
	return addrs, release, nil
}
