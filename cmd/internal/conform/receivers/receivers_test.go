package receivers

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/handled"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/wrongserver"
	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
	"github.com/mcpe-gen/mcpe-gen/internal/testkit/freeport"
	"github.com/mcpe-gen/mcpe-gen/internal/testkit/sampletest"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// TestMain is a receiver of its own process where the environment says so.
func TestMain(m *testing.M) {
	address := os.Getenv("CONFORM_RECEIVER")
	if address == "" {
		os.Exit(m.Run())
	}
	key, err := parseKey(os.Getenv("MCPE_GEN_SECRET"))
	if err != nil {
		panic(err)
	}
	w := &wrong{key: key, path: "/hook", subscription: DefaultSubscription, file: os.Getenv("CONFORM_HANDLED"), memory: &memory{}}
	lines, err := handled.Lines(w.file)
	if err != nil {
		panic(err)
	}
	for line := range lines {
		w.first(line)
	}
	if os.Getenv("CONFORM_ENDS") != "" {
		return
	}
	requests, _ := strconv.Atoi(os.Getenv("CONFORM_CRASHES"))
	left := atomic.Int64{}
	left.Store(int64(requests))
	panic(http.ListenAndServe(address, http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
		if left.Add(-1) == -1 && requests > 0 {
			os.Exit(3)
		}
		w.ServeHTTP(out, req)
	})))
}

// patient is the pace of judgements in real time. A busy machine may take a minute for anything right.
var patient = pace{answer: time.Minute, patience: 2 * time.Minute, start: time.Minute, ready: time.Minute, settle: time.Minute, quiet: 50 * time.Millisecond,
	run: 10 * time.Minute}

// options are those of a receiver of the test.
func options(t *testing.T) Options {
	secret := webhook.NewSecret().Text()
	return Options{Secret: secret, Seed: sampletest.Rand(t).Uint64(), Subscription: DefaultSubscription, Event: DefaultEvent, Data: json.RawMessage(`{"a":1}`),
		Handled: filepath.Join(t.TempDir(), "handled")}
}

// serve serves h for the options until the test ends. It is called in a bubble.
func serve(t *testing.T, o *Options, h http.Handler) *memnet.Network {
	l, served := memnet.New(), make(chan struct{})
	named := http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
		if !strings.HasPrefix(req.UserAgent(), "mcpe-gen") {
			t.Errorf("a request comes from %q", req.UserAgent())
		}
		h.ServeHTTP(out, req)
	})
	s := &http.Server{Handler: named, ConnContext: func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, casingKey{}, c.(casing).text)
	}}
	go func() {
		defer close(served)
		_ = s.Serve(casingListener{l})
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil { // it waits for handlers, which may be late
			t.Error(err)
		}
		<-served
	})
	o.URL, o.dial = "http://127.0.0.1/hook", l.DialContext
	return l
}

// newWrong is the receiver of the options with the fault of the seed.
func newWrong(o Options, fault string) *wrong {
	w := &wrong{fault: fault, seed: o.Seed, secret: o.Secret, path: "/hook", subscription: o.Subscription, file: o.Handled, memory: &memory{}}
	w.key, _ = parseKey(o.Secret)
	return w
}

// serveProgram serves a program with the fault, which can be killed and started again. change changes its handler.
func serveProgram(t *testing.T, o *Options, fault string, change func(http.Handler) http.Handler) {
	var now *memnet.Network
	kept := &memory{}
	o.Command = []string{"receiver"}
	o.start = func() (program, error) {
		of := *o
		w := newWrong(of, fault)
		killed := make(chan struct{})
		w.killed = killed
		if fault != "forgets-events-restart" {
			w.memory = kept
		}
		if w.is("forgets-gaps-restart") {
			kept.forget("msg_gap_")
		}
		now = serve(t, &of, change(w))
		return &forgetful{now, killed}, nil
	}
	o.URL, o.dial = "http://127.0.0.1/hook", func(ctx context.Context, network, address string) (net.Conn, error) {
		return now.DialContext(ctx, network, address)
	}
}

func itself(h http.Handler) http.Handler { return h }

func judge(t *testing.T, o Options) *verdict.Report {
	t.Helper()
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// found are the findings that blame or advise.
func found(report *verdict.Report) (all []verdict.Finding) {
	for _, f := range report.Findings {
		if f.Outcome == verdict.Fail || f.Outcome == verdict.Advice {
			all = append(all, f)
		}
	}
	return all
}

// TestOurs judges the receiver that a Go program has.
func TestOurs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testOurs)
}

