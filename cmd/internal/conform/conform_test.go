package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/wrongserver"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// patient is the pace of judgements in real time. A busy machine may take a minute for anything right.
var patient = func() pace {
	p := realPace
	p.handshake, p.call, p.run = time.Minute, 2*time.Minute, 10*time.Minute
	return p
}()

// wrong returns the options to judge the wrong server with a fault, in a bubble.
func wrong(t *testing.T, f wrongserver.Fault) Options {
	n := &site{t: t}
	w := n.wrongOptions(f.Name)
	if f.Slow {
		w.Interval, w.Heartbeat = 5*time.Second, 15*time.Second
	}
	s := n.wrong(w)
	var o Options
	if f.Stdio {
		o = Options{Target: peer.Target{Command: []string{"wrong-server"}}, Wait: 20 * time.Second, AllowQuiet: true, process: n.process(s)}
	} else {
		o = n.options(s)
	}
	if f.Webhook {
		o.door = n.door(hookHost)
	}
	if f.Other || f.Webhook && f.Name == "" {
		o.OtherToken = other
	}
	o.SSRF, o.Slow = f.SSRF, f.Slow
	if f.Slow && f.Name == "retry-no-pause" {
		short := realSlow
		short.watch = time.Minute // else it makes ten thousand attempts
		p := realPace
		p.slow, o.pace = &short, &p
	}
	return o
}

// asProgram begins the last argument of this program when a test wants it to be a wrong server on standard input and
// output.
const asProgram = "wrong-server="

// wrongProgram is the command of one with a fault, or "asleep".
func wrongProgram(fault string) []string { return []string{os.Args[0], asProgram + fault} }

// TestMain is the wrong server on standard input and output when a test asks for it.
func TestMain(m *testing.M) {
	if fault, ok := strings.CutPrefix(os.Args[len(os.Args)-1], asProgram); ok {
		if fault == "asleep" {
			time.Sleep(time.Minute)
			os.Exit(0)
		}
		s := wrongserver.New(wrongserver.Options{Fault: fault, Interval: 40 * time.Millisecond,
			Heartbeat: 60 * time.Millisecond})
		s.ServeStdio(os.Stdin, os.Stdout)
		s.Close()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func judge(t *testing.T, o Options) *verdict.Report {
	t.Helper()
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestFaults judges the server with each fault, and without one. A check of a restart has tests of its own.
func TestFaults(t *testing.T) {
	t.Parallel()
	untried := func(c verdict.Check) bool { return c.Advice || slices.Contains(c.Flags, "--restart") }
	wrongserver.Try(t, wrongserver.Serving, Checks(), untried, func(t *testing.T, f wrongserver.Fault) *verdict.Report { return judge(t, wrong(t, f)) })
}

// text returns the whole report as text.
func text(report *verdict.Report) string {
	var b bytes.Buffer
	_ = report.WriteText(&b, true, func(_ verdict.Outcome, s string) string { return s })
	return b.String()
}

// Without a fault there is nothing to find, and little to skip.
func TestNoFault(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]wrongserver.Fault{"http": {Webhook: true, SSRF: true}, "stdio": {Stdio: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				report := judge(t, wrong(t, f))
				if report.Unfinished != nil {
					t.Error(report.Unfinished)
				}
				for _, found := range report.Findings {
					webhook := strings.Contains(found.Got, "--listen") || strings.Contains(found.Got, "webhook") ||
						strings.Contains(found.Got, "--ssrf")
					only := strings.HasPrefix(found.Got, "only for a server") || strings.HasPrefix(found.Got,
						"no descriptor has a fingerprint") || found.Got == "only with --slow" || found.Got == "only with --restart"
					if found.Outcome == verdict.Fail || found.Outcome == verdict.Skip && !only && !(f.Stdio && webhook) {
						t.Errorf("%+v", found)
					}
				}
			})
		})
	}
}

// A server that begins its event streams with a byte order mark is blamed for nothing (PUSH-11).
func TestByteOrderMark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &site{t: t}
		w := n.wrongOptions("")
		w.Marked = true
		report := judge(t, n.options(n.wrong(w)))
		if report.Failed+report.Advised > 0 || report.Passed < 50 {
			t.Error(text(report))
		}
	})
}

// A process is judged by its standard input and output.
func TestProcess(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]string{"": "", "stdout-lines": "CAP-8"} {
		o := Options{Target: peer.Target{Command: wrongProgram(fault)}, Wait: time.Second, AllowQuiet: true, pace: &patient,
			selectsCheck: func(c check) bool { return strings.HasPrefix(c.id, "CAP-") || strings.HasPrefix(c.id, "LIST-") }}
		blamed := ""
		for _, f := range judge(t, o).Findings {
			if f.Outcome == verdict.Fail {
				blamed += f.ID
			}
		}
		if blamed != want {
			t.Errorf("%q: %q is blamed", fault, blamed)
		}
	}
}

// A server that answers as the TypeScript SDK 1.x is not blamed for what it says before its handshake, nor for an id
// that no float64 holds (CAP-6). For its other answers it is.
func TestOlderEra(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"", "errors-no-id"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testOlderEra(t, fault) })
		})
	}
}

