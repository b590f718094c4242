package bridge

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/config"
)

// A woken agent gets notifications and does something at each.
type wokenAgent struct {
	mu     sync.Mutex
	events []string // of the notifications
	act    func(n int)
}

func (a *wokenAgent) notified(_ string, params json.RawMessage) {
	var m channelMessage
	if err := json.Unmarshal(params, &m); err != nil {
		panic(err)
	}
	a.mu.Lock()
	a.events = append(a.events, m.Meta["event"])
	n, act := len(a.events), a.act
	a.mu.Unlock()
	if act != nil && m.Meta["event"] != pausedEvent {
		act(n)
	}
}

// count is how many notifications of an event there were.
func (a *wokenAgent) count(event string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.events {
		if e == event {
			n++
		}
	}
	return n
}

func channelLoop(c *config.Config) {
	ofDone(c)
	c.Channel = true
	c.Limits.BatchesPerMinute = 6000
}

// BRIDGE-11: an agent that is woken by its own doings is woken so often and no more, which the inbox, standard error
// and events_subscriptions say. After a quiet time it is woken as before.
func TestBRIDGE11Loop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		agent := &wokenAgent{act: func(n int) {
			time.Sleep(5 * time.Second)
			h.emit("echo", n)
		}}
		b := h.start(t.TempDir(), channelLoop, agent.notified)
		settled()
		h.emit("m", 1)
		time.Sleep(time.Hour / 12)
		if n := agent.count("ci.done"); n != 30 {
			t.Errorf("%d wakes", n)
		}
		if n := agent.count(pausedEvent); n != 1 {
			t.Errorf("%d notices", n)
		}
		row := b.subscriptions()[0]
		if row.WakesPaused.IsZero() || !strings.Contains(b.said.String(), "30 wakes by ci ci.done followed each other within 10m0s") {
			t.Errorf("%+v, %s", row, b.said)
		}
		var box inboxResult
		if err := b.call("events_inbox", map[string]any{"subscription": bridgeName}, &box); err != nil || len(box.Batches) != 1 || box.Batches[0].Event != pausedEvent {
			t.Fatalf("%v, %+v", err, box)
		}
		var data map[string]string
		if err := json.Unmarshal(box.Batches[0].Events[0].Data, &data); err != nil || data["subscription"] != row.Subscription || !strings.Contains(data["text"], "mcpe-gen bridge resume") {
			t.Error(err, data)
		}
		agent.mu.Lock()
		agent.act = nil
		agent.mu.Unlock()
		time.Sleep(10 * time.Minute)
		if n := agent.count("ci.done"); n != 31 || !b.subscriptions()[0].WakesPaused.IsZero() {
			t.Errorf("%d wakes after the quiet time, with the one that was held back", n)
		}
		h.emit("m", 2)
		settled()
		if n := agent.count("ci.done"); n != 32 || !strings.Contains(b.said.String(), "wakes go on: nothing has come for a while") {
			t.Errorf("%d wakes, %s", n, b.said)
		}
		b.end()
	})
}

// BRIDGE-11: events that come although nothing is woken are no loop: the pause ends, and all of them are announced.
func TestBRIDGE11Stream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		agent := &wokenAgent{}
		b := h.start(t.TempDir(), channelLoop, agent.notified)
		settled()
		for i := range 100 {
			h.emit("m", i)
			time.Sleep(15 * time.Second)
		}
		time.Sleep(10 * time.Minute)
		if n := strings.Count(b.said.String(), "events come although nothing is woken"); n == 0 {
			t.Errorf("standard error has %s", b.said)
		}
		var box inboxResult
		if err := b.call("events_inbox", nil, &box); err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(box.Batches, func(r batchRow) bool { return !r.Announced }); i >= 0 {
			t.Errorf("%+v was not announced", box.Batches[i])
		}
		if n := agent.count("ci.done"); n < 50 {
			t.Errorf("%d notifications of 100 events", n)
		}
		b.end()
	})
}

// BRIDGE-11: a burst of many events, or few wakes over a long time, are no loop, and with loop: false nothing is.
func TestBRIDGE11NoLoop(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*config.Config)
		emit   func(h *house)
	}{
		"burst": {func(c *config.Config) { c.Limits.BatchesPerMinute, c.Limits.EventsPerBatch = 60, 1 }, func(h *house) {
			for i := range 200 {
				h.emit("m", i)
			}
		}},
		"seldom": {func(*config.Config) {}, func(h *house) {
			for i := range 100 {
				h.emit("m", i)
				time.Sleep(time.Minute)
			}
		}},
		"off": {func(c *config.Config) { c.Loop = nil }, func(h *house) {
			for i := range 100 {
				h.emit("m", i)
				time.Sleep(time.Second)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, nil)
				agent := &wokenAgent{}
				b := h.start(t.TempDir(), func(c *config.Config) { channelLoop(c); test.change(c) }, agent.notified)
				settled()
				test.emit(h)
				time.Sleep(time.Hour)
				if agent.count(pausedEvent) != 0 || strings.Contains(b.said.String(), "pause") {
					t.Error(b.said)
				}
				b.end()
			})
		})
	}
}

// BRIDGE-11: a command in a loop pauses too. The user lets it go on.
func TestBRIDGE11Command(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	t.Setenv(actVar, "command")
	t.Setenv(argVar, ran)
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		var o Options
		b := h.start(filepath.Join(dir, "state"), func(c *config.Config) {
			ofDone(c)
			c.Exec = &config.Exec{Command: []string{exe}, Timeout: patience, PerMinute: 600}
			c.Loop = &config.Loop{Wakes: 3, Within: time.Hour, Quiet: 24 * time.Hour}
			o.Config = c
		}, nil)
		o.State, o.meet = filepath.Join(dir, "state"), &h.meet
		settled()
		for i := range 5 {
			h.emit("m", i)
			settled()
		}
		lines := func() []string {
			text, err := os.ReadFile(ran)
			if err != nil {
				t.Fatal(err)
			}
			return strings.Fields(string(text))
		}
		want(t, lines(), "m0", "m1", "m2")
		var box inboxResult
		if err := b.call("events_inbox", nil, &box); err != nil || len(box.Batches) != 3 {
			t.Errorf("%v, %+v", err, box)
		}
		if resumed, err := Resume(t.Context(), o); err != nil || fmt.Sprint(resumed) != "[ci ci.done]" {
			t.Errorf("%q, %v", resumed, err)
		}
		settled()
		want(t, lines(), "m0", "m1", "m2", "m3", "m4")
		if resumed, err := Resume(t.Context(), o); err != nil || len(resumed) != 0 {
			t.Errorf("%q, %v", resumed, err)
		}
		b.end()
		if _, err := Resume(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no bridge runs that has the state in "+o.State) {
			t.Error(err)
		}
	})
}
