package main

import (
	"bytes"
	"regexp"
	"sync"
	"testing"
	"time"
)

// lines is what a process has written so far; it can be read while the process runs.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// find waits until the text has a match. It polls: a process gives no other sign.
func (l *lines) find(t *testing.T, what *regexp.Regexp) string {
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