func testOurs(t *testing.T) {
	o := options(t)
	secret, err := webhook.ParseSecret(o.Secret)
	if err != nil {
		t.Fatal(err)
	}
	hooks, err := webhook.NewReceiver(webhook.ReceiverOptions{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	end, err := hooks.Open(webhook.EndpointOptions{Ring: webhook.NewRing(secret)})
	if err != nil {
		t.Fatal(err)
	}
	w := &wrong{file: o.Handled}
	end.Activate(o.Subscription, func(_ context.Context, d webhook.Delivery) error {
		switch d.Type {
		case "":
			w.note(d.Occurrence.EventID)
		case webhook.TypeTerminated:
			w.note(d.ID)
			end.Close()
		default:
			w.note(d.ID)
		}
		return nil
	})
	serve(t, &o, hooks)
	o.URL = "http://127.0.0.1" + end.Path()
	report := judge(t, o)
	for _, f := range report.Findings {
		if f.Outcome == verdict.Fail || f.Outcome == verdict.Advice || f.Outcome == verdict.Skip && !strings.Contains(f.Got, "after --") {
			t.Errorf("%+v", f)
		}
	}
}

// TestRight judges receivers without a fault, which use what the specification permits.
func TestRight(t *testing.T) {
	t.Parallel()
	for name, change := range rights {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := options(t)
				serveProgram(t, &o, "", change)
				report := judge(t, o)
				if f := found(report); f != nil {
					t.Errorf("%+v", f)
				}
				if report.Passed != len(checks()) {
					t.Errorf("%d of %d passed: %+v", report.Passed, len(checks()), report.Unfinished)
				}
			})
		})
	}
}

// rights are receivers that differ from the fixture in what the specification permits.
var rights = map[string]func(http.Handler) http.Handler{
	"plain":         itself,
	"starts slowly": starting(func(*http.Request) bool { return false }),
	"first takes challenges": starting(func(req *http.Request) bool {
		return strings.HasPrefix(req.Header.Get(wire.HeaderWebhookID), "msg_"+wire.EnvelopeVerification)
	}),
	"limits requests": limited(http.StatusTooManyRequests, func() string { return "1" }),
	"is unavailable":  limited(http.StatusServiceUnavailable, func() string { return time.Now().Add(2 * time.Second).UTC().Format(http.TimeFormat) }),
	"is slow": func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
			time.Sleep(time.Second)
			h.ServeHTTP(out, req)
		})
	},
	"is late once": func(h http.Handler) http.Handler {
		var requests atomic.Int32
		return http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
			if requests.Add(1) == 20 {
				time.Sleep(6 * time.Second)
			}
			h.ServeHTTP(out, req)
		})
	},
	"answers in chunks": func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
			recorded := httptest.NewRecorder()
			h.ServeHTTP(recorded, req)
			status := recorded.Code
			if status == http.StatusNoContent {
				status = http.StatusAccepted
			}
			out.Header().Set("Connection", "close")
			out.WriteHeader(status)
			out.(http.Flusher).Flush()
			io.WriteString(out, recorded.Body.String()+" ")
		})
	},
	"handles late": func(h http.Handler) http.Handler {
		w := h.(*wrong)
		w.fault = "handles-late"
		return w
	},
}

// starting answers 503 for the first twenty seconds, except to requests that it takes.
func starting(takes func(*http.Request) bool) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		began := time.Now()
		return http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
			if time.Since(began) < 20*time.Second && !takes(req) {
				out.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			h.ServeHTTP(out, req)
		})
	}
}

// limited refuses each twentieth request with the status and a Retry-After.
func limited(status int, after func() string) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		var requests atomic.Int32
		return http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
			if requests.Add(1)%20 == 0 {
				io.Copy(io.Discard, req.Body)
				out.Header().Set("Retry-After", after())
				out.WriteHeader(status)
				return
			}
			h.ServeHTTP(out, req)
		})
	}
}

// TestUnknownHandled judges a receiver without --handled and without a command.
func TestUnknownHandled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := options(t)
		w := newWrong(o, "handles-nothing")
		o.Handled = ""
		serve(t, &o, w)
		if f := found(judge(t, o)); f != nil {
			t.Errorf("%+v", f)
		}
	})
}

// TestLimited judges a receiver that limits all requests after some: the run is not finished, and nothing fails.
func TestLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := options(t)
		var requests atomic.Int32
		w := newWrong(o, "")
		serve(t, &o, http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
			if requests.Add(1) > 30 {
				out.WriteHeader(http.StatusTooManyRequests)
				return
			}
			w.ServeHTTP(out, req)
		}))
		report := judge(t, o)
		if report.Failed > 0 || report.Unfinished == nil || !strings.HasPrefix(report.Unfinished.Reason, "the receiver limits requests: 429") {
			t.Errorf("%+v, %+v", found(report), report.Unfinished)
		}
	})
}

