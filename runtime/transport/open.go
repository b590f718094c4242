package transport

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
)

const (
	// defaultMaxOpen and defaultMaxSessions are the defaults of HandlerOptions.MaxOpen and MaxSessions.
	defaultMaxOpen     = 4096
	defaultMaxSessions = 1024
	// nobodysShare is the factor by which the limit is larger for all callers without a principal together.
	nobodysShare = 16
)

// A payer is the account for open requests and sessions: a principal, or the address of a caller without one (CAP-7).
type payer struct{ principal, address string }

// nobody is the account of all callers without a principal together.
var nobody = payer{address: "*"}

// payerOf returns the payer of a request.
func payerOf(principal string, r *http.Request) payer {
	if principal != "" {
		return payer{principal: principal}
	}
	return payer{address: inbound.Address(r)}
}

// accounts returns the accounts that p counts against.
func (p payer) accounts() []payer {
	if p.principal != "" {
		return []payer{p}
	}
	return []payer{p, nobody}
}

// limit returns the limit of an account, given the limit of a principal; negative for no limit.
func (p payer) limit(most int) int {
	if p == nobody {
		return most * nobodysShare
	}
	return most
}

// refuse answers a caller that has reached the limit of an account. It sends no Retry-After, since the end of an open
// request is unknown.
func (p payer) refuse(w http.ResponseWriter, most int, what string) {
	whose := "of this caller"
	if p == nobody {
		whose = "of callers without a principal"
	}
	http.Error(w, fmt.Sprintf("%d %s %s are open, the maximum: end one of them first", p.limit(most), what, whose), http.StatusTooManyRequests)
}

// openCount counts open requests by account, so that a limit affects only the account that has reached it (CAP-7).
type openCount struct {
	max int // limit of a principal; negative for no limit

	mu sync.Mutex
	by map[payer]int
}

func newOpenCount(most int) *openCount { return &openCount{max: most, by: map[payer]int{}} }

// enter takes a slot, which leave releases, or answers with 429. The argument what names the counted things in the answer.
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
