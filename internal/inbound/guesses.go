package inbound

import (
	"crypto/sha256"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxGuesses is the maximum number of wrong credentials per address within guessWindow.
	maxGuesses  = 10
	guessWindow = time.Minute
	// maxGuessers is the maximum number of addresses to track.
	maxGuessers = 4096
	// maxRight is the maximum number of correct credentials to cache.
	maxRight = 1024
)

// Guesses counts wrong credentials by remote address. It never delays a credential that was correct before, so guesses
// from a shared address, such as a proxy's, do not lock out its owner. The zero value is ready to use.
type Guesses struct {
	// Client returns the address of the client as reported by a proxy, or "" for the remote address. If Client is nil,
	// the remote address is used.
	Client func(r *http.Request) string
	// Report is called once for each minute with failures. Its arguments are the number of failures, the number of
	// addresses, and the address with the most failures.
	Report func(failures, addresses int, most string)

	mu       sync.Mutex
	guessers map[string]*guesser
	right    map[[sha256.Size]byte]struct{} // hashes of right credentials
	failures int                            // since the last report
}

type guesser struct {
	until time.Time // the end of its window
	n     int
}

// Wait returns how long the sender of r must wait before its next credential is checked, or 0.
func (g *Guesses) Wait(r *http.Request) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, right := g.right[credential(r)]; right {
		return 0
	}
	if f := g.guessers[g.address(r)]; f != nil && f.n >= maxGuesses {
		return max(time.Until(f.until), 0)
	}
	return 0
}

// credential returns a hash of the credential in r.
func credential(r *http.Request) [sha256.Size]byte {
	return sha256.Sum256([]byte(r.Header.Get("Authorization")))
}

// Succeeded remembers a right credential.
func (g *Guesses) Succeeded(r *http.Request) {
	c := credential(r)
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.right[c]; known {
		return
	}
	if g.right == nil {
		g.right = map[[sha256.Size]byte]struct{}{}
	}
	if len(g.right) >= maxRight {
		for other := range g.right { // any
			delete(g.right, other)
			break
		}
	}
	g.right[c] = struct{}{}
}

// Failed counts a wrong credential and removes it from the set of correct credentials.
func (g *Guesses) Failed(r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, from := time.Now(), g.address(r)
	delete(g.right, credential(r))
	if g.guessers == nil {
		g.guessers = map[string]*guesser{}
	}
	if g.failures++; g.failures == 1 {
		time.AfterFunc(guessWindow, g.report)
	}
	f := g.guessers[from]
	if f == nil && len(g.guessers) >= maxGuessers {
		for other := range g.guessers { // evict an entry to count the new address
			delete(g.guessers, other)
			break
		}
	}
	if f == nil || !now.Before(f.until) {
		f = &guesser{until: now.Add(guessWindow)}
		g.guessers[from] = f
	}
	f.n++
}

// report calls Report for the last minute and removes addresses with an expired window.
func (g *Guesses) report() {
	g.mu.Lock()
	failures, addresses, most, top := g.failures, len(g.guessers), "", 0
	g.failures = 0
	now := time.Now()
	for from, f := range g.guessers {
		if f.n > top {
			most, top = from, f.n
		}
		if !now.Before(f.until) {
			delete(g.guessers, from)
		}
	}
	g.mu.Unlock()
	if g.Report != nil {
		g.Report(failures, addresses, most)
	}
}

func (g *Guesses) address(r *http.Request) string {
	if g.Client != nil {
		if named := g.Client(r); named != "" {
			return network(named, 64)
		}
	}
	return Address(r)
}

// Address returns the remote address of a request, ignoring proxies. For IPv6, it returns the /64 network, because a
// single host usually owns the whole network.
func Address(r *http.Request) string { return network(remote(r), 64) }

// Site is like Address, but returns the /48 network for IPv6, which is the most that a provider assigns to one customer
// (RFC 6177).
func Site(r *http.Request) string { return network(remote(r), 48) }

func remote(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func network(host string, bits int) string {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap().WithZone(""); ip.Is6() && !ip.IsLoopback() {
		if p, err := ip.Prefix(bits); err == nil {
			return p.String()
		}
	}
	return ip.String()
}
