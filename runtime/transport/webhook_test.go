package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"

	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
)

// A moment is when something happened first.
type moment struct {
	mu sync.Mutex
	at time.Time
}

func (m *moment) now() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at.IsZero() {
		m.at = time.Now()
	}
}

func (m *moment) get() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

// A slowSink takes a while for each response of events/subscribe and notes when one is out.
type slowSink struct {
	takes   time.Duration
	written *moment
}

func (s slowSink) delay(p []byte) func() {
	if !bytes.Contains(p, []byte(`"sub_`)) {
		return func() {}
	}
	time.Sleep(s.takes)
	return s.written.now
}

// A slowWriter is a slowSink on the way of an HTTP response.
type slowWriter struct {
	http.ResponseWriter
	slowSink
}

func (w slowWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w slowWriter) Write(p []byte) (int, error) {
	defer w.delay(p)()
	return w.ResponseWriter.Write(p)
}

// A slowPipe is a slowSink on the way of a message connection.
type slowPipe struct {
	io.WriteCloser
	slowSink
}

func (w slowPipe) Write(p []byte) (int, error) {
	defer w.delay(p)()
	return w.WriteCloser.Write(p)
}

type anywhere struct{}

func (anywhere) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("198.51.100.1")}, nil
}

// TestSUB1ResponseBeforeDelivery subscribes with an occurrence waiting, over each carrier, while the
// response takes its time: nothing is delivered before it is written (SUB-1).
func TestSUB1ResponseBeforeDelivery(t *testing.T) {
	for _, m := range modes[:4] {
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var delivered moment
				l := memnet.New()
				hs := &http.Server{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
					Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { delivered.now() })}
				served := make(chan struct{})
				go func() { hs.Serve(l); close(served) }()
				g := newRig(t, server.Options{
					Principal: func(context.Context, *mcp.RequestExtra) string { return "alice" },
					Webhooks: webhooks.New(webhooks.Options{AllowReceivers: []string{"http://receiver.test"},
						Callbacks: callbacks.Options{AllowOrigins: []string{"http://receiver.test"}, DialContext: l.DialContext, Resolver: anywhere{}}})})
				raw, err := port.Of(g.es).Call(t.Context(), port.Request{Method: wire.MethodPoll, Params: json.RawMessage(`{"name":"tick"}`), Principal: "alice"})
				var polled struct{ Cursor string }
				if err != nil || json.Unmarshal(raw, &polled) != nil {
					t.Fatal(err)
				}
				g.emit(1)
				sink := slowSink{3 * time.Second, new(moment)}
				params := fmt.Sprintf(`{"name":"tick","cursor":%q,"delivery":{"mode":"webhook","url":"http://receiver.test/","secret":"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}}`, polled.Cursor)
				stop := func() {}
				if m.http {
					front := NewHandler(g.es, HandlerOptions{})
					c := g.serve(m, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						front.ServeHTTP(slowWriter{w, sink}, r)
					}))
					c.rpc("1", wire.MethodSubscribe, params)
				} else {
					inR, inW := io.Pipe()
					outR, outW := io.Pipe()
					ctx, cancel := context.WithCancel(context.Background())
					ran, read := make(chan error, 1), make(chan struct{})
					go func() {
						ran <- Run(ctx, g.es, &mcp.IOTransport{Reader: inR, Writer: slowPipe{outW, sink}})
						outW.Close()
					}()
					go func() { io.Copy(io.Discard, outR); close(read) }()
					if !m.modern() {
						io.WriteString(inW, initializeRequest(m.version)+"\n"+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
					}
					io.WriteString(inW, m.request("1", wire.MethodSubscribe, params)+"\n")
					stop = func() {
						cancel()
						<-ran
						<-read
						g.stop()
					}
				}
				time.Sleep(8 * time.Second)
				synctest.Wait()
				at, written := delivered.get(), sink.written.get()
				switch {
				case written.IsZero():
					t.Error("no response was written")
				case at.IsZero():
					t.Error("nothing was delivered")
				case !at.After(written) || at.Sub(written) > 100*time.Millisecond:
					t.Errorf("delivered %s after the response", at.Sub(written))
				}
				stop()
				hs.Close()
				<-served
			})
		})
	}
}
