package main

import (
	"errors"
	"io"
	"strings"
	"testing"
)

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
}
