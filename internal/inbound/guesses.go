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
	// guessesEach is the number of wrong credentials that an address may send within guessWindow.
	guessesEach = 10
	guessWindow = time.Minute
	// maxGuessers limits the number of addresses to remember.
	maxGuessers = 4096
	// maxRight bounds how many right credentials are remembered.
	maxRight = 1024
)

// Guesses counts wrong credentials by remote address. It always checks a credential that was right before, so that guesses
// from the same address, such as a proxy's, do not lock its owner out. The zero value is ready to use.
type Guesses struct {
	// Client returns the address of the client that a proxy in front of the server names; "" means the remote address.
	// Nil means the remote address of every request.
	Client func(r *http.Request) string
	// Report is called once for each minute with failures. It gets the number of failures and addresses, and the
	// address with the most failures.
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

// Wait returns how long the sender of r must wait before its next credential is checked, 0 for no wait.
func (g *Guesses) Wait(r *http.Request) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, right := g.right[credential(r)]; right {
		return 0
	}
	if f := g.guessers[g.address(r)]; f != nil && f.n >= guessesEach {
		return max(time.Until(f.until), 0)
	}
	return 0
}

// credential is a hash of the credential of r.
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

// Failed counts a wrong credential, and forgets that it was right.
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

// report reports the last minute, and removes addresses whose window is over.
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
			return network(named)
		}
	}
	return Address(r)
}

// Address returns the remote address of a request as this server sees it. For IPv6 it returns the /64 network,
// because one host usually owns all of it.
func Address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return network(host)
}

func network(host string) string {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap().WithZone(""); ip.Is6() && !ip.IsLoopback() {
		if p, err := ip.Prefix(64); err == nil {
			return p.String()
		}
	}
	return ip.String()
}
