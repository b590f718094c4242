package webhook

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
)

// Without a logger of its own a receiver logs where the program does.
func TestDefaultLogger(t *testing.T) {
	var logged bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})))

	r, e := newReceiver(t, ReceiverOptions{})
	req := httptest.NewRequest("POST", e.Path(), strings.NewReader("{}"))
	req.Header.Set("Content-Type", "application/json")
	r.ServeHTTP(httptest.NewRecorder(), req)
	if logged.Len() == 0 {
		t.Error("what was refused is not logged")
	}
}
