package conform

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/wrongserver"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// TestLimit judges a server that answers each poll after 8 s: the run's limit ends it, and the report says so, and
// which request had no answer (POLL-1).
func TestLimit(t *testing.T) {
	t.Parallel()
	for _, slow := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := &site{t: t}
			inner := n.wrong(n.wrongOptions(""))
			o := n.options(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if r.Body = io.NopCloser(bytes.NewReader(body)); r.Header.Get("Mcp-Method") == wire.MethodPoll {
					pause(r.Context(), 8*time.Second)
				}
				inner.ServeHTTP(w, r)
			}))
			o.Slow = slow
			report := judge(t, o)
			if u := report.Unfinished; u == nil || u.Reason != "its limit of 1m50s ended the run" || !strings.Contains(u.Request, `"method":"events/poll"`) ||
				report.Unjudged == 0 {
				t.Errorf("%d not judged, %+v", report.Unjudged, u)
			}
			for _, f := range report.Findings {
				if strings.Contains(f.Got, "run ended") != (f.Outcome == "unjudged") {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

// TestQuiet judges a right server without events: each mode is unjudged, unless that is allowed or a command emits. A
// command that fails is named.
func TestQuiet(t *testing.T) {
	t.Parallel()
	const quiet = "no event of tick occurred within 20s; --emit can cause one"
	for name, tt := range map[string]struct {
		change func(*Options, *wrongserver.Server)
		says   string
		passes bool // checks that need an event
	}{
		"quiet":   {says: quiet + " (--allow-quiet accepts that); no event of tick was delivered within 20s; --emit can cause one (--allow-quiet accepts that)"},
		"allowed": {change: func(o *Options, _ *wrongserver.Server) { o.AllowQuiet = true }},
		"deaf":    {change: func(o *Options, s *wrongserver.Server) { o.door, o.emit = nil, emitTicks(s) }, says: "webhooks need a receiver: --listen (--allow-quiet accepts that)", passes: true},
		"emits":   {change: func(o *Options, s *wrongserver.Server) { o.emit = emitTicks(s) }, passes: true},
		"fails": {change: func(o *Options, _ *wrongserver.Server) {
			o.emit, o.door = func(context.Context, string, int) error { return errors.New("exit status 3") }, nil
			o.selectsCheck = func(c check) bool { return c.name == "poll-occurrence" }
		}, says: quiet + "; --emit for hook: exit status 3 (--allow-quiet accepts that)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := &site{t: t}
				w := n.wrongOptions("")
				w.Interval = 0
				s := n.wrong(w)
				o := n.options(s)
				o.AllowQuiet, o.door = false, n.door(hookHost)
				if tt.change != nil {
					tt.change(&o, s)
				}
				report := judge(t, o)
				if u := report.Unfinished; (u != nil) != (tt.says != "") || u != nil && u.Reason != tt.says {
					t.Errorf("unfinished: %v", u)
				}
				passed := slices.ContainsFunc(report.Findings, func(f verdict.Finding) bool { return f.Name == "modes-content" && f.Outcome == verdict.Pass })
				if passed != tt.passes || report.Failed+report.Advised > 0 {
					t.Error(text(report))
				}
			})
		})
	}
}

// emitTicks returns the emit command of a server that emits only ticks.
func emitTicks(s *wrongserver.Server) func(context.Context, string, int) error {
	return func(_ context.Context, name string, n int) error {
		if name == "tick" {
			s.Emit(n)
		}
		return nil
	}
}

// TestUntried judges servers of which nothing can be tried: no event types, or webhooks without a receiver (LIST-1,
// SUB-1).
func TestUntried(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]string{"no event types": "", "webhooks without a receiver": wire.ModeWebhook} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := &site{t: t}
				w := n.wrongOptions("")
				w.Change = func(message string, members map[string]any) {
					if message == wire.MethodList {
						members["events"] = slices.DeleteFunc(asList(members["events"]), func(d map[string]any) bool {
							d["delivery"] = []string{keep}
							return keep == ""
						})
					}
				}
				report := judge(t, n.options(n.wrong(w)))
				if u := report.Unfinished; u == nil || u.Reason != "no delivery mode of an event type was tried" || report.Unjudged > 0 {
					t.Errorf("%d not judged, %+v\n%s", report.Unjudged, u, text(report))
				}
			})
		})
	}
}

// TestNeverHeld judges a server of which something occurs whenever a poll asks to be held: what is not tried does not
// pass (POLL-9).
func TestNeverHeld(t *testing.T) {
	t.Parallel()
	for _, stdio := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := &site{t: t}
			w := n.wrongOptions("")
			w.Busy = true
			o := n.options(n.wrong(w))
			if stdio {
				w.Fault = "cancelled-streams-go-on" // and so do polls, which are answered before
				o = Options{Target: peer.Target{Command: []string{"wrong-server"}}, Wait: 20 * time.Second, AllowQuiet: true, process: n.process(n.wrong(w))}
			}
			o.Event = "tick"
			o.selectsCheck = func(c check) bool {
				return slices.Contains([]string{"held-cancel", "held-timeout"}, c.name)
			}
			for _, f := range judge(t, o).Findings {
				if f.Outcome != verdict.Skip {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}
