package main

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign"
)

// TestPauses measures how long writes of a stream stall when its leader ends, on which the store relies (JS-35). A
// lease of less than 25 s, about which the store warns, may not outlast that. After a graceful shutdown, no write
// waits for an election, which takes at least 4 s. The plain client shows it.
func TestPauses(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	s, err := newServers(ctx, program, t.ArtifactDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	// pause calls what on the leader and returns the time until the next write is acknowledged.
	pause := func(t *testing.T, what func(leader *node) error) time.Duration {
		t.Helper()
		if err := s.waitHealthy(ctx); err != nil {
			t.Fatal(err)
		}
		d := &database{servers: s}
		conn, err := nats.Connect(s.directURLs())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if d.js, err = js.New(conn); err != nil {
			t.Fatal(err)
		}
		if err := d.createPlainStream(ctx); err != nil {
			t.Fatal(err)
		}
		leader := d.leaderIndex(ctx, plainStream)
		if leader < 0 {
			t.Fatal("nobody says who leads the stream")
		}
		other, err := nats.Connect("nats://" + s.nodes[(leader+1)%nodeCount].client) // which keeps running
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if d.js, err = js.New(other); err != nil {
			t.Fatal(err)
		}
		write := func() error {
			bound, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
			defer cancel()
			_, err := d.js.Publish(bound, "plain.x", nil)
			return err
		}
		for end := time.Now().Add(recoveryTimeout); ; {
			err := write()
			if err == nil {
				break
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
		from := time.Now()
		if err := what(s.nodes[leader]); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(recoveryTimeout); ; {
			err := write()
			if err == nil {
				return time.Since(from)
			}
			if time.Now().After(end) {
				t.Fatalf("no write is acknowledged: %v", err)
			}
		}
	}
	const lease = 25 * time.Second
	t.Run("killed", func(t *testing.T) {
		var dead *node
		d := pause(t, func(leader *node) error { dead = leader; leader.kill(); return nil })
		t.Log("writes stood still for", d)
		if d > lease {
			t.Errorf("writes stood still for %v", d)
		}
		if err := dead.start(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		var still *node
		d := pause(t, func(leader *node) error { still = leader; return campaign.Pause(leader.cmd.Process) })
		t.Log("writes stood still for", d)
		if d > lease {
			t.Errorf("writes stood still for %v", d)
		}
		if err := campaign.Resume(still.cmd.Process); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("ended in order", func(t *testing.T) {
		var least time.Duration
		for range 5 { // on a busy machine they may wait as well
			var ended *node
			d := pause(t, func(leader *node) error { ended = leader; return leader.shutDown() })
			t.Log("writes stood still for", d)
			if err := ended.start(); err != nil {
				t.Fatal(err)
			}
			if least == 0 || d < least {
				least = d
			}
			if least < 4*time.Second {
				return
			}
		}
		t.Errorf("writes stood still for %v", least)
	})
}
