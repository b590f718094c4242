package monitor_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream/internal/monitor"
)

// JS-43: Get decodes an answer, and returns a refusal as an error with the server's text.
func TestGet(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.UserAgent(), "mcpe-gen") {
			t.Errorf("asked by %q", r.UserAgent())
		}
		switch r.URL.Path {
		case "/jsz":
			io.WriteString(w, `{"disabled": true}`)
		case "/text":
			io.WriteString(w, "no JSON")
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, strings.Repeat("not current ", 1<<10))
		}
	}))
	t.Cleanup(s.Close)
	var v struct{ Disabled bool }
	if err := monitor.Get(t.Context(), s.URL+"/jsz", &v); err != nil || !v.Disabled {
		t.Errorf("got %+v, %v", v, err)
	}
	if err := monitor.Get(t.Context(), s.URL+"/text", nil); err != nil {
		t.Errorf("an answer that is not wanted: %v", err)
	}
	if err := monitor.Get(t.Context(), s.URL+"/text", &v); err == nil {
		t.Error("text was decoded")
	}
	err := monitor.Get(t.Context(), s.URL+"/healthz", nil)
	if err == nil || !strings.Contains(err.Error(), "503 Service Unavailable") || !strings.Contains(err.Error(), "not current") || len(err.Error()) > 400 {
		t.Errorf("got %v", err)
	}
}
