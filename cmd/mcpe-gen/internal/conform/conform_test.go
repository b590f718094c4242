package conform

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/conform/wrongserver"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

const token, other = "the-token-of-the-test", "the-other-token-of-the-test"

// quick is the pace of a server that has something to say every few milliseconds. Nothing that is right
// may be too slow for it on a busy machine, so what waits for something to come waits long.
var quick = pace{heartbeat: 10 * time.Second, settle: 300 * time.Millisecond, quiet: 300 * time.Millisecond,
	poll: 10 * time.Millisecond, arrive: 2 * time.Second, retry: 600 * time.Millisecond, hang: 2 * time.Second,
	run: 4 * time.Minute, slow: &slowQuick}

// slowQuick lets a grant of five seconds end, and a few attempts be made.
var slowQuick = slowPace{run: 2 * time.Minute, watch: 6 * time.Second, many: 20, grant: 10 * time.Second, late: 2 * time.Second, hold: 3 * time.Second,
	back: 10 * time.Second, resume: 3 * time.Second}

// wrong starts the wrong server with a fault and returns how to judge it.
func wrong(t *testing.T, f wrongserver.Fault) Options {
	t.Helper()
	o := Options{Wait: 10 * time.Second, pace: &quick, Target: peer.Target{Token: token}, SSRF: f.SSRF}
	if f.Other || f.Webhook && f.Name == "" {
		o.OtherToken = other
	}
	w := wrongserver.Options{Fault: f.Name, Token: token, Other: other, Interval: 40 * time.Millisecond,
		Heartbeat: 60 * time.Millisecond, Retry: time.Second}
	if f.Slow {
		short := quick
		short.heartbeat = 3 * time.Second
		o.Slow, o.pace, w.Grace = true, &short, 2*time.Second
	}
	if f.Quiet {
		w.Interval = 300 * time.Millisecond // in which a busy machine polls twice
	}
	if f.ID == "HOOK-6" { // what is refused waits while others are delivered, and looked at, on a busy machine
		short := quick
		short.quiet = 2 * time.Second
		o.pace, w.Retry = &short, 4*time.Second
	}
	if f.Webhook {
		o.door, w.Client = door(t)
		w.AllowHost = strings.TrimPrefix(o.door.URL, "https://")
	}
	if f.Stdio {
		o.Target = peer.Target{Command: wrongProgram(f.Name)}
		return o
	}
	s := wrongserver.New(w)
	t.Cleanup(s.Close)
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	o.Target.URL = web.URL
	return o
}

// door is an open receiver and a client that trusts it.
func door(t *testing.T) (*peer.Door, *http.Client) {
	t.Helper()
	web := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	d := &peer.Door{Listener: l, TLS: &tls.Config{Certificates: web.TLS.Certificates},
		URL: "https://" + l.Addr().String()}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	return d, &http.Client{Transport: transport}
}

