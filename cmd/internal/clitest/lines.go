package clitest

import (
	"bytes"
	"regexp"
	"sync"
	"testing"
	"time"
)

// Lines collects the output of a process. It can be read while the process is running.
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

// String returns the output so far.
func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Find waits until the output contains a match and returns it. It polls because a process does not signal new output.
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
