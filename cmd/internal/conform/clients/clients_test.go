package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A site is the network of a bubble: servers and callbacks by their hosts.
type site struct {
	memnet.Hosts
	opened atomic.Int64
}

// open adds a host.
func (n *site) open(kind string) (l *memnet.Network, host string) {
	host = fmt.Sprintf("%s-%d.test", kind, n.opened.Add(1))
	return n.Listen(host), host
}

// A faced program is a client in process.
type faced struct {
	cancel context.CancelFunc
	exited chan struct{}
	status string
	// deaf does not end when it is asked to.
	deaf bool
}

func (p *faced) End() bool {
	select {
	case <-p.exited:
		return true
	default:
	}
	if p.deaf {
		time.Sleep(3 * time.Second)
	}
	p.cancel()
	<-p.exited
	return !p.deaf
}
func (p *faced) Exited() <-chan struct{} { return p.exited }
func (p *faced) Status() string          { return p.status }

// A client1 is a program to be judged, in process. Its error is its exit status.
type client1 func(ctx context.Context, n *site, url string, stdout, stderr io.Writer) error

// judgeIn judges a client in a bubble.
func judgeIn(t *testing.T, o Options, run client1) *verdict.Report {
	t.Helper()
	return judgeHow(t, o, run, false)
}

func judgeHow(t *testing.T, o Options, run client1, isDeaf bool) *verdict.Report {
	t.Helper()
	report, err := tryJudge(t, o, run, isDeaf)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func tryJudge(t *testing.T, o Options, run client1, isDeaf bool) (*verdict.Report, error) {
	o.rig, o.Seed = new(site).rig(run, isDeaf), rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", o.Seed)
		}
	})
	return Run(t.Context(), o)
}

// rig is what a run in the bubble stands on.
func (n *site) rig(run client1, isDeaf bool) *rig {
	return &rig{
		listen: func() (net.Listener, string, error) {
			l, host := n.open("server")
			return l, "http://" + host + endpoint, nil
		},
		start: func(url string, stdout, stderr io.Writer) (program, error) {
			ctx, cancel := context.WithCancel(context.Background())
			p := &faced{cancel: cancel, exited: make(chan struct{}), deaf: isDeaf}
			go func() {
				defer close(p.exited)
				p.status = "exit status 0"
				if err := run(ctx, n, url, stdout, stderr); err != nil && ctx.Err() == nil {
					p.status = "exit status 1"
					if s, ok := errors.AsType[ended](err); ok {
						p.status = string(s)
					} else {
						fmt.Fprintln(stderr, err)
					}
				}
			}()
			return p, nil
		},
		dial: n.DialContext,
	}
}

// ended is how a process ended, as the system says it.
type ended string

func (e ended) Error() string { return string(e) }

// ours is a program with runtime/client, by one mode or by any.
func ours(ctx context.Context, n *site, url string, stdout, stderr io.Writer) error {
	l, host := n.open("hook")
	transport := &http.Transport{DialContext: n.DialContext}
	defer transport.CloseIdleConnections()
	c, err := client.Connect(ctx, client.HTTP(url, &http.Client{Transport: transport}), client.Options{Logger: slog.New(slog.DiscardHandler),
		Webhook: &client.WebhookOptions{PublicURL: "https://" + host, Listener: l, TLS: memnet.ServerTLS()}})
	if err != nil {
		return err
	}
	defer c.Close()
	all, err := c.List(ctx)
	if err != nil {
		return err
	}
	var listening sync.WaitGroup
	defer listening.Wait()
	for _, d := range all {
		listening.Go(func() {
			sub, err := client.Subscribe(ctx, c, client.Dynamic(d.Name), json.RawMessage(nil))
			if err != nil {
				if ctx.Err() == nil {
					fmt.Fprintln(stderr, err)
				}
				return
			}
			defer sub.Close()
			for ev, err := range sub.Events() {
				switch {
				case ctx.Err() != nil:
					return
				case err != nil:
					fmt.Fprintln(stderr, err)
					continue
				}
				fmt.Fprintln(stdout, ev.ID)
			}
		})
	}
	<-ctx.Done()
	return nil
}

func found(report *verdict.Report) (all []verdict.Finding) {
	for _, f := range report.Findings {
		if f.Outcome == verdict.Fail || f.Outcome == verdict.Advice {
			all = append(all, f)
		}
	}
	return all
}

// TestOurs judges the client that a Go program has, with default options, by every mode.
func TestOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report := judgeIn(t, Options{Handled: "-"}, ours)
		var b bytes.Buffer
		_ = report.WriteText(&b, false, func(_ verdict.Outcome, s string) string { return s })
		t.Log(b.String())
		if f := found(report); f != nil {
			t.Errorf("%+v", f)
		}
		if report.Skipped > 0 || report.Unfinished != nil {
			t.Errorf("%d skipped, %v", report.Skipped, report.Unfinished)
		}
	})
}

