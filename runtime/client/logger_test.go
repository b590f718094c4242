package client

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
)

// Without a logger of their own, a client and the transport to a process log where the program does.
func TestDefaultLogger(t *testing.T) {
	var logged bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})))

	var o Options
	o.setDefaults()
	o.Logger.Warn("of the client")
	if !strings.Contains(logged.String(), "of the client") {
		t.Errorf("the client's logger is another: %q", logged.String())
	}
	conn, err := Command("echo", "no message").Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(context.Background()); err == nil {
		t.Error("a line that is no message was read as one")
	}
	_ = conn.Close()
	if !strings.Contains(logged.String(), "skipped a line of stdout") {
		t.Errorf("the process's logger is another: %q", logged.String())
	}
}