// TestFaults judges the receiver with each fault, and without one.
func TestFaults(t *testing.T) {
	t.Parallel()
	untried := func(verdict.Check) bool { return false }
	wrongserver.Try(t, wrongserver.Receiver, Checks(), untried, func(t *testing.T, f wrongserver.Fault) *verdict.Report {
		o := options(t)
		serveProgram(t, &o, f.Name, itself)
		report := judge(t, o)
		if text, _ := json.Marshal(report); strings.Contains(string(text), strings.TrimPrefix(o.Secret, "whsec_")) {
			t.Error("the report has the secret")
		}
		return report
	})
}

// TestMistakes judges receivers that make a usual mistake: the report names it once.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"uses-wrong-key", "signs-other-content", "expects-other-encoding", "expects-milliseconds", "clock-off"} {
		for seed := range uint64(8) {
			t.Run(fmt.Sprint(fault, seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					o := options(t)
					o.Seed = seed
					serveProgram(t, &o, fault, itself)
					report := judge(t, o)
					if f := found(report); len(f) != 1 || !strings.Contains(f[0].Got, ", but it accepts ") {
						t.Errorf("%+v", f)
					}
					if report.Skipped < len(checks())/2 {
						t.Errorf("%d of %d skipped", report.Skipped, len(checks()))
					}
				})
			})
		}
	}
}

// TestKilled judges a program that is killed, and has written what it took.
func TestKilled(t *testing.T) {
	t.Parallel()
	o := options(t)
	address := freeAddress(t)
	o.URL, o.pace = "http://"+address+"/hook", &patient
	o.Command = ownCommand(o, "CONFORM_RECEIVER="+address)
	if all := found(judge(t, o)); all != nil {
		t.Errorf("%+v", all)
	}
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("the program was left running")
	}
}

// A forgetful program loses what it has in mind when it is killed.
type forgetful struct {
	l      *memnet.Network
	killed chan struct{}
}

func (p *forgetful) Kill() {
	p.l.Close()
	close(p.killed)
}

func (p *forgetful) End() bool {
	p.Kill()
	return true
}

func (p *forgetful) HasEnded() bool          { return false }
func (p *forgetful) Exited() <-chan struct{} { return p.killed }
func (p *forgetful) Status() string          { return "signal: killed" }

// freeAddress is one of loopback at which nobody listens.
func freeAddress(t *testing.T) string {
	addresses, release, err := freeport.Reserve(1)
	if err != nil {
		t.Fatal(err)
	}
	release()
	return addresses[0]
}

// ownCommand starts this test as the receiver.
func ownCommand(o Options, env ...string) []string {
	return slices.Concat([]string{"/usr/bin/env", "CONFORM_HANDLED=" + o.Handled}, env, []string{os.Args[0]})
}

// TestNoReceiver tries what is no receiver at all: the run ends in time, with a report or in one clear line.
func TestNoReceiver(t *testing.T) {
	t.Parallel()
	// slowly writes a text again and again, until the other end has gone.
	slowly := func(c net.Conn, text string, pause time.Duration) {
		for _, err := fmt.Fprint(c, text); err == nil; _, err = fmt.Fprint(c, text) {
			time.Sleep(pause)
		}
	}
	for name, tt := range map[string]struct{ serve func(net.Conn) }{
		"closes":   {func(c net.Conn) { c.Close() }},
		"hangs":    {func(net.Conn) {}},
		"no http":  {func(c net.Conn) { fmt.Fprint(c, "hello\r\n\r\n"); c.Close() }},
		"breaks":   {func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Le"); c.Close() }},
		"too many": {func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 2<<20)) }},
		"drips":    {func(c net.Conn) { slowly(c, "H", 20*time.Millisecond) }},
		"hints":    {func(c net.Conn) { slowly(c, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", time.Millisecond) }},
		"drips its body": {func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
			slowly(c, "x", 20*time.Millisecond)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := memnet.New()
				var conns sync.WaitGroup
				done := make(chan struct{})
				conns.Go(func() {
					for {
						c, err := l.Accept()
						if err != nil {
							return
						}
						conns.Go(func() {
							defer c.Close()
							// What comes before the request is no answer to it: net/http drops the connection.
							if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
								tt.serve(c)
							}
							<-done
						})
					}
				})
				defer conns.Wait()
				defer l.Close()
				defer close(done)
				o := options(t)
				o.URL, o.dial = "http://127.0.0.1", l.DialContext
				began := time.Now()
				report := judge(t, o)
				if len(report.Findings) != len(checks()) || report.Failed == 0 || report.Passed > len(lastChecks) {
					t.Errorf("%+v", report)
				}
				if f := report.Findings[0]; f.Outcome != verdict.Fail || f.Got == "" || f.Request == "" {
					t.Errorf("%+v", f)
				}
				if took := time.Since(began); took > 30*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// TestUnreachable tries what nobody serves.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.URL, o.pace = "http://"+freeAddress(t)+"/hook", &patient
	if report, err := Run(t.Context(), o); err == nil || report != nil || !strings.HasPrefix(err.Error(), "connecting to 127.0.0.1:") {
		t.Errorf("%v, %v", report, err)
	}
	o.Command = []string{"no-such-command-of-mcpe-gen"}
	if _, err := Run(t.Context(), o); err == nil || !strings.HasPrefix(err.Error(), "starting no-such-command-of-mcpe-gen: ") {
		t.Errorf("%v", err)
	}
	o.Command = ownCommand(o, "CONFORM_RECEIVER=x", "CONFORM_ENDS=1")
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), " ended before it could be reached at 127.0.0.1:") {
		t.Errorf("%v", err)
	}
}

