package conversation

import (
	"sync"
	"time"
)

// A breaker is a circuit breaker for a server that repeatedly times out (CONV-4). It opens after limit consecutive
// timeouts. After the rest period, it allows one message, whose outcome closes or reopens the breaker.
type breaker struct {
	limit int
	rest  time.Duration

	mu       sync.Mutex
	timeouts int
	until    time.Time // zero: closed
	probing  bool
}

// canSend reports whether a message may be sent now.
func (b *breaker) canSend() bool {
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

// recordAnswer closes the breaker after a timely answer, even if the answer is an error.
func (b *breaker) recordAnswer() { b.reset() }

// recordTimeout records a timeout.
func (b *breaker) recordTimeout() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timeouts++
	if b.probing || b.timeouts >= b.limit {
		b.until = time.Now().Add(b.rest)
		b.probing = false
	}
}

// recordAbandoned records that a message was cancelled before its answer or timeout.
func (b *breaker) recordAbandoned() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
}

func (b *breaker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timeouts, b.until, b.probing = 0, time.Time{}, false
}

// openState returns the number of consecutive timeouts and the time until which the breaker is open. The time is zero
// if the breaker is closed.
func (b *breaker) openState() (timeouts int, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.timeouts, b.until
}
