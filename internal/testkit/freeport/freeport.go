// Package freeport finds free ports for servers. It is for servers that must know their own ports or each other's
// before they start, and that restart on the same ports.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Operating systems assign ports from 32768 to outgoing connections and to listeners on port 0. A port from first to
// last is used only if a program requests it explicitly.
const (
	first = 20_000
	last  = 32_000
	// attempts is the maximum number of occupied ports to try for each free port.
	attempts = 1000
)

// Reserve returns n unused addresses on the loopback interface, such as 127.0.0.1:20301. Other calls to Reserve do not
// return them until release is called.
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
