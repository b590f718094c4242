package clients

import (
	"bytes"
	"sync"
	"time"
)

// An output retains a program's output up to a limit. It also records the time of the last output that is not an event.
type output struct {
	isEvent func([]byte) bool

	mu   sync.Mutex
	text bytes.Buffer
	last time.Time
}

func (o *output) Write(b []byte) (int, error) {
	event := o.isEvent(b)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !event {
		o.last = time.Now()
	}
	if rest := maxOutput - o.text.Len(); rest > 0 {
		o.text.Write(b[:min(rest, len(b))])
	}
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) since(t time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.last.IsZero() && !o.last.Before(t)
}
