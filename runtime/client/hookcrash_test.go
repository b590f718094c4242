package client

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

const hookedVar = "MCPE_CLIENT_TEST_HOOKED" // server URL, address to listen on, database

// runHooked makes this test binary a program that receives by webhook, prints each eventId, and waits
// for a line on stdin before it asks for the next.
func runHooked() bool {
	what := strings.Fields(os.Getenv(hookedVar))
	if len(what) != 3 {
		return false
	}
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	ctx := context.Background()
	db, err := sqlite.Open(ctx, what[2], sqlite.Options{})
	check(err)
	l, err := net.Listen("tcp", what[1])
	check(err)
	cl, err := Connect(ctx, HTTP(what[0], nil), Options{Webhook: &WebhookOptions{PublicURL: "https://" + what[1], Listener: l, Received: db}})
	check(err)
	o := []SubscribeOption{WithCursorKey("tick")}
	if _, ok, err := db.Callback(ctx, "tick"); !ok {
		check(err)
		o = append(o, WithCursor("c0"))
	}
	s, err := Subscribe(ctx, cl, Dynamic("tick"), nil, o...)
	check(err)
	check(printEach(s))
	return true
}

// CLI-5, CLI-6, section 13: a client that receives by webhook and is killed again and again between
// receiving and committing misses nothing that it answered for, and repeats at most the one event in
// hand; also of a type that cannot be replayed, where the store is all there is.
func TestCLI5Killed(t *testing.T) {
	for _, noReplay := range []bool{false, true} {
		f := newFake(false)
		h := newHooks(t, f, nil)
		h.noReplay = noReplay
		srv := httptest.NewServer(f)
		defer srv.Close()
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := free.Addr().String()
		free.Close()
		hc := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		h.post = func(r *http.Request) (int, string) {
			r.URL.Scheme = "http" // TLS ends in front of it
			resp, err := hc.Do(r)
			if err != nil {
				return 0, ""
			}
			defer resp.Body.Close()
			body := make([]byte, 1024)
			n, _ := resp.Body.Read(body)
			return resp.StatusCode, string(body[:n])
		}
		db := filepath.Join(t.TempDir(), "client.db")
		h.emit(crashEvents)
		done := make(chan struct{})
		delivered := make(chan struct{})
		go func() {
			defer close(delivered)
			for {
				h.deliver()
				select {
				case <-done:
					return
				case <-time.After(2 * time.Millisecond):
				}
			}
		}()
		last, lives := 0, 0
		for last < crashEvents && !t.Failed() {
			lives++
			last = life(t, hookedVar+"="+strings.Join([]string{srv.URL, addr, db}, " "), last, 3+lives%5)
		}
		close(done)
		<-delivered
		if lives < 3 || lives > 14 {
			t.Errorf("%d lives", lives)
		}
	}
}
