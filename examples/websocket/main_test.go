package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets/ticketsserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// Events come over WebSockets, for who made the handshake; after each connection is cut the client comes back and goes on
// where it was, with nothing missing and nothing twice (CUR-2).
func TestWebSocket(t *testing.T) {
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil), server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	callers := map[string]bool{}
	created, err := ticketsserver.RegisterTicketCreated(es, ticketsserver.TicketCreatedHooks{
		Authorize: func(_ context.Context, principal string, _ *tickets.TicketCreatedArguments) error {
			mu.Lock()
			defer mu.Unlock()
			callers[principal] = true
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	known := auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		if token != "s3cret-of-ada" {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: "ada"}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	// The handlers' contexts are ended to cut their connections.
	cut := func() {}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		mu.Lock()
		cut = cancel
		mu.Unlock()
		known(newHandler(es)).ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(func() {
		if err := es.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		web.Close()
	})
	url := "ws" + strings.TrimPrefix(web.URL, "http")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := follow(ctx, dialer{url: url}, nil); err == nil {
		t.Error("a handshake without a token is accepted")
	}

	got := make(chan string)
	followed := make(chan error, 1)
	go func() {
		to := dialer{url: url, header: http.Header{"Authorization": {"Bearer s3cret-of-ada"}}}
		followed <- follow(ctx, to, func(p *tickets.TicketCreatedPayload) { got <- p.TicketID })
	}()
	for len(es.Subscriptions()) == 0 {
		select {
		case err := <-followed:
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	for n := range 30 {
		if n%10 == 9 {
			mu.Lock()
			cut()
			mu.Unlock()
		}
		if err := created.Emit(ctx, ticket(fmt.Sprint(n))); err != nil {
			t.Fatal(err)
		}
		select {
		case id := <-got:
			if id != fmt.Sprint("T-", n) {
				t.Fatalf("ticket %s, want %d", id, n)
			}
		case err := <-followed:
			t.Fatalf("ticket %d: %v", n, err)
		}
	}
	cancel()
	<-followed
	if mu.Lock(); len(callers) != 1 || !callers["ada"] {
		t.Errorf("callers %v", callers)
	}
	mu.Unlock()
}
