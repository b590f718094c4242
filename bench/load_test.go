package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A stream that ends before it is active is an error, and does not hold a run up.
func TestStreamEndsEarly(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	if _, err := openStreams(t.Context(), s.URL, 2, nil); err == nil || !strings.Contains(err.Error(), "before it was active") {
		t.Errorf("openStreams returned %v", err)
	}
}