func testOlderEra(t *testing.T, fault string) {
	n := &site{t: t}
	inner := n.wrong(n.wrongOptions(fault))
	o := n.options(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var c struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		_ = json.Unmarshal(body, &c)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case c.Method == methodDiscover:
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}`)
		case string(c.ID) == "9007199254740993":
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error: Invalid JSON-RPC message"},"id":null}`)
		case c.Method == methodInitialize:
			io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(c.ID)+`,"result":{"protocolVersion":"`+wire.RevisionLegacy+`","capabilities":{"events":{}}}}`)
		case c.Method == "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
		default:
			r.Body = io.NopCloser(bytes.NewReader(body))
			inner.ServeHTTP(w, r)
		}
	}))
	o.selectsCheck = func(c check) bool { return c.id == "CAP-6" || c.id == "POLL-1" } // POLL-1 has errors
	report := judge(t, o)
	var blamed []string
	for _, f := range report.Findings {
		if f.Outcome == verdict.Fail {
			blamed = append(blamed, f.Name)
		}
	}
	named := slices.Contains(blamed, "response-id")
	if named != (fault != "") || !named && blamed != nil || report.Revision != wire.RevisionLegacy {
		t.Errorf("%q, %+v", blamed, report)
	}
}

// Two callbacks are compared where a server has webhooks alone (OCC-1, OCC-2, HOOK-1, HOOK-6).
func TestWebhooksAlone(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"", "event-id-of-reading"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testWebhooksAlone(t, fault) })
		})
	}
}

func testWebhooksAlone(t *testing.T, fault string) {
	n := &site{t: t}
	w := n.wrongOptions(fault)
	w.Change = func(message string, members map[string]any) {
		if message == wire.MethodList {
			members["events"] = slices.DeleteFunc(asList(members["events"]), func(d map[string]any) bool {
				d["delivery"] = []string{wire.ModeWebhook}
				return d["name"] != "tick"
			})
		}
	}
	o := n.options(n.wrong(w))
	o.door = n.door(hookHost)
	o.selectsCheck = func(c check) bool { return c.name == "subscribe" || c.needs&needWitness != 0 }
	passed := map[string]bool{}
	for _, f := range judge(t, o).Findings {
		passed[f.Name] = f.Outcome == verdict.Pass
		if blamed := f.Outcome == verdict.Fail; blamed && (fault == "" || f.ID != "OCC-2") {
			t.Errorf("%+v", f)
		}
	}
	if ids := "modes-event-id"; passed[ids] != (fault == "") {
		t.Errorf("%s: %v", ids, passed[ids])
	}
	for _, name := range []string{"modes-content", "modes-webhook",
		"delivery-once"} {
		if !passed[name] {
			t.Errorf("%s: did not pass", name)
		}
	}
}

// Tokens and secrets stay out of every form of the report.
func TestSecretsStayOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		report := judge(t, wrong(t, wrongserver.Fault{Name: "ttl-short-refused", Webhook: true}))
		var b bytes.Buffer
		_ = json.NewEncoder(&b).Encode(report)
		_ = report.WriteJUnit(&b)
		if !strings.Contains(b.String(), verdict.Redacted) {
			t.Error("no secret was in the report to be hidden")
		}
		if strings.Contains(b.String(), token) || strings.Contains(b.String(), "whsec_") {
			t.Errorf("a secret is in the report: %s", b.String())
		}
	})
}

// What is no MCP server with events is unreachable, in one clear line.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w,
			"<html>hello</html>")
	}))
	defer page.Close()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		_ = json.NewDecoder(r.Body).Decode(&c)
		w.Header().Set("Content-Type", "application/json")
		if c.Method == methodDiscover {
			io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(c.ID)+`,"result":{"capabilities":{"tools":{}}}}`)
			return
		}
		io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(c.ID)+`,"error":{"code":-32601,"message":"no"}}`)
	}))
	defer other.Close()
	redirect := httptest.NewServer(http.RedirectHandler(page.URL, http.StatusMovedPermanently))
	defer redirect.Close()
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer locked.Close()
	for url, want := range map[string]string{
		page.URL + "/x": "is not an MCP server: it answers 200 text/html", page.URL: "did you mean",
		other.URL:    "is an MCP server without events",
		redirect.URL: "redirects (301)", locked.URL: "give --token", "http://127.0.0.1:1/mcp": "refused",
	} {
		_, err := Run(t.Context(), Options{Target: peer.Target{URL: url}, Wait: time.Second, pace: &patient})
		if _, ok := err.(*Unreachable); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, command := range [][]string{{"no-such-command-of-mcpe-gen"}, {os.Args[0], "-test.run=^$"}} {
		_, err := Run(t.Context(), Options{Target: peer.Target{Command: command}, Wait: time.Second, pace: &patient})
		if _, ok := err.(*Unreachable); !ok {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// A process that does not read cannot hold a run up.
func TestUnreadRequest(t *testing.T) {
	t.Parallel()
	p, err := startProcess(wrongProgram("asleep"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	l := newStdioLink(p, 20*time.Millisecond, func(*flow, message) {})
	if err := l.write(bytes.Repeat([]byte("x"), 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
	l.kill()
	l.close()
}

// An interrupted run ends its subscriptions all the same.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		n := &site{t: t}
		inner := n.wrong(n.wrongOptions(""))
		var ended atomic.Bool
		o := n.options(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inner.ServeHTTP(w, r)
			switch r.Header.Get("Mcp-Method") {
			case wire.MethodSubscribe:
				interrupt()
			case wire.MethodUnsubscribe:
				ended.Store(true)
			}
		}))
		o.door = n.door(hookHost)
		report, err := Run(ctx, o)
		if err == nil || report == nil {
			t.Fatalf("%v, %v", report, err)
		}
		if !ended.Load() {
			t.Error("the subscription was not ended")
		}
	})
}
