package client

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// A gate stands before a server; trouble is what those find who come while it is closed.
type gate struct {
	mu      sync.Mutex
	trouble func(ctx context.Context) (status int, retryAfter string, err error)
	base    http.RoundTripper
}

var refused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

func isRefused(context.Context) (int, string, error) { return 0, "", refused }

func (g *gate) set(trouble func(context.Context) (int, string, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trouble = trouble
}

func (g *gate) now() func(context.Context) (int, string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.trouble
}

func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	trouble := g.now()
	if trouble == nil {
		return g.base.RoundTrip(req)
	}
	status, after, err := trouble(req.Context())
	if err != nil {
		return nil, err
	}
	resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}
	if after != "" {
		resp.Header.Set("Retry-After", after)
	}
	return resp, nil
}

// gated puts a gate before the house.
func (h *house) gated() (*gate, mcp.Transport) {
	g := &gate{}
	switch t := h.transport().(type) {
	case *mcp.StreamableClientTransport:
		g.base = t.HTTPClient.Transport
		own := *t.HTTPClient
		own.Transport = g
		t.HTTPClient = &own
		return g, t
	case *dialed:
		return g, Dial(func(ctx context.Context) (mcp.Transport, error) {
			if trouble := g.now(); trouble != nil {
				_, _, err := trouble(ctx)
				return nil, err
			}
			return t.open(ctx)
		})
	}
	h.t.Fatal("no way to the house")
	return nil, nil
}

func eachWay(t *testing.T, test func(t *testing.T, h *house, g *gate, tr mcp.Transport, o Options)) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		h := newHouse(t, c, server.Options{})
		g, tr := h.gated()
		o := Options{Logger: slog.New(slog.DiscardHandler)}
		if c.legacy {
			o.ProtocolVersion = "2025-11-25"
		}
		test(t, h, g, tr, o)
	})
}

// CLI-12: Connect waits for a server that is away, and fails at once where it does not wait, or is refused.
func TestCLI12Connect(t *testing.T) {
	eachWay(t, func(t *testing.T, h *house, g *gate, tr mcp.Transport, o Options) {
		g.set(isRefused)
		begun := time.Now()
		if _, err := Connect(t.Context(), tr, o); !errors.Is(err, syscall.ECONNREFUSED) || time.Since(begun) > 5*time.Second {
			t.Fatalf("without the option, after %v: %v", time.Since(begun), err)
		}
		o.WaitForServer = true
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		begun = time.Now()
		if _, err := Connect(ctx, tr, o); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, syscall.ECONNREFUSED) || time.Since(begun) != 10*time.Minute {
			t.Fatalf("without a server, after %v: %v", time.Since(begun), err)
		}
		time.AfterFunc(10*time.Minute, func() { g.set(nil) })
		begun = time.Now()
		cl, err := Connect(t.Context(), tr, o)
		if took := time.Since(begun); err != nil || took < 10*time.Minute || took > 12*time.Minute {
			t.Fatalf("after %v: %v", took, err)
		}
		defer cl.Close()
		r := read(t, subscribe(t, cl))
		h.emit(1, 1)
		r.want("e1")
	})
}

// CLI-12: a URL that no server can be at is an error at once, and shows no password.
func TestCLI12URL(t *testing.T) {
	for _, address := range []string{"", "localhost:8080/mcp", "/mcp", "events.example/mcp", "https:///mcp", "https://me:hush@[", "https://me:hush@events.example:x"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := Connect(ctx, HTTP(address, nil), Options{WaitForServer: true, Logger: slog.New(slog.DiscardHandler)})
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "the server's URL") || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %v", address, err)
		}
		cancel()
	}
}

