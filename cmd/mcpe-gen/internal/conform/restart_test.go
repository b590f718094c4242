package conform

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/conform/wrongserver"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A restart that loses in silence is named; one that loses and says so is advised.
func TestRestart(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(string, map[string]any)
		broken bool // the callback is not reached any more
		want   map[string]verdict.Outcome
	}{
		"forgets and says so": {change: func(message string, m map[string]any) {
			if message == wire.MethodPoll {
				m["truncated"] = true
			}
		}, want: map[string]verdict.Outcome{"CUR-1": verdict.Pass, "SRV-4": verdict.Advice, "SUB-11": verdict.Advice}},
		"forgets in silence": {change: func(message string, m map[string]any) {
			if message == wire.MethodPoll {
				m["truncated"], m["events"] = false, []any{}
			}
		}, want: map[string]verdict.Outcome{"CUR-1": verdict.Fail, "SUB-11": verdict.Advice}},
		"delivers nothing": {broken: true, want: map[string]verdict.Outcome{"SUB-11": verdict.Fail}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Wait: 10 * time.Second}
			patient := quick
			patient.settle = 2 * time.Second // what the server before had sent is there by then
			o.pace, o.Target.Token = &patient, token
			w := wrongserver.Options{Token: token, Interval: 40 * time.Millisecond, Heartbeat: 60 * time.Millisecond, Retry: time.Second}
			o.door, w.Client = door(t)
			w.AllowHost = strings.TrimPrefix(o.door.URL, "https://")
			var now atomic.Pointer[wrongserver.Server]
			start := func(w wrongserver.Options) {
				s := wrongserver.New(w)
				t.Cleanup(s.Close)
				if before := now.Swap(s); before != nil {
					before.Close()
				}
			}
			start(w)
			web := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) { now.Load().ServeHTTP(out, r) }))
			t.Cleanup(web.Close)
			o.Target.URL = web.URL
			o.restart = func() error {
				w.Change = tt.change
				if tt.broken {
					w.AllowHost = "nowhere.test"
				}
				start(w)
				return nil
			}
			o.only = func(c check) bool { return c.needs&needRestart != 0 || c.id == "SUB-1" }
			report := judge(t, o)
			for id, want := range tt.want {
				i := slices.IndexFunc(report.Findings, func(f verdict.Finding) bool { return f.ID == id })
				if f := report.Findings[i]; f.Outcome != want {
					t.Errorf("%s: %+v", want, f)
				}
			}
		})
	}
}

// The command of a restart runs by the shell, and one that fails or does not end is no restart.
func TestRestartCommand(t *testing.T) {
	t.Parallel()
	r := &run{o: Options{pace: &pace{slow: &slowPace{back: 300 * time.Millisecond}}}}
	for command, want := range map[string]string{"exit 0": "", "exit 3": "exit status 3", "sleep 60": "did not end within"} {
		r.o.Restart = command
		if err := r.runRestart(t.Context()); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", command, err)
		}
	}
}