// asProgram begins the last argument of this program when a test wants it to be a wrong server on standard input and output.
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
	// A judgement waits more than it works. -parallel wins over this.
	if err := flag.Set("test.parallel", "20"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func judge(t *testing.T, o Options) *verdict.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	report, err := Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// Each fault is named by its requirement, and every check is broken by a fault, so that none passes whatever a server does.
func TestFaults(t *testing.T) {
	t.Parallel()
	if len(wrongserver.Faults) < 25 {
		t.Fatalf("%d faults", len(wrongserver.Faults))
	}
	var mu sync.Mutex
	broken := map[string]bool{}
	t.Run("each", func(t *testing.T) {
		for _, f := range wrongserver.Faults {
			t.Run(f.Name, func(t *testing.T) {
				t.Parallel()
				o := wrong(t, f)
				if f.ID == "PUSH-4" {
					short := quick
					short.heartbeat = 2 * time.Second
					o.pace = &short
				}
				// SUB-1 makes the subscription that others are tried on, POLL-1 and POLL-6 have errors of the families.
				o.only = func(c check) bool { return c.id == f.ID || c.id == "SUB-1" || c.id == "POLL-1" || c.id == "POLL-6" }
				if f.Slow {
					o.only = func(c check) bool { return c.id == f.ID && c.needs&needSlow != 0 || c.id == "SUB-1" }
				}
				report := judge(t, o)
				named := false
				for _, found := range report.Findings {
					if found.Outcome != verdict.Fail && found.Outcome != verdict.Advice || found.ID != f.ID {
						continue
					}
					if found.Expected == "" || found.Got == "" || found.Request == "" && found.Answer == "" && f.Name != "no capability" {
						t.Errorf("a finding that does not say what is wrong: %+v", found)
					}
					mu.Lock()
					broken[found.ID+" "+found.Title] = true
					mu.Unlock()
					named = true
				}
				if !named {
					var b bytes.Buffer
					_ = report.WriteText(&b, true, func(_ verdict.Outcome, s string) string { return s })
					t.Errorf("%s was not found:\n%s", f.ID, b.String())
				}
			})
		}
	})
	if flag.Lookup("test.run").Value.String() == "" || strings.HasSuffix(flag.Lookup("test.run").Value.String(), "TestFaults") {
		for _, c := range checks() {
			if !c.advice && c.needs&needRestart == 0 && !broken[c.id+" "+c.title] {
				t.Errorf("%s, %s: no fault breaks it", c.id, c.title)
			}
		}
	}
}

// Without a fault there is nothing to find, and little to skip.
func TestNoFault(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]wrongserver.Fault{"http": {Webhook: true, SSRF: true}, "stdio": {Stdio: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, found := range judge(t, wrong(t, f)).Findings {
				webhook := strings.Contains(found.Got, "--listen") || strings.Contains(found.Got, "webhook") ||
					strings.Contains(found.Got, "--ssrf")
				only := strings.HasPrefix(found.Got, "only for a server") || strings.HasPrefix(found.Got,
					"no descriptor has a fingerprint") || found.Got == "only with --slow" || found.Got == "only with --restart"
				if found.Outcome == verdict.Fail || found.Outcome == verdict.Skip && !only && !(f.Stdio && webhook) {
					t.Errorf("%+v", found)
				}
			}
		})
	}
}

// A server that answers as the TypeScript SDK 1.x is not blamed for what it says before its handshake, nor for an id that no
// float64 holds (CAP-6). For its other answers it is.
func TestOlderEra(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"", "errors have no id"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			inner := wrongserver.New(wrongserver.Options{Fault: fault, Interval: 40 * time.Millisecond, Heartbeat: 60 * time.Millisecond})
			t.Cleanup(inner.Close)
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
			t.Cleanup(web.Close)
			// POLL-1 has errors.
			report := judge(t, Options{Wait: 10 * time.Second, pace: &quick, Target: peer.Target{URL: web.URL},
				only: func(c check) bool { return c.id == "CAP-6" || c.id == "POLL-1" }})
			var blamed []string
			for _, f := range report.Findings {
				if f.Outcome == verdict.Fail {
					blamed = append(blamed, f.Title)
				}
			}
			named := slices.Contains(blamed, "every answer has the id of its request")
			if named != (fault != "") || !named && blamed != nil || report.Revision != wire.RevisionLegacy {
				t.Errorf("%q, %+v", blamed, report)
			}
		})
	}
}

