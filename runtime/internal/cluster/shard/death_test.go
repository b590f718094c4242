package shard

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A logged is the log of a replica.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// lines returns the lines since the last call, without their times.
func (l *logged) lines() (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), " ")
		lines = append(lines, line)
	}
	l.text.Reset()
	return lines
}

// REP-6, REP-9: the survivors of a crash log one warning each, and one line for the shards that they take over. A replica
// that shuts down has not died, and neither have replicas whose leases a new epoch has ended.
func TestREP9DeathsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var replicas []*replica
		var logs []*logged
		for i := range 3 {
			r, l := w.replica(i, 1, nil), &logged{}
			r.owner.o.Logger = slog.New(slog.NewTextHandler(l, nil))
			replicas, logs = append(replicas, r), append(logs, l)
			r.start()
			time.Sleep(5 * time.Second)
			if got := l.lines(); i == 0 && !slices.Equal(got, []string{`level=INFO msg="mcp events: this process takes over shards" replica=r0 shards=7 topics="/outbox event"`}) {
				t.Errorf("the first: %q", got)
			}
		}
		time.Sleep(30 * time.Second)
		check := func(what string, took int, want ...string) {
			t.Helper()
			time.Sleep(20 * time.Second)
			for i, l := range logs {
				n, got := 0, ""
				for _, line := range l.lines() {
					if strings.Contains(line, "takes over shards") {
						n++
					} else {
						got += line
					}
				}
				if !strings.HasPrefix(got, want[i]) || want[i] == "" && got != "" || strings.Count(got, "level=") > 1 || took >= 0 && want[i] != "" && n != took {
					t.Errorf("%s: r%d logs %q and %d lines of shards, want %q and %d", what, i, got, n, want[i], took)
				}
			}
		}
		for _, l := range logs {
			l.lines()
		}
		replicas[2].dead = true
		replicas[2].stop()
		logs = logs[:2]
		const died = `level=WARN msg="mcp events: a replica has died or is cut off: its lease expired, and its shards are taken over" replica=r2 shards=2`
		check("r2 crashes", 1, died, died)
		w.c.mu.Lock()
		clear(w.c.leases)
		w.c.mu.Unlock()
		const lost = `level=WARN msg="mcp events: the lease is lost" `
		check("all leases have ended", -1, lost, lost)
		if err := replicas[1].owner.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		check("r1 shuts down", -1, "", `level=INFO msg="mcp events: this process has left the cluster" replica=r1`)
		for _, r := range replicas {
			r.stop()
			<-r.owner.ended
		}
	})
}
