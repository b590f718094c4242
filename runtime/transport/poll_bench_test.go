package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// discardWriter is a response that goes nowhere.
type discardWriter struct{ header http.Header }

func (w discardWriter) Header() http.Header         { return w.header }
func (w discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w discardWriter) WriteHeader(int)             {}
func (w discardWriter) Flush()                      {}

// An idle poll of a server with and without receiving middleware of its author, without sockets, with authentication and validation.
func BenchmarkPoll(b *testing.B) {
	for name, rigOf := range map[string]func(testing.TB, server.Options) *rig{"middleware": newRig, "plain": plainRig} {
		b.Run(name, func(b *testing.B) {
			g := rigOf(b, server.Options{})
			defer g.stop()
			h := bearer(NewHandler(g.es, HandlerOptions{}))
			m := modes[3]
			cursor := json.RawMessage(`null`)
			send := func(w http.ResponseWriter) {
				body := []byte(m.request(`7`, wire.MethodPoll, `{"name":"tick","arguments":{"channel":"a"},"cursor":`+string(cursor)+`}`))
				r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/mcp", io.NopCloser(bytes.NewReader(body)))
				r.ContentLength = int64(len(body))
				for k, v := range map[string]string{"Content-Type": contentTypeJSON, "Accept": "application/json, text/event-stream",
					headerVersion: m.version, headerMethod: wire.MethodPoll, "Authorization": "Bearer alice"} {
					r.Header.Set(k, v)
				}
				h.ServeHTTP(w, r)
			}
			rec := newRecorder()
			send(rec)
			env, _ := parseEnvelope(rec.message())
			if cursor = member(env.result, "cursor"); cursor == nil {
				b.Fatalf("%d %s", rec.status, rec.body.Bytes())
			}
			b.ReportAllocs()
			for b.Loop() {
				send(discardWriter{http.Header{}})
			}
		})
	}
}
