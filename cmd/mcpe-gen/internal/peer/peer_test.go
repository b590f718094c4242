package peer

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// A token goes to the server that it was given for, not to where that redirects.
func TestTokenStaysHome(t *testing.T) {
	var elsewhere, home string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { elsewhere = r.Header.Get("Authorization") }))
	defer other.Close()
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		home = r.Header.Get("Authorization")
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer first.Close()
	u, err := url.Parse(first.URL)
	if err != nil {
		t.Fatal(err)
	}
	hc := &http.Client{Transport: &bearer{token: "secret", home: u}}
	res, err := hc.Get(first.URL)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if home != "Bearer secret" || elsewhere != "" {
		t.Errorf("home got %q, elsewhere %q", home, elsewhere)
	}
}

// The name of a target holds nothing that may be secret.
func TestStringHoldsNoSecrets(t *testing.T) {
	for _, target := range []Target{
		{URL: "https://user:secret@example.com/mcp?key=secret#secret"},
		{Command: []string{"/usr/bin/server", "--token", "secret"}},
	} {
		if s := target.String(); strings.Contains(s, "secret") || strings.Contains(s, "user") || s == "" {
			t.Error(s)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, target := range []Target{{}, {URL: "x"}, {URL: "ftp://example.com"}, {URL: "https://"}, {URL: "https://a.example", Command: []string{"a"}}, {Command: []string{"a"}, Token: "t"}} {
		if target.Check() == nil {
			t.Errorf("%+v is accepted", target)
		}
	}
	for _, target := range []Target{{URL: "http://127.0.0.1:1/mcp", Token: "t"}, {Command: []string{"a"}}} {
		if err := target.Check(); err != nil {
			t.Errorf("%+v: %v", target, err)
		}
	}
}
