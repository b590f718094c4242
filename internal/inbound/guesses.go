package inbound

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// guessesEach is how many wrong credentials an address may send within guessWindow.
	guessesEach = 10
	guessWindow = time.Minute
	// maxGuessers bounds how many addresses are remembered.
	maxGuessers = 4096
)

// Guesses counts wrong credentials by the address that they come from, as the server sees it. The zero value is
// ready to use.
type Guesses struct {
	// Report is told once a minute in which there were any: how many from how many addresses, and which of those
	// sent the most.
	Report func(failures, addresses int, most string)

	mu       sync.Mutex
	guessers map[string]*guesser
	failures int // since the last report
}

type guesser struct {
	until time.Time // the end of its window
	n     int
}

// Wait is how long the sender of r has to wait before another credential of it is looked at, 0 for not at all.
func (g *Guesses) Wait(r *http.Request) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.guessers[Address(r)]; f != nil && f.n >= guessesEach {
		return max(time.Until(f.until), 0)
	}
	return 0
}

// Failed counts a wrong credential.
func (g *Guesses) Failed(r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, from := time.Now(), Address(r)
	if g.guessers == nil {
		g.guessers = map[string]*guesser{}
	}
	if g.failures++; g.failures == 1 {
		time.AfterFunc(guessWindow, g.report)
	}
	f := g.guessers[from]
	if f == nil && len(g.guessers) >= maxGuessers {
		for other := range g.guessers { // somebody's, so that others are counted too
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

// report tells of the last minute, and forgets whose window is over.
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

// Address returns the address that sent a request, as this server sees it. Of an IPv6 address it is the network of 64 bits,
// since one host has all of it.
func Address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
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
