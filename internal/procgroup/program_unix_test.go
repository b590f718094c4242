//go:build unix

package procgroup

import (
	"bufio"
	"os"
	"testing"
	"time"
)

// A program that ignores SIGTERM is killed, with what it has started, and what reads its output comes to an end.
func TestEndStubborn(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := Start([]string{"sh", "-c", `trap "" TERM; sleep 1000 & echo ready; wait`}, nil, w, nil)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(r)
	if line, err := out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if p.HasEnded() {
		t.Error("it has ended before")
	}
	if p.End() {
		t.Error("it ended when it was asked to")
	}
	if !p.HasEnded() || p.Status() != "signal: killed" {
		t.Errorf("%s", p.Status())
	}
	_ = r.SetReadDeadline(time.Now().Add(time.Minute))
	if line, err := out.ReadString('\n'); err == nil || os.IsTimeout(err) {
		t.Errorf("what it started goes on: %q, %v", line, err)
	}
}
