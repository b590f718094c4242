package serve

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// trialPrincipal is the principal of callers with the token.
const trialPrincipal = "trial"

// principal returns the caller's principal, or "" if the caller did not send the token.
func principal(_ context.Context, extra *mcp.RequestExtra) string {
	if extra == nil || extra.TokenInfo == nil {
		return ""
	}
	return extra.TokenInfo.UserID
}

// webhooks returns the part for webhook delivery, or nil if no caller can have a principal.
func (o Options) webhooks() (server.Part, error) {
	if o.Token == "" || o.HTTP == "" {
		return nil, nil
	}
	var w webhooks.Options
	w.Callbacks.Loopback = o.Dev
	if o.CallbackCA == "" {
		return webhooks.New(w), nil
	}
	pem, err := os.ReadFile(o.CallbackCA)
	if err != nil {
		return nil, fmt.Errorf("--callback-ca: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, cli.Refusef("--callback-ca %s: no certificate in PEM", o.CallbackCA)
	}
	w.Callbacks.TLS = &tls.Config{RootCAs: roots}
	return webhooks.New(w), nil
}

// serveHTTP serves MCP at /mcp and accepts events at /emit/ until ctx is done.
func (t *trial) serveHTTP(ctx context.Context, begin func()) error {
	l, err := net.Listen("tcp", t.o.Address())
	if err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", t.injectFaults(transport.NewHandler(t.es, transport.HandlerOptions{})))
	mux.HandleFunc("POST /emit/{event}", t.emit)
	addr := l.Addr().(*net.TCPAddr)
	web := &http.Server{ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler,
		slog.LevelDebug),
		Handler: t.checkHost(addr, transport.AllowOrigins(t.authenticate(mux)))}
	web.RegisterOnShutdown(t.shutdown)
	where := addr.String()
	if host, _, _ := net.SplitHostPort(t.o.Address()); host == "localhost" {
		where = fmt.Sprintf("localhost:%d", addr.Port)
	}
	t.printMessage("%s at http://%s/mcp, for testing only, never for production", t.summary(), where)
	begin()
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	select {
	case err = <-served:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if web.Shutdown(ending) != nil {
		web.Close()
	}
	if err = <-served; errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// checkHost rejects requests for other hosts, which prevents DNS rebinding attacks by web pages.
func (t *trial) checkHost(addr *net.TCPAddr, next http.Handler) http.Handler {
	given, _, _ := net.SplitHostPort(t.o.Address())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, port, err := net.SplitHostPort(r.Host)
		if err != nil {
			host, port = strings.Trim(r.Host, "[]"), "80"
		}
		local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		ip := net.ParseIP(host)
		here := local != nil && (ip != nil && ip.Equal(local.IP) || local.IP.IsLoopback() && strings.EqualFold(host,
			"localhost"))
		if !here && (given == "" || !strings.EqualFold(host, given)) || port != fmt.Sprint(addr.Port) {
			http.Error(w, "this server answers to the address that it listens on", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// authenticate gives callers with the token a principal. Callers without it have no principal on loopback, and are
// rejected elsewhere. After ten wrong tokens from one address within a minute, further tokens are not checked.
func (t *trial) authenticate(next http.Handler) http.Handler {
	guesses := &inbound.Guesses{Report: func(failures, addresses int, most string) {
		t.warn("%d wrong tokens within a minute from %d addresses, most from %s", failures, addresses, plain.Text(most))
	}}
	verify := func(_ context.Context, token string, r *http.Request) (*auth.TokenInfo, error) {
		if subtle.ConstantTimeCompare([]byte(token), []byte(t.o.Token)) != 1 {
			guesses.Failed(r)
			return nil, auth.ErrInvalidToken
		}
		guesses.Succeeded(r)
		return &auth.TokenInfo{UserID: trialPrincipal}, nil
	}
	checked := auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		anonymous := r.Header.Get("Authorization") == "" && local != nil && local.IP.IsLoopback() &&
			!strings.HasPrefix(r.URL.Path, "/emit/")
		if t.o.Token == "" || anonymous {
			next.ServeHTTP(w, r)
			return
		}
		if wait := guesses.Wait(r); wait > 0 && r.Header.Get("Authorization") != "" {
			w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
			http.Error(w, "too many wrong tokens came from this address", http.StatusTooManyRequests)
			return
		}
		checked.ServeHTTP(w, r)
	})
}