// TestBadPrograms judges what is hardly a client: the run ends in time, with a report or in one clear line.
func TestBadPrograms(t *testing.T) {
	for name, tt := range map[string]struct {
		run  client1
		says string // of what fails, or of the error
	}{
		"hangs":     {func(ctx context.Context, _ *site, _ string, _, _ io.Writer) error { <-ctx.Done(); return nil }, ".test/mcp"},
		"ends":      {func(context.Context, *site, string, io.Writer, io.Writer) error { return errors.New("no such flag") }, "it ended: exit status 1; it said no such flag"},
		"crashes":   {func(context.Context, *site, string, io.Writer, io.Writer) error { return ended("signal: killed") }, "it ended: signal: killed"},
		"floods":    {post("POST", `{"jsonrpc":"2.0","id":1,"method":"events/poll","params":{"name":"tick"}}`, 100_000), "request-rate"},
		"floods us": {post("POST", strings.Repeat("x", 2*maxRequest), 3), "request-message"},
		"lies":      {post("POST", `{"jsonrpc":"2.0","id":{},"method":5}`, 3), "request-message"},
		"chats": {func(ctx context.Context, n *site, url string, stdout, stderr io.Writer) error {
			for range 2000 {
				fmt.Fprintln(stdout, strings.Repeat("y", 10_000))
			}
			return wrongly("")(ctx, n, url, stdout, stderr)
		}, ""},
		"hangs later":         {hello, "poll"},
		"drips":               {slowly("POST "+endpoint+" HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", "{"), "request-message"},
		"drips its headers":   {slowly("", "x"), ".test/mcp"},
		"never ends":          {slowly("POST "+endpoint+" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "8000\r\n"+strings.Repeat("x", 0x8000)+"\r\n"), "request-message"},
		"never reads":         {slowly("", strings.Repeat(askList, 50)), "poll"},
		"its callback hangs":  {wrongly("has a callback that hangs"), "challenge"},
		"its callback drips":  {wrongly("has a callback that drips"), "challenge"},
		"its callback floods": {wrongly("has a callback that floods"), "challenge"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, began := Options{Handled: "-", selectsScene: func(sc scene) bool { return sc.name == "unknown-members" }}, time.Now()
				report, err := tryJudge(t, o, tt.run, false)
				if took := time.Since(began); took > 6*time.Minute {
					t.Errorf("took %v", took)
				}
				if err != nil {
					if _, ok := errors.AsType[*Unreachable](err); !ok || !strings.Contains(err.Error(), tt.says) {
						t.Error(err)
					}
					return
				}
				named := tt.says == ""
				for _, f := range found(report) {
					named = named || f.Name == tt.says
				}
				if !named {
					t.Errorf("%+v", found(report))
				}
			})
		})
	}
}

// hello asks a server who it is, and nothing more.
func hello(ctx context.Context, n *site, url string, stdout, stderr io.Writer) error {
	return post("POST", `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}`, 1)(ctx, n, url, stdout, stderr)
}

// askList is a request for the list, as bytes of HTTP.
var askList = func() string {
	body := `{"jsonrpc":"2.0","id":1,"method":"events/list","params":{}}`
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAccept: */*\r\nContent-Length: %d\r\n\r\n%s", endpoint, len(body), body)
}()

// slowly writes a text, and then another each second, on one connection after the other, and reads nothing.
func slowly(begin, more string) client1 {
	return func(ctx context.Context, n *site, url string, _, _ io.Writer) error {
		for {
			c, err := n.DialContext(ctx, "tcp", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), endpoint)+":80")
			if err != nil {
				<-ctx.Done()
				return nil
			}
			stop := context.AfterFunc(ctx, func() { c.Close() })
			for _, err := io.WriteString(c, begin); err == nil; _, err = io.WriteString(c, more) {
				if !sleep(ctx, time.Second) {
					break
				}
			}
			stop()
			c.Close()
			if !sleep(ctx, time.Second) {
				return nil
			}
		}
	}
}

// post sends one body again and again.
func post(method, body string, times int) client1 {
	return func(ctx context.Context, n *site, url string, _, _ io.Writer) error {
		transport := &http.Transport{DialContext: n.DialContext}
		defer transport.CloseIdleConnections()
		for range times {
			req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
			if err != nil {
				return err
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			res, err := (&http.Client{Transport: transport}).Do(req)
			if err != nil {
				return err
			}
			res.Body.Close()
			time.Sleep(time.Millisecond)
		}
		<-ctx.Done()
		return nil
	}
}

// TestCheckOptions tries options that cannot work, and a command that cannot be started.
func TestCheckOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"needs the command":       {},
		"has no {url}":            {Command: []string{"client"}},
		"--handled: . is not a f": {Command: []string{"client", "{url}"}, Handled: "."},
	} {
		_, err := Run(t.Context(), o)
		if _, ok := errors.AsType[*cli.Exit](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	_, err := Run(t.Context(), Options{Command: []string{"no-such-command-of-mcpe-gen", "{url}"}})
	if err == nil || !strings.HasPrefix(err.Error(), "starting no-such-command-of-mcpe-gen: ") {
		t.Error(err)
	}
}

// TestInterrupted ends a run early: what was found is there, and the rest is not judged.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		report, err := Run(ctx, Options{Handled: "-", rig: new(site).rig(ours, false)})
		if !errors.Is(err, context.DeadlineExceeded) || report == nil || report.Failed > 0 || report.Unjudged < len(Checks())/2 ||
			report.Unfinished == nil || report.Unfinished.Reason != "it was interrupted" {
			t.Errorf("%v, %+v", err, report)
		}
	})
}
