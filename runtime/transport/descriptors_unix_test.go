//go:build unix

package transport

import (
	"bytes"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// CAP-7: a server whose process may have fewer descriptors open than one caller may have requests says so at its start,
// with both numbers and what to do; one with enough, or without a bound, says nothing.
func TestCAP7FewDescriptors(t *testing.T) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	lower := before
	lower.Cur = 500
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lower); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}()
	g := newRig(t, server.Options{})
	defer g.stop()
	for most, warns := range map[int]bool{0: true, 450: true, 400: false, -1: false} {
		var b bytes.Buffer
		NewHandler(g.es, HandlerOptions{MaxOpen: most, Logger: slog.New(slog.NewTextHandler(&b, nil))})
		said := b.String()
		if (said != "") != warns || warns && (!strings.Contains(said, "500 descriptors") || !strings.Contains(said, "LimitNOFILE")) {
			t.Errorf("MaxOpen %d: %q", most, said)
		}
	}
}
