package clitest

import (
	"bytes"
	"regexp"
	"sync"
	"testing"
	"time"
)

// Lines collects the output of a process; it can be read while the process runs.
type Lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to the text.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns the text so far.
func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Find waits until the text has a match. It polls, because a process gives no other signal.
func (l *Lines) Find(t *testing.T, what *regexp.Regexp) string {
	t.Helper()
	for range 1000 {
		if m := what.FindString(l.String()); m != "" {
			return m
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("no %s in\n%s", what, l)
	return ""
}
