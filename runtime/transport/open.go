package transport

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
)

const (
	// defaultMaxOpen is HandlerOptions.MaxOpen when that is 0, defaultMaxSessions MaxSessions.
	defaultMaxOpen     = 4096
	defaultMaxSessions = 1024
	// nobodysShare is how many times as much all callers without a principal have together.
	nobodysShare = 16
)

// A payer is a principal, or the address of a caller without one: whatever a caller holds open counts against it (CAP-7).
type payer struct{ principal, address string }

// nobody counts what all callers without a principal hold open together.
var nobody = payer{address: "*"}

// payerOf returns the payer of a request.
func payerOf(principal string, r *http.Request) payer {
	if principal != "" {
		return payer{principal: principal}
	}
	return payer{address: inbound.Address(r)}
}

// accounts returns the payers that p is counted under.
func (p payer) accounts() []payer {
	if p.principal != "" {
		return []payer{p}
	}
	return []payer{p, nobody}
}

// limit returns the bound of an account, where most is that of a principal; negative for no bound.
func (p payer) limit(most int) int {
	if p == nobody {
		return most * nobodysShare
	}
	return most
}

// refuse answers a caller beyond the bound of an account. It names no time to come back: nobody knows when an open
// request ends.
func (p payer) refuse(w http.ResponseWriter, most int, what string) {
	whose := "of this caller"
	if p == nobody {
		whose = "of callers without a principal"
	}
	http.Error(w, fmt.Sprintf("%d %s %s are open, the maximum: end one of them first", p.limit(most), what, whose), http.StatusTooManyRequests)
}

// openCount counts open requests by account, so that a bound refuses only the account that has reached it (CAP-7).
type openCount struct {
	max int // of a principal; negative for no bound

	mu sync.Mutex
	by map[payer]int
}

func newOpenCount(most int) *openCount { return &openCount{max: most, by: map[payer]int{}} }

// enter takes a place, which leave gives back, or answers with 429. what names what is counted.
func (o *openCount) enter(w http.ResponseWriter, p payer, what string) bool {
	accounts := p.accounts()
	o.mu.Lock()
	for _, a := range accounts {
		if limit := a.limit(o.max); limit >= 0 && o.by[a] >= limit {
			o.mu.Unlock()
			a.refuse(w, o.max, what)
			return false
		}
	}
	for _, a := range accounts {
		o.by[a]++
	}
	o.mu.Unlock()
	return true
}

func (o *openCount) leave(p payer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range p.accounts() {
		if o.by[a]--; o.by[a] <= 0 {
			delete(o.by, a)
		}
	}
}
