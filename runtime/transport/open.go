package transport

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
)

const (
	// defaultMaxOpen and defaultMaxSessions are the defaults for HandlerOptions.MaxOpen and MaxSessions.
	defaultMaxOpen     = 4096
	defaultMaxSessions = 1024
	// anonymousFactor is the limit for all callers without a principal, as a multiple of the limit for one principal.
	anonymousFactor = 16
)

// An accountKey identifies an account for open requests and sessions (CAP-7). It holds a principal or, for a caller
// without a principal, an address.
type accountKey struct{ principal, address string }

// anonymousAccount is the account that all callers without a principal share.
var anonymousAccount = accountKey{address: "*"}

// accountKeyOf returns the account key for a request.
func accountKeyOf(principal string, r *http.Request) accountKey {
	if principal != "" {
		return accountKey{principal: principal}
	}
	return accountKey{address: inbound.Address(r)}
}

// accounts returns the keys of all accounts that count a request of p.
func (p accountKey) accounts() []accountKey {
	if p.principal != "" {
		return []accountKey{p}
	}
	return []accountKey{p, anonymousAccount}
}

// limit returns the limit for an account, given the limit for a principal. A negative value means no limit.
func (p accountKey) limit(most int) int {
	if p == anonymousAccount {
		return most * anonymousFactor
	}
	return most
}

// refuse responds to a caller that has reached the limit of an account. It sends no Retry-After, because it is unknown
// when an open request will end.
func (p accountKey) refuse(w http.ResponseWriter, most int, what string) {
	whose := "of this caller"
	if p == anonymousAccount {
		whose = "of callers without a principal"
	}
	http.Error(w, fmt.Sprintf("%d %s %s are open, the maximum: end one of them first", p.limit(most), what, whose), http.StatusTooManyRequests)
}

// An openCount counts the open requests of each account, so the limit affects only accounts that have reached it
// (CAP-7).
type openCount struct {
	max int // limit of a principal; negative for no limit

	mu sync.Mutex
	by map[accountKey]int
}

func newOpenCount(most int) *openCount { return &openCount{max: most, by: map[accountKey]int{}} }

// reserve reserves a slot, which the caller must release, or responds with 429. The what argument describes the counted
// items in that response.
func (o *openCount) reserve(w http.ResponseWriter, p accountKey, what string) bool {
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

func (o *openCount) release(p accountKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range p.accounts() {
		if o.by[a]--; o.by[a] <= 0 {
			delete(o.by, a)
		}
	}
}
