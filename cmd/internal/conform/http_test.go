package conform

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
)

// TestIdleConnection sends requests to a server that closes each connection when a second request arrives on it.
func TestIdleConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		type used struct{}
		s := &http.Server{
			ConnContext: func(ctx context.Context, _ net.Conn) context.Context { return context.WithValue(ctx, used{}, new(int)) },
			Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if key, ok := r.Header["Idempotency-Key"]; ok {
					t.Errorf("the key %q", key)
				}
				requests := r.Context().Value(used{}).(*int)
				if *requests++; *requests > 1 {
					panic(http.ErrAbortHandler)
				}
			}),
		}
		go func() { _ = s.Serve(n) }()
		defer s.Close()
		link := newHTTPLink("http://127.0.0.1/mcp", "", "", n.DialContext, nil)
		defer link.client.CloseIdleConnections()
		for range 3 {
			res, err := link.do(t.Context(), http.MethodPost, "", "", []byte("{}"))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			synctest.Wait()
		}
	})
}
