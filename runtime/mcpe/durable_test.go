package mcpe_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// MCPE-DEL-6: subscriptions, queues and schedules live over a restart; what was missed meanwhile is
// delivered once, when the client is there again, and what was emitted and not yet queued is not
// lost.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "mcpe.db")
		start := func() (*rig, *sqlite.Store) {
			db, err := sqlite.Open(t.Context(), path, sqlite.Options{Synchronous: sqlite.Normal})
			if err != nil {
				t.Fatal(err)
			}
			return newRig(t, server.Options{Principal: as("ann"), Store: db}, mcpe.Options{Store: db}), db
		}
		g, db := start()
		p := g.dial(legacy)
		s := p.subscribe(`{"filter":{"eventTypes":["github.*"]},"delivery":` + cron("@hourly", "") + `}`)
		sleep(time.Millisecond)
		paused := p.subscribe(`{"filter":{"eventTypes":["slack.*"]},"delivery":` + cron("@daily", "") + `}`)
		sleep(time.Millisecond)
		once := p.subscribe(`{"delivery":{"scheduledDelivery":{"deliverAt":"2000-01-02T00:00:00Z"}},"filter":{"eventTypes":["slack.*"]}}`)
		g.emit("github.push", 1)
		g.emit("slack.message", 9)
		p.want("")
		p.ok("events_pause", `{"subscriptionId":"`+paused.ID+`"}`, nil)
		g.stop()
		db.Close()

		time.Sleep(5*time.Hour + 30*time.Minute) // five runs are missed
		g, db = start()
		synctest.Wait()
		g.emit("github.push", 2)
		sleep(time.Second)
		p = g.dial(legacy)
		l := p.list(`{}`)
		if len(l) != 3 || l[0].ID != s.ID || l[1].Status != "paused" || l[2].ID != once.ID {
			t.Fatalf("list %+v", l)
		}
		if l[0].NextRun != "2000-01-01T06:00:00.000Z" || l[2].NextRun != "2000-01-02T00:00:00.000Z" || *l[1].PendingEvents != 1 {
			t.Errorf("list %+v", l)
		}
		p.want("batch(1,2)")
		sleep(30 * time.Minute)
		p.want("")
		g.emit("github.push", 3)
		sleep(time.Hour)
		p.want("batch(3)")
		sleep(18 * time.Hour)
		p.want("batch(9) subscription_expired()")
		p.ok("events_resume", `{"subscriptionId":"`+paused.ID+`"}`, nil)
		p.want("batch(9)")
		g.stop()
		db.Close()

		g, db = start()
		p = g.dial(legacy)
		if l := p.list(`{"status":"expired"}`); len(l) != 1 || l[0].ID != once.ID {
			t.Errorf("list %+v", l)
		}
		for _, s := range p.list(`{}`) {
			p.ok("events_unsubscribe", `{"subscriptionId":"`+s.ID+`"}`, nil)
		}
		g.stop()
		rows, err := db.Schedules(context.Background(), "", 10)
		if err != nil || len(rows) != 0 {
			t.Errorf("left in the store: %+v, %v", rows, err)
		}
		db.Close()
	})
}

// MCPE-DEL-6: what happened to a subscription that did not exist yet is not delivered to it after a
// restart.
func TestRestartGivesNothingFromBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "mcpe.db")
		for round := range 2 {
			db, err := sqlite.Open(t.Context(), path, sqlite.Options{Synchronous: sqlite.Normal})
			if err != nil {
				t.Fatal(err)
			}
			g := newRig(t, server.Options{Principal: as("ann"), Store: db}, mcpe.Options{Store: db})
			p := g.dial(legacy)
			if round == 0 {
				p.subscribe(`{"filter":{"tags":["none"]},"delivery":` + cron("@hourly", "") + `}`)
				g.emit("github.push", 1)
				p.got()
				p.subscribe(`{"delivery":` + cron("@hourly", "") + `}`)
				g.emit("github.push", 2)
				p.got()
			} else {
				p.list(`{}`)
				sleep(time.Hour)
				p.want("batch(2)")
			}
			g.stop()
			db.Close()
		}
	})
}
