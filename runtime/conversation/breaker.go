package conversation

import (
	"sync"
	"time"
)

// A breaker leaves out a server that keeps timing out (CONV-4): after limit timeouts in a row it
// opens for a while; then one message is let through, and its fate closes or opens it again.
type breaker struct {
	limit int
	rest  time.Duration

	mu       sync.Mutex
	timeouts int
	until    time.Time // zero: closed
	probing  bool
}

// allow reports whether a message may be sent now.
func (b *breaker) allow() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.IsZero() {
		return true
	}
	if b.probing || time.Now().Before(b.until) {
		return false
	}
	b.probing = true
	return true
}

// answered closes the breaker: the server has answered in time, be it with an error.
func (b *breaker) answered() { b.reset() }

// timedOut counts a timeout.
func (b *breaker) timedOut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timeouts++
	if b.probing || b.timeouts >= b.limit {
		b.until = time.Now().Add(b.rest)
		b.probing = false
	}
}

// abandoned gives a message back that was neither answered nor late: its caller gave up.
func (b *breaker) abandoned() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
}

func (b *breaker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timeouts, b.until, b.probing = 0, time.Time{}, false
}

// state returns the timeouts in a row and until when the server is left out, zero for not at all.
func (b *breaker) state() (timeouts int, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.timeouts, b.until
}
