package conform

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
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
			synctest.Test(t, func(t *testing.T) {
				n := &site{t: t}
				w := n.wrongOptions("")
				now := n.wrong(w)
				o := n.options(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) { now.ServeHTTP(out, r) }))
				o.door = n.door(hookHost)
				o.restart = func(context.Context) error {
					w.Change = tt.change
					if tt.broken {
						w.AllowHost = "nowhere.test"
					}
					now.Close()
					now = n.wrong(w)
					return nil
				}
				o.selectsCheck = func(c check) bool { return c.needs&needRestart != 0 || c.id == "SUB-1" }
				report := judge(t, o)
				for id, want := range tt.want {
					i := slices.IndexFunc(report.Findings, func(f verdict.Finding) bool { return f.ID == id })
					if f := report.Findings[i]; f.Outcome != want {
						t.Errorf("%s: %+v", want, f)
					}
				}
			})
		})
	}
}

// The command of a restart runs by the shell, and one that fails or does not end is no restart.
func TestRestartCommand(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{"exit 0": "", "exit 3": "exit status 3", "sleep 60": "did not exit within"} {
		back := time.Minute
		if strings.HasPrefix(command, "sleep") {
			back = 20 * time.Millisecond // in which nothing is to come
		}
		if err := runShell(t.Context(), command, back); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", command, err)
		}
	}
}
