package mcpe_test

import (
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// MCPE-DEL-2, MCPE-NOTE-4: what a listener took stays in the durable queue until it is written and
// flushed. A listener that is cut before loses nothing: the next one gets it.
func TestQueueIsSettledWhenWritten(t *testing.T) {
	bubbleWith(t, server.Options{Principal: as("alice")}, mcpe.Options{}, func(g *rig) {
		p := g.dial(modern)
		p.subscribe(`{"delivery":` + cron("@hourly", "") + `}`)
		p.HangUp()
		sleep(time.Second)
		g.emit("github.push", 1, 2)
		pending := func(want int) {
			t.Helper()
			q := g.dial(modern)
			defer q.HangUp()
			if l := q.list(`{}`); len(l) != 1 || *l[0].PendingEvents != want {
				t.Errorf("pending %d, want %d", *l[0].PendingEvents, want)
			}
		}
		// A listener takes everything and writes nothing.
		var taken []port.Message
		listener := func() (closed func()) {
			return port.Of(g.es).OpenOutlet(port.Outlet{Principal: "alice", Key: wire.MetaMCPE, Send: func(m port.Message) bool {
				taken = append(taken, m)
				return true
			}})
		}
		closed := listener()
		sleep(time.Hour)
		if len(taken) != 1 || taken[0].Written == nil {
			t.Fatalf("%d taken", len(taken))
		}
		pending(2)
		sleep(time.Hour) // another tick does not send it twice while that is open
		if len(taken) != 1 {
			t.Fatalf("%d taken", len(taken))
		}
		// It is cut.
		closed()
		taken[0].Written(false)
		sleep(time.Second)
		pending(2)
		// The next one gets the same and writes it.
		defer listener()()
		sleep(time.Second)
		if len(taken) != 2 || string(taken[1].Params) != string(taken[0].Params) {
			t.Fatalf("%d taken", len(taken))
		}
		taken[1].Written(true)
		sleep(time.Second)
		pending(0)
	})
}
