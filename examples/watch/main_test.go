package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
)

// A token goes to the server that it was given for and not to another one that redirects name.
func TestTokenStaysHome(t *testing.T) {
	seen := map[string]chan string{"home": make(chan string, 99), "elsewhere": make(chan string, 99)}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen["elsewhere"] <- r.Header.Get("Authorization")
		http.NotFound(w, r)
	}))
	defer elsewhere.Close()
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen["home"] <- r.Header.Get("Authorization")
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	defer home.Close()
	o, err := parse([]string{"-url", home.URL + "/mcp", "-token", "secret", "-event", "x"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Connect(t.Context(), o.transport(), client.Options{}); err == nil {
		t.Fatal("connected to a server that is none")
	}
	for who, want := range map[string]string{"home": "Bearer secret", "elsewhere": ""} {
		select {
		case got := <-seen[who]:
			if got != want {
				t.Errorf("%s got %q", who, got)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s was not asked", who)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct{ argv, want string }{
		{"", "give either -url or a command"},
		{"-url http://127.0.0.1:1 -event x -- cmd", "give either -url or a command"},
		{"-url http://127.0.0.1:1", "-event is missing"},
		{"-url http://127.0.0.1:1 -event x -mode carrier-pigeon", "carrier-pigeon"},
		{"-url http://127.0.0.1:1 -event x -mode webhook", "-mode webhook needs -listen"},
		{"-url http://127.0.0.1:1 -event x -listen :0 -tls-cert c", "-tls-cert and -tls-key go together"},
		{"-url http://127.0.0.1:1 -event x -public-url https://x", "need -listen"},
		{"-url http://127.0.0.1:1 -event x -arg repo", "want key=value"},
		{"-nope", "nope"},
	} {
		_, err := parse(strings.Fields(c.argv), io.Discard)
		if !errors.Is(err, errUsage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want a usage error with %q", c.argv, err, c.want)
		}
	}
}

func TestArguments(t *testing.T) {
	schema := []byte(`{"properties":{"n":{"type":"integer"},"s":{"type":"string"},"r":{"$ref":"#/$defs/R"}}}`)
	got, err := arguments([]string{"n=5", "s=5", "r=a=b", "unknown=1"}, schema)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"n":5,"r":"a=b","s":"5","unknown":"1"}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := arguments([]string{"n=five"}, schema); err == nil {
		t.Error("a word was taken for an integer")
	}
	// LIST-2: an absent schema is {}.
	for _, none := range []string{"", "null", "true", "{}"} {
		if got, err := arguments([]string{"s=5"}, []byte(none)); err != nil || string(got) != `{"s":"5"}` {
			t.Errorf("%q: %s, %v", none, got, err)
		}
	}
}