// Two callbacks are compared where a server has webhooks alone (OCC-1, OCC-2, HOOK-1, HOOK-6).
func TestWebhooksAlone(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"", "eventIds are made at each reading"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			d, client := door(t)
			s := wrongserver.New(wrongserver.Options{Fault: fault, Token: token, Client: client, AllowHost: strings.TrimPrefix(d.URL, "https://"),
				Interval: 40 * time.Millisecond, Heartbeat: 60 * time.Millisecond, Retry: time.Second,
				Change: func(message string, members map[string]any) {
					if message == wire.MethodList {
						members["events"] = slices.DeleteFunc(asList(members["events"]), func(d map[string]any) bool {
							d["delivery"] = []string{wire.ModeWebhook}
							return d["name"] != "tick"
						})
					}
				}})
			t.Cleanup(s.Close)
			web := httptest.NewServer(s)
			t.Cleanup(web.Close)
			report := judge(t, Options{Wait: 10 * time.Second, pace: &quick, door: d, Target: peer.Target{URL: web.URL, Token: token},
				only: func(c check) bool { return c.id == "SUB-1" || c.needs&needWitness != 0 }})
			passed := map[string]bool{}
			for _, f := range report.Findings {
				passed[f.Title] = f.Outcome == verdict.Pass
				if blamed := f.Outcome == verdict.Fail; blamed && (fault == "" || f.ID != "OCC-2") {
					t.Errorf("%+v", f)
				}
			}
			if ids := "an occurrence has one eventId by every mode"; passed[ids] != (fault == "") {
				t.Errorf("%s: %v", ids, passed[ids])
			}
			for _, title := range []string{"an occurrence says the same by every mode", "every callback gets everything that other modes bring",
				"what a callback has taken is not sent again"} {
				if !passed[title] {
					t.Errorf("%s: did not pass", title)
				}
			}
		})
	}
}

// Tokens and secrets stay out of every form of the report.
func TestSecretsStayOut(t *testing.T) {
	t.Parallel()
	f := wrongserver.Fault{Name: "the endpoint's text in the error", Webhook: true}
	o := wrong(t, f)
	report := judge(t, o)
	var b bytes.Buffer
	_ = json.NewEncoder(&b).Encode(report)
	_ = report.WriteJUnit(&b)
	if !strings.Contains(b.String(), verdict.Redacted) {
		t.Error("no secret was in the report to be hidden")
	}
	if strings.Contains(b.String(), token) || strings.Contains(b.String(), "whsec_") {
		t.Errorf("a secret is in the report: %s", b.String())
	}
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
		_, err := Run(t.Context(), Options{Target: peer.Target{URL: url}, Wait: time.Second})
		if _, ok := err.(*Unreachable); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, command := range [][]string{{"no-such-command-of-mcpe-gen"}, {os.Args[0], "-test.run=^$"}} {
		_, err := Run(t.Context(), Options{Target: peer.Target{Command: command}, Wait: time.Second})
		if _, ok := err.(*Unreachable); !ok {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// A process that does not read cannot hold a run up.
func TestUnreadRequest(t *testing.T) {
	t.Parallel()
	l, err := newStdioLink(wrongProgram("asleep"), io.Discard, func(*flow, message) {})
	if err != nil {
		t.Fatal(err)
	}
	l.patience = 20 * time.Millisecond
	if err := l.write(bytes.Repeat([]byte("x"), 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
	_ = l.cmd.Process.Kill()
	l.close()
}

// An interrupted run ends its subscriptions all the same.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	o := wrong(t, wrongserver.Fault{Webhook: true})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{}, 100)
	inner := o.Target.URL
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "events/unsubscribe" {
			ended <- struct{}{}
		}
		out, _ := http.NewRequestWithContext(r.Context(), r.Method, inner, r.Body)
		out.Header = r.Header.Clone()
		res, err := http.DefaultClient.Do(out)
		if err != nil {
			return
		}
		defer res.Body.Close()
		w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
		io.Copy(flushing{w}, res.Body)
		if r.Header.Get("Mcp-Method") == "events/subscribe" {
			cancel()
		}
	}))
	defer proxy.Close()
	o.Target.URL = proxy.URL
	report, err := Run(ctx, o)
	if err == nil || report == nil {
		t.Fatalf("%v, %v", report, err)
	}
	if len(ended) == 0 {
		t.Error("the subscription was not ended")
	}
}

type flushing struct{ http.ResponseWriter }

func (f flushing) Write(b []byte) (int, error) {
	n, err := f.ResponseWriter.Write(b)
	_ = http.NewResponseController(f.ResponseWriter).Flush()
	return n, err
}
