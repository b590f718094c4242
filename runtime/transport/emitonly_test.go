package transport

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// timed is a shared store with what a process needs that emits nothing.
type timed struct{ engine.Shared }

func (timed) Durable() bool { return false }

func (timed) Now(context.Context) (time.Time, error) {
	return time.Now(), nil
}

// REP-21: what only emits is refused by carriers, without a panic.
func TestREP21EmitOnlyServesNothing(t *testing.T) {
	es, err := server.NewEmitOnly(server.Options{Store: timed{}, Replicas: replicas.New(replicas.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	near, _ := mcp.NewInMemoryTransports()
	if err := Run(t.Context(), es, near); !errors.Is(err, errEmitOnly) {
		t.Errorf("Run: %v", err)
	}
	w := httptest.NewRecorder()
	NewHandler(es, HandlerOptions{}).ServeHTTP(w, httptest.NewRequest("POST", "/mcp", nil))
	if w.Code != 501 {
		t.Errorf("handler: %d", w.Code)
	}
}
