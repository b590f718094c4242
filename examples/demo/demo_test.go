package main

import (
	"os/exec"
	"testing"
)

// The demo is the end-to-end test with real processes over HTTP and stdio: it fails when an event is
// missing, doubled or not asked for, and when a program does not end in order.
func TestDemo(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "../github", "../watch", "../assistant", "../assistantclient", "../tickets", "../../runtime/internal/pgtest/throwaway").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := run(t.Context(), bin, "../github/testdata"); err != nil {
		t.Fatal(err)
	}
}
