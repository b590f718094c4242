package operator

import (
	"os/exec"
	"strings"
	"testing"
)

// A failure is told by the status of the endpoint. That of the server's own proxy is marked as such.
func TestFailureText(t *testing.T) {
	for _, c := range []struct {
		category string
		status   int
		want     string
	}{
		{"http_4xx", 401, "HTTP 401"}, {"http_5xx", 503, "HTTP 503"}, {"timeout", 0, "timeout"}, {"http_4xx", 0, "http_4xx"}, {"proxy", 407, "proxy: HTTP 407"}, {"proxy", 0, "proxy"}, {"", 204, ""},
	} {
		if got := FailureText(c.category, c.status); got != c.want {
			t.Errorf("%q %d: %q, want %q", c.category, c.status, got, c.want)
		}
	}
}

// A program that operates a server links it by its own hand only: this package has no part of one.
func TestLinks(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		for _, refused := range []string{"/runtime/server", "/runtime/admin", "/runtime/client", "/runtime/internal/", "/go-sdk/"} {
			if strings.Contains(dep, refused) && !strings.HasSuffix(dep, "/runtime/internal/actor") { // a name in a context
				t.Errorf("links %s", dep)
			}
		}
	}
}
