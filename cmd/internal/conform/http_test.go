package conform

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
)

// TestIdleConnection sends two requests with a pause, after which the server may close the first one's connection.
func TestIdleConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		s := &http.Server{Handler: http.NotFoundHandler()}
		go func() { _ = s.Serve(n) }()
		defer s.Close()
		opened := 0
		link := newHTTPLink("http://127.0.0.1/mcp", "", "", func(ctx context.Context, network, address string) (net.Conn, error) {
			opened++
			return n.DialContext(ctx, network, address)
		}, nil)
		defer link.client.CloseIdleConnections()
		for _, pause := range []time.Duration{0, 4 * time.Second} {
			time.Sleep(pause)
			res, err := link.do(t.Context(), http.MethodGet, "", "", nil)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
		}
		if opened != 2 {
			t.Errorf("%d connections", opened)
		}
	})
}