// CLI-12: over HTTP it waits also for one that answers and is not able now, as long as it says, and for one that
// does not answer.
func TestCLI12Unable(t *testing.T) {
	answer := func(status int, retryAfter string) func(context.Context) (int, string, error) {
		return func(context.Context) (int, string, error) { return status, retryAfter, nil }
	}
	for name, c := range map[string]struct {
		trouble     func(context.Context) (int, string, error)
		least, most time.Duration
	}{
		"bad gateway":  {answer(http.StatusBadGateway, ""), 10 * time.Minute, 12 * time.Minute},
		"error":        {answer(http.StatusInternalServerError, ""), 10 * time.Minute, 12 * time.Minute},
		"too many":     {answer(http.StatusTooManyRequests, ""), 10 * time.Minute, 12 * time.Minute},
		"retry after":  {answer(http.StatusServiceUnavailable, "400"), 800 * time.Second, 800 * time.Second},
		"no such host": {func(context.Context) (int, string, error) { return 0, "", &net.DNSError{Err: "no such host"} }, 10 * time.Minute, 12 * time.Minute},
		"silent":       {func(ctx context.Context) (int, string, error) { <-ctx.Done(); return 0, "", ctx.Err() }, 10 * time.Minute, 12 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, carriers[3], server.Options{})
				g, tr := h.gated()
				g.set(c.trouble)
				time.AfterFunc(10*time.Minute, func() { g.set(nil) })
				begun := time.Now()
				cl, err := Connect(t.Context(), tr, Options{Logger: slog.New(slog.DiscardHandler), WaitForServer: true})
				if took := time.Since(begun); err != nil || took < c.least || took > c.most {
					t.Fatalf("after %v: %v", took, err)
				}
				cl.Close()
			})
		})
	}
	for name, c := range map[string]struct {
		status int
		want   string
	}{"unauthorized": {http.StatusUnauthorized, "401"}, "not found": {http.StatusNotFound, "Not Found"}, "bad request": {http.StatusBadRequest, "Bad Request"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, carriers[3], server.Options{})
				g, tr := h.gated()
				g.set(answer(c.status, ""))
				begun := time.Now()
				if _, err := Connect(t.Context(), tr, Options{Logger: slog.New(slog.DiscardHandler), WaitForServer: true}); err == nil || !strings.Contains(err.Error(), c.want) || time.Since(begun) > 0 {
					t.Errorf("after %v: %v", time.Since(begun), err)
				}
			})
		})
	}
}

// CLI-12: Subscribe waits for a server that is away; the registry shows the subscription and why it waits.
// What is refused is an error at once, and so is everything where it does not wait.
func TestCLI12Subscribe(t *testing.T) {
	eachWay(t, func(t *testing.T, h *house, g *gate, tr mcp.Transport, o Options) {
		impatient, err := Connect(t.Context(), tr, o)
		if err != nil {
			t.Fatal(err)
		}
		defer impatient.Close()
		o.WaitForServer = true
		cl, err := Connect(t.Context(), tr, o)
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		for want, typ := range map[error]string{events.ErrNotFound: "tock", events.ErrInvalidParams: "tick"} {
			begun := time.Now()
			args := []byte(nil)
			if typ == "tick" {
				args = []byte(`{"nonsense":1}`)
			}
			if _, err := Subscribe(t.Context(), cl, Dynamic(typ), args); !errors.Is(err, want) || time.Since(begun) > 0 {
				t.Errorf("after %v: %v, want %v", time.Since(begun), err, want)
			}
		}
		g.set(isRefused)
		h.stop()
		synctest.Wait()
		begun := time.Now()
		if _, err := Subscribe(t.Context(), impatient, Dynamic("tick"), nil); err == nil || time.Since(begun) > 5*time.Second {
			t.Errorf("without the option, after %v: %v", time.Since(begun), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		begun = time.Now()
		if _, err := Subscribe(ctx, cl, Dynamic("tick"), nil); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, syscall.ECONNREFUSED) || time.Since(begun) != 10*time.Minute {
			t.Errorf("without a server, after %v: %v", time.Since(begun), err)
		}
		if left := cl.Subscriptions(); len(left) != 0 {
			t.Errorf("%+v lives", left)
		}
		time.AfterFunc(5*time.Minute, func() {
			if l := cl.Subscriptions(); len(l) != 1 || l[0].Event != "tick" || !errors.Is(l[0].LastError, syscall.ECONNREFUSED) || !l[0].LastFrame.IsZero() {
				t.Errorf("meanwhile: %+v", l)
			}
		})
		time.AfterFunc(10*time.Minute, func() { h.start(); g.set(nil) })
		begun = time.Now()
		s, err := Subscribe(t.Context(), cl, Dynamic("tick"), nil)
		if took := time.Since(begun); err != nil || took < 10*time.Minute || took > 13*time.Minute {
			t.Fatalf("after %v: %v", took, err)
		}
		r := read(t, s)
		h.emit(1, 2)
		r.want("e1", "e2")
	})
}

// CLI-12: Close ends what waits.
func TestCLI12Close(t *testing.T) {
	eachWay(t, func(t *testing.T, h *house, g *gate, tr mcp.Transport, o Options) {
		o.WaitForServer = true
		cl, err := Connect(t.Context(), tr, o)
		if err != nil {
			t.Fatal(err)
		}
		g.set(isRefused)
		h.stop()
		time.AfterFunc(time.Minute, func() { cl.Close() })
		begun := time.Now()
		if _, err := Subscribe(t.Context(), cl, Dynamic("tick"), nil); !errors.Is(err, ErrClosed) || time.Since(begun) < time.Minute || time.Since(begun) > 2*time.Minute {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}
