package bridge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/config"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// BRIDGE-4: a command that cannot start says nothing about its batch, which stays unread without a failure. When the
// command is there, it is run for the batch.
func TestBRIDGE4CommandAway(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	command, ran := filepath.Join(dir, "command"), filepath.Join(dir, "ran")
	if err := os.Symlink(exe, command); err != nil {
		t.Skip(err)
	}
	t.Setenv(actVar, "command")
	t.Setenv(argVar, ran)
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		b := h.start(filepath.Join(dir, "state"), func(c *config.Config) {
			ofDone(c)
			c.Exec = &config.Exec{Command: []string{command}, Timeout: patience, PerMinute: 600}
		}, nil)
		settled()
		if err := os.Remove(command); err != nil {
			t.Fatal(err)
		}
		h.emit("m", 1)
		time.Sleep(10 * time.Minute)
		var box inboxResult
		if err := b.call("events_inbox", nil, &box); err != nil {
			t.Fatal(err)
		}
		want(t, idsOf(box), "m1")
		if why := box.Batches[0].CommandFailed; why != "" {
			t.Errorf("the batch is given up: %s", why)
		}
		if said := b.said.String(); !strings.Contains(said, "cannot be started") {
			t.Errorf("standard error has %q", said)
		}
		if err := os.Symlink(exe, command); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		text, err := os.ReadFile(ran)
		if err != nil || strings.TrimSpace(string(text)) != "m1" {
			t.Errorf("the command was run for %q: %v", text, err)
		}
		box = inboxResult{}
		if err := b.call("events_inbox", nil, &box); err != nil || len(box.Batches) != 0 {
			t.Errorf("unread after the command has settled it: %v, %+v", err, box)
		}
		b.end()
	})
}

// BRIDGE-6, BRIDGE-7: an ID that is too long to be shown is cut, and two IDs with the same beginning stay two.
func TestBRIDGE7LongIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		b := h.start(t.TempDir(), ofDone, nil)
		settled()
		long := strings.Repeat("i", maxEventID+50)
		for _, end := range []string{"1", "2", "1"} {
			if err := h.done.Emit(t.Context(), run{N: len(end), Text: end}, events.WithID(long+end)); err != nil {
				t.Fatal(err)
			}
		}
		ids := b.wait(5, "quietSeconds", 2)
		if len(ids) != 2 || ids[0] == ids[1] {
			t.Fatalf("two events are shown as %q", ids)
		}
		for _, id := range ids {
			if len(id) > maxEventID+20 || !strings.HasPrefix(id, long[:maxEventID]) {
				t.Errorf("an ID of %d bytes: %s", len(id), id)
			}
		}
		b.end()
	})
}
