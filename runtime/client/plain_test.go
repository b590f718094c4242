package client

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// Errors of Connect say what is wrong in one sentence: where nothing answers, where another server does, and what is wrong
// with a URL (CLI-12).
func TestConnectErrors(t *testing.T) {
	page := func(status int, kind, text string) *httptest.Server {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			io.WriteString(w, text)
		}))
		t.Cleanup(srv.Close)
		return srv
	}
	missing, html, text := page(404, "text/plain", "404 page not found\n"), page(200, "text/html; charset=utf-8", "<!DOCTYPE html>"), page(200, "text/plain", "hello")
	lost := page(404, "text/html", "<h1>Not here</h1>")
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, c := range []struct{ url, want string }{
		{missing.URL + "/mcp?key=hush", "client: connecting: HTTP status 404 Not Found from " + missing.URL + "/mcp: 404 page not found"},
		{lost.URL + "/x", "client: connecting: the answer is an HTML page, not JSON-RPC: HTTP status 404 Not Found from " + lost.URL + "/x: <h1>Not here</h1>"},
		{html.URL, "client: connecting: the answer is an HTML page, not JSON-RPC: HTTP status 200 OK: <!DOCTYPE html>"},
		{text.URL, `client: connecting: the answer is "text/plain", not JSON-RPC: HTTP status 200 OK: hello`},
		{gone.URL, "client: connecting: dial tcp " + gone.Listener.Addr().String() + ": connect: connection refused"},
		{"127.0.0.1:8080/mcp", `client: the server's URL "127.0.0.1:8080/mcp" has no scheme; begin it with http:// or https://`},
		{"localhost:8080/mcp", `client: the server's URL "localhost:8080/mcp" has no scheme; begin it with http:// or https://`},
	} {
		if _, err := Connect(t.Context(), HTTP(c.url, nil), Options{}); err == nil || err.Error() != c.want {
			t.Errorf("%s:\ngot  %v\nwant %s", c.url, err, c.want)
		} else if c.url == gone.URL && !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%v does not wrap its reason", err)
		}
	}
}

// Errors of Subscribe name what the server has, and what a mode needs (CLI-1).
func TestSubscribeErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(false)
		f.list = func() []wire.Descriptor {
			return []wire.Descriptor{descriptor("tick", "poll", "push"), descriptor("tack", "poll")}
		}
		cl := connect(t, f, carriers[3], Options{})
		for _, c := range []struct{ event, mode, want string }{
			{"tock", "", `client: the server has no event type "tock"; did you mean "tick"? the event types are tick, tack`},
			{"tick", "webhook", "client: no compatible delivery mode for tick: webhook needs Options.Webhook; offered [poll, push], supported [push, poll]"},
			{"tick", "stream", `client: no compatible delivery mode for tick: unknown mode "stream"; offered [poll, push], supported [push, poll]`},
			{"tack", "push", "client: no compatible delivery mode for tack: offered [poll], supported [push]"},
		} {
			_, err := Subscribe(t.Context(), cl, Dynamic(c.event), nil, WithMode(c.mode))
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if errors.Is(err, events.ErrNotFound) != (c.event == "tock") {
				t.Errorf("%v wraps the wrong error", err)
			}
		}
		f.list = func() (all []wire.Descriptor) {
			for i := range 50 {
				all = append(all, descriptor(strings.Repeat("x", i+1), "poll"))
			}
			return all
		}
		if _, err := Subscribe(t.Context(), cl, Dynamic("tock"), nil); err == nil || !strings.HasSuffix(err.Error(), " and 30 more") {
			t.Error(err)
		}
	})
}