// TestCrashes judges a receiver that goes away while it is judged.
func TestCrashes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := options(t)
		var requests atomic.Int32
		w := newWrong(o, "")
		var l *memnet.Network
		l = serve(t, &o, http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
			if requests.Add(1) > 40 {
				l.Close()
				panic(http.ErrAbortHandler)
			}
			w.ServeHTTP(out, req)
		}))
		report := judge(t, o)
		if report.Failed != maxUnanswered || report.Unjudged < len(checks())/2 || report.Unfinished == nil {
			t.Errorf("%+v", report)
		}
	})
}

// TestProgramCrashes judges a program that crashes while it is judged: the report says how it ended.
func TestProgramCrashes(t *testing.T) {
	t.Parallel()
	o := options(t)
	address := freeAddress(t)
	o.URL = "http://" + address + "/hook"
	o.Command = ownCommand(o, "CONFORM_RECEIVER="+address, "CONFORM_CRASHES=9")
	o.Handled = ""
	p := patient
	p.quiet = time.Minute // within which it ends
	o.pace = &p
	report := judge(t, o)
	if report.Failed != 1 {
		t.Errorf("%+v", found(report))
	}
	if report.Unjudged == 0 || report.Unfinished == nil || report.Unfinished.Reason != "env has ended: exit status 3" {
		t.Errorf("%d not judged, %v", report.Unjudged, report.Unfinished)
	}
}

// TestCheckOptions tries options that cannot work.
func TestCheckOptions(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Options){
		"is not the URL":          func(o *Options) { o.URL = "nowhere" },
		"needs --secret":          func(o *Options) { o.Secret = "" },
		"must begin with whsec_":  func(o *Options) { o.Secret = "abc" },
		"standard base64":         func(o *Options) { o.Secret = "whsec_!" },
		"24 to 64 bytes, has 3":   func(o *Options) { o.Secret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("abc")) },
		"--data: must be":         func(o *Options) { o.Data = json.RawMessage("[]") },
		"--data: has ":            func(o *Options) { o.Data = json.RawMessage(`{"a":"` + strings.Repeat("x", maxData) + `"}`) },
		"--event: must not":       func(o *Options) { o.Event = "" },
		"--subscription: must be": func(o *Options) { o.Subscription = "a b" },
		"a URL of this machine":   func(o *Options) { o.URL, o.Command = "https://hooks.example/", []string{"true"} },
	} {
		o := options(t)
		o.URL = "http://127.0.0.1:1/hook"
		change(&o)
		_, err := Run(t.Context(), o)
		if _, ok := errors.AsType[*cli.Exit](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestLimit judges a receiver that answers after 4.5 s: the run's limit ends it, and the report says so and names the
// message (HOOK-4).
func TestLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := options(t)
		w := newWrong(o, "")
		serve(t, &o, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			sleep(r.Context(), 4500*time.Millisecond)
			w.ServeHTTP(out, r)
		}))
		report := judge(t, o)
		if u := report.Unfinished; u == nil || u.Reason != "its limit of 5m0s ended the run" || !strings.HasPrefix(u.Request, "POST /hook") || report.Unjudged == 0 {
			t.Errorf("%d not judged, %+v", report.Unjudged, u)
		}
		if report.Failed > 0 {
			t.Errorf("%+v", found(report))
		}
	})
}
