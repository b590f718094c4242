package listen

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/eventstest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
)

// A screen is written and read by several goroutines.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// BRIDGE-4: events that are about the same thing are one line, with their count; the run ends with its count of events.
func TestBursts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		es := eventstest.NewServer(t)
		push := eventstest.Register[json.RawMessage](t, es, "push")
		c := eventstest.NewClient(t, es)
		var out, log screen
		o := Options{Target: peer.Target{Command: []string{"server"}}, Mode: "auto", Print: true, Count: 5, Stdout: &out, Stderr: &log,
			Burst: Burst{Key: []string{"/ref"}, Quiet: 10, Max: 30}}
		ended := make(chan error)
		go func() {
			ended <- o.consume(t.Context(), c.Client, clientmemory.NewCursors(), client.Descriptor{Name: "push"}, nil)
		}()
		synctest.Wait()
		for _, ref := range []string{"a", "b", "a", "a"} {
			eventstest.Emit(t, push, json.RawMessage(`{"ref":"`+ref+`"}`))
			time.Sleep(2 * time.Second)
		}
		if synctest.Wait(); out.String() != "" {
			t.Errorf("before it was quiet: %s", out.String())
		}
		time.Sleep(15 * time.Second)
		eventstest.Emit(t, push, json.RawMessage(`{"ref":"c"}`))
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for i, want := range []string{`"count":1,"untrusted":true,"data":{"ref":"b"}}`, `"count":3,"untrusted":true,"data":{"ref":"a"}}`, `"count":1,"untrusted":true,"data":{"ref":"c"}}`, ""} {
			if lines := strings.Split(out.String(), "\n"); i >= len(lines) || !strings.HasSuffix(lines[i], want) {
				t.Errorf("line %d is not %s:\n%s", i, want, out.String())
			}
		}
		if !strings.Contains(log.String(), "push by push from server\n5 events, ") {
			t.Errorf("%q", log.String())
		}
	})
}

// BRIDGE-4: with --print gaps and errors are not on standard output.
func TestPrintsEventsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		es := eventstest.NewServer(t)
		eventstest.Register[json.RawMessage](t, es, "push")
		c := eventstest.NewClient(t, es)
		var out, log bytes.Buffer
		o := Options{Target: peer.Target{Command: []string{"server"}}, Mode: "push", Print: true, Count: 1, Stdout: &out, Stderr: &log, Burst: Burst{Quiet: -1}}
		ended := make(chan error)
		go func() {
			ended <- o.consume(t.Context(), c.Client, clientmemory.NewCursors(), client.Descriptor{Name: "push"}, nil)
		}()
		synctest.Wait()
		c.Gap("push")
		synctest.Wait()
		c.Inject(events.Occurrence{Name: "push", ID: "1", Raw: json.RawMessage(`{}`)})
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if strings.Count(out.String(), "\n") != 1 || !strings.Contains(log.String(), "-- gap") {
			t.Errorf("%q, %q", &out, &log)
		}

		ended = make(chan error)
		o.Stdout = full{}
		go func() {
			ended <- o.consume(t.Context(), c.Client, clientmemory.NewCursors(), client.Descriptor{Name: "push"}, nil)
		}()
		synctest.Wait()
		c.Inject(events.Occurrence{Name: "push", ID: "2", Raw: json.RawMessage(`{}`)})
		if err := <-ended; !errors.Is(err, errFull) {
			t.Error("nobody reads what is printed:", err)
		}
	})
}

// A full takes nothing.
type full struct{}

var errFull = errors.New("full")

func (full) Write([]byte) (int, error) { return 0, errFull }

// BRIDGE-6: a line of --print is bounded and escaped, whatever the event has, and is JSON.
func TestPrintedLine(t *testing.T) {
	quote := func(s string) json.RawMessage {
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	hostile := strings.Repeat("\u202e\x1b\u009b\"\u2028\U000e0001é", 5000)
	for _, data := range []json.RawMessage{nil, quote("\x1b[2J"), quote(hostile), quote(hostile[:900]), quote(strings.Repeat("x", 3900)), quote(strings.Repeat("x", 1<<20)), quote(strings.Repeat("\u2028", 1300))} {
		for _, name := range []string{"push", hostile} {
			text, err := printedLine(events.Occurrence{Name: name, ID: name, Raw: data}, 3)
			if err != nil {
				t.Fatal(err)
			}
			var p printedEvent
			if err := json.Unmarshal(text, &p); err != nil || len(text) > maxPrinted {
				t.Fatalf("%d bytes, %v: %.300s", len(text), err, text)
			}
			if strings.IndexFunc(strings.TrimSuffix(string(text), "\n"), plain.Hidden) >= 0 {
				t.Errorf("not escaped: %.300q", text)
			}
			if p.Data == nil && data != nil && (p.Bytes != len(data) || p.Beginning == "" || !strings.HasPrefix(string(data), p.Beginning)) {
				t.Errorf("%d bytes: %.300s", len(data), text)
			}
			if len(data) < 100 && (!p.Untrusted || p.Count != 3 || p.Bytes != 0) {
				t.Errorf("%s", text)
			}
		}
	}
}

// What the command line does not say about bursts the event type does.
func TestBurstOption(t *testing.T) {
	said := map[string]any{wire.MetaCoalesce: map[string]any{"key": []string{"/a"}, "quietSeconds": 3, "maxSeconds": 9, "keep": "latest"}}
	broken := map[string]any{wire.MetaCoalesce: "always"}
	for _, test := range []struct {
		meta   map[string]any
		burst  Burst
		joined bool
		err    string
	}{
		{nil, Burst{Quiet: -1}, false, ""},
		{nil, Burst{Quiet: 0}, false, ""},
		{nil, Burst{Quiet: 5}, false, "by --key"},
		{nil, Burst{Quiet: -1, Max: 5}, false, "by --key"},
		{nil, Burst{Quiet: -1, Key: []string{"/a"}}, false, "--quiet-seconds"},
		{nil, Burst{Quiet: 5, Key: []string{"/a"}}, true, ""},
		{said, Burst{Quiet: -1}, true, ""},
		{said, Burst{Quiet: 0}, false, ""},
		{said, Burst{Quiet: 60}, true, ""},
		{broken, Burst{Quiet: -1}, false, "--quiet-seconds 0"},
		{broken, Burst{Quiet: 0}, false, ""},
		{broken, Burst{Quiet: 5, Key: []string{"/a"}}, true, ""},
	} {
		option, err := test.burst.subscribeOption(client.Descriptor{Name: "push", Meta: test.meta})
		if (option != nil) != test.joined || (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%v %+v: %v, %v", test.meta, test.burst, option != nil, err)
		}
	}
}
