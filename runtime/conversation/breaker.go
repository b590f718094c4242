package conversation

import (
	"sync"
	"time"
)

// A breaker is a circuit breaker for a server that keeps timing out (CONV-4). It opens after limit
// timeouts in a row. After the rest, it lets one message through, whose outcome closes or reopens
// it.
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

// answered closes the breaker after an answer in time, even an error.
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

// abandoned records that the caller gave up on a message before an answer or the timeout.
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

// state returns the number of timeouts in a row and the end of the open state; zero means closed.
func (b *breaker) state() (timeouts int, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.timeouts, b.until
}
