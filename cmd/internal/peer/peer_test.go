package peer

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
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

// The command logs nothing that nobody has asked for: stderr belongs to what it says itself.
func TestQuiet(t *testing.T) {
	var logged bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})))

	if _, err := (Target{Command: []string{"echo", "no message"}}).Connect(t.Context(), client.Options{}); err == nil {
		t.Fatal("connected to echo")
	}
	if logged.Len() > 0 {
		t.Errorf("logged: %s", logged.String())
	}
}
