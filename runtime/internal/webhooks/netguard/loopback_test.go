package netguard

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// SUB-3: with Loopback a receiver on this machine is reached with any certificate; every other name keeps its checks,
// also if it resolves to this machine, and so do other internal addresses.
func TestLoopback(t *testing.T) {
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	defer receiver.Close()
	u, err := url.Parse(receiver.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		loopback bool
		host     string
		want     wire.Category // category, "" for an answer
	}{
		{true, "127.0.0.1", ""},
		{true, "localhost", ""},
		{true, "looks-like-localhost.test", wire.TLSError},
		{true, "10.0.0.1", wire.ConnectionRefused},
		{false, "127.0.0.1", wire.ConnectionRefused},
		{false, "localhost", wire.ConnectionRefused},
	} {
		g, err := New(Options{Loopback: c.loopback, Resolver: names{"looks-like-localhost.test": {"127.0.0.1"}, "localhost": {"127.0.0.1"}}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		answer, err := g.Send(get(t, "https://"+c.host+":"+u.Port()+"/"))
		var failed *Error
		switch {
		case c.want == "" && (err != nil || answer.Status != http.StatusAccepted):
			t.Errorf("%s: %+v, %v", c.host, answer, err)
		case c.want != "" && (!errors.As(err, &failed) || failed.Category != c.want):
			t.Errorf("%s with Loopback %t: %v, want %s", c.host, c.loopback, err, c.want)
		}
	}
}
