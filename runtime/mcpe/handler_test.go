package mcpe_test

import (
	"bytes"
	"context"
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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/peertest"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// script writes an executable that a test allows as a command.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "handler")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// eventually waits for real processes.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within ten seconds: %s", what)
}

func quote(s string) string { b, _ := json.Marshal(s); return string(b) }

// hostile is an event's text that a shell would do something with.
const hostile = "'; touch pwned; \"$(touch pwned)\" `touch pwned` && | > < * ? \n \\ ${HOME} %s \u0000 \u2028 end"

// MCPE-HAN-1, trap 14: data reaches a command unchanged, by each input, and no shell; its environment
// is not the server's.
// bash.run carries it with variables: a command is started as a list, with an environment of its own.
func TestBashInputs(t *testing.T) {
	t.Setenv("SERVER_SECRET", "hunter2")
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	cmd := script(t, `
case "$1" in
stdin) cat > "$2.tmp" ;;
env) printf %s "$MCPE_EVENT_JSON" > "$2.tmp" ;;
args) printf %s "$3" > "$2.tmp" ;;
esac
env > "$2.env"
mv "$2.tmp" "$2"`)
	for _, input := range []string{"stdin", "env", "args"} {
		t.Run(input, func(t *testing.T) {
			g := newRig(t, server.Options{}, mcpe.Options{Bash: &mcpe.BashOptions{Allow: []string{cmd}, Args: map[string][][]string{cmd: {{"**"}, {"**", "{event}"}}}, Dirs: []string{dir}, AllowEnv: []string{"EXTRA"}}})
			defer g.stop()
			p := g.dial(legacy)
			file := out + "-" + input
			p.subscribe(`{"handler":{"type":"bash","command":` + quote(cmd) + `,"args":["` + input + `",` + quote(file) + `],"input":"` + input + `","env":{"EXTRA":"1"}}}`)
			if err := g.emits["github.issue.opened"].Emit(t.Context(), payload{N: 1, Text: hostile}, events.WithID("src-1")); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the command has run", func() bool { return g.a.Stats().Handled == 1 })
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var e event
			if err := json.Unmarshal(raw, &e); err != nil || e.Data.Text != hostile || e.Type != "github.issue.opened" {
				t.Errorf("%v: got %q", err, raw)
			}
			env, _ := os.ReadFile(file + ".env")
			if strings.Contains(string(env), "hunter2") || !strings.Contains(string(env), "EXTRA=1") {
				t.Errorf("environment %s", env)
			}
			for _, v := range []string{"MCPE_EVENT_ID=" + e.ID, "MCPE_EVENT_TYPE=github.issue.opened", "MCPE_EVENT_PRIORITY=high", "MCPE_EVENT_TIMESTAMP=" + e.Metadata.Timestamp, "MCPE_EVENT_TAGS=ops,bugs", "MCPE_EVENT_DATA={", "MCPE_EVENT_JSON={"} {
				if !strings.Contains(string(env), v) {
					t.Errorf("no %s in %s", v, env)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
				t.Fatal("event data reached a shell")
			}
		})
	}
}

// MCPE-HAN-1, MCPE-HAN-4: a command that hangs, forks, or writes megabytes is ended with all that it
// started; deliveries go on meanwhile, and other subscriptions' handlers too.
func TestBashFaults(t *testing.T) {
	dir := t.TempDir()
	pids := filepath.Join(dir, "pids")
	cmd := script(t, `
case "$1" in
gate) while [ ! -e "$2.open" ]; do sleep 0.02; done ;;
hang) sleep 300 ;;
fork) (sleep 300 & echo $! >> "$2"; sleep 300) & echo $! >> "$2"; sleep 300 ;;
leave) sleep 300 >/dev/null 2>&1 & echo $! >> "$2" ;;
loud) head -c 50000000 /dev/zero ;;
fail) exit 3 ;;
esac`)
	var log bytes.Buffer
	var mu sync.Mutex
	g := newRig(t, server.Options{}, mcpe.Options{Bash: &mcpe.BashOptions{Allow: []string{cmd}, Args: map[string][][]string{cmd: {{"**"}}}, MaxOutput: 100}, MaxHandlersPerClient: 8,
		Logger: slog.New(slog.NewTextHandler(&locked{mu: &mu, w: &log}, nil))})
	defer g.stop()
	p := g.dial(legacy)
	kinds := []string{"gate", "hang", "fork", "leave", "loud", "fail"}
	for _, kind := range kinds {
		timeout := "60000" // these end by themselves, however slow the machine is
		if kind == "hang" || kind == "fork" {
			timeout = "1500"
		}
		p.subscribe(`{"handler":{"type":"bash","command":` + quote(cmd) + `,"args":["` + kind + `",` + quote(pids) + `],"timeout":` + timeout + `}}`)
	}
	plain := g.dial(legacy)
	plain.subscribe(`{}`)
	g.emit("github.push", 1)
	eventually(t, "the notification, while a handler runs", func() bool {
		plain.mu.Lock()
		defer plain.mu.Unlock()
		return len(plain.messages) > 0
	})
	if err := os.WriteFile(pids+".open", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all handlers are over", func() bool { s := g.a.Stats(); return s.Handled+s.Failed == int64(len(kinds)) })
	if s := g.a.Stats(); s.Handled != 3 || s.Failed != 3 {
		t.Errorf("stats %+v", s)
	}
	raw, _ := os.ReadFile(pids)
	for _, line := range strings.Fields(string(raw)) {
		pid, _ := strconv.Atoi(line)
		eventually(t, "process "+line+" is gone", func() bool { return !running(pid) })
	}
	if len(raw) == 0 { // fork may have been ended before it came to its own
		t.Error("no process was left behind")
	}
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(log.String(), "outcome=timeout") || !strings.Contains(log.String(), "exit status 3") || log.Len() > 20_000 {
		t.Errorf("log of %d bytes: %.2000s", log.Len(), log.String())
	}
}

// running reports whether a process is alive; a zombie that nobody reaps is not.
func running(pid int) bool {
	if p, err := os.FindProcess(pid); err != nil || p.Signal(syscall.Signal(0)) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !bytes.Contains(stat, []byte(") Z "))
}

type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// MCPE-HAN-1: allow-lists of commands, directories and variables.
func TestBashRefusals(t *testing.T) {
	cmd := script(t, `exit 0`)
	dir := t.TempDir()
	if err := os.Symlink("/", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	bubble(t, mcpe.Options{Bash: &mcpe.BashOptions{Allow: []string{cmd}, Args: map[string][][]string{cmd: {{"**"}}}, Dirs: []string{dir}}}, func(g *rig) {
		p := g.dial(legacy)
		for args, field := range map[string]string{
			`"command":"/bin/sh"`:                                   "handler.command",
			`"command":""`:                                          "handler.command",
			`"command":` + quote(cmd+" ; id"):                       "handler.command",
			`"command":` + quote(cmd) + `,"cwd":"/etc"`:             "handler.cwd",
			`"command":` + quote(cmd) + `,"cwd":"../.."`:            "handler.cwd",
			`"command":` + quote(cmd) + `,"cwd":"out/etc"`:          "handler.cwd",
			`"command":` + quote(cmd) + `,"env":{"LD_PRELOAD":"x"}`: "handler.env",
			`"command":` + quote(cmd) + `,"env":{"PATH":"x"}`:       "handler.env",
			`"command":` + quote(cmd) + `,"env":[]`:                 "handler.env",
			`"command":` + quote(cmd) + `,"input":"file"`:           "handler.input",
			`"command":` + quote(cmd) + `,"args":["a\u0000b"]`:      "handler.args",
			`"command":` + quote(cmd) + `,"args":{}`:                "handler.args",
			`"command":` + quote(cmd) + `,"timeout":-1`:             "handler.timeout",
		} {
			p.fails("events_subscribe", `{"handler":{"type":"bash",`+args+`}}`, -32602, field)
		}
	})
}

// MCPE-HAN-1: never reached by a remote client unless the operator says so.
func TestBashIsNotForRemoteClients(t *testing.T) {
	cmd := script(t, `exit 0`)
	for _, remote := range []bool{false, true} {
		g := newRig(t, server.Options{Principal: as("ann")}, mcpe.Options{Bash: &mcpe.BashOptions{Allow: []string{cmd}, Args: map[string][][]string{cmd: {{"**"}}}, Remote: remote}})
		ts := httptest.NewServer(handlerOf(g))
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"events_subscribe","arguments":{"handler":{"type":"bash","command":` + quote(cmd) + `}},"_meta":{` + peertest.ModernMeta + `}}}`
		req, _ := http.NewRequest(http.MethodPost, ts.URL, strings.NewReader(body))
		for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": modern, "Mcp-Method": "tools/call", "Mcp-Name": "events_subscribe"} {
			req.Header.Set(k, v)
		}
		resp, err := ts.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if refused := strings.Contains(string(answer), "remote clients"); refused == remote || !remote && !strings.Contains(string(answer), "isError") {
			t.Errorf("remote %v: %s", remote, answer)
		}
		g.stop()
		ts.Client().CloseIdleConnections()
		ts.Close()
	}
}

// MCPE-HAN-2: the POST of the original's form, signed when asked for, by the path that refuses
// private addresses and plain http; a failure for the time being is tried again.
func TestWebhook(t *testing.T) {
	type got struct {
		body   []byte
		header http.Header
	}
	requests := make(chan got, 10)
	var fail sync.Once
	ts := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		requests <- got{b, r.Header}
		fail.Do(func() { w.WriteHeader(http.StatusServiceUnavailable) })
	}))
	ts.Start()
	defer ts.Close()
	secret := webhook.NewSecret()
	g := newRig(t, server.Options{}, mcpe.Options{Webhook: &mcpe.WebhookOptions{Secret: secret, Callbacks: callbacks.Options{AllowOrigins: []string{ts.URL}}}})
	defer g.stop()
	p := g.dial(legacy)
	for url, field := range map[string]string{"http://example.com/x": "handler.url", "ftp://example.com": "handler.url", "": "handler.url", "https://user:pw@example.com/": "handler.url"} {
		p.fails("events_subscribe", `{"handler":{"type":"webhook","url":"`+url+`"}}`, -32602, field)
	}
	for _, h := range []string{"Host", "content-length", "X-Forwarded-For", "webhook-signature", "a b"} {
		p.fails("events_subscribe", `{"handler":{"type":"webhook","url":"`+ts.URL+`","headers":{"`+h+`":"x"}}}`, -32602, "handler.headers")
	}
	p.fails("events_subscribe", `{"handler":{"type":"webhook","url":"`+ts.URL+`","headers":{"X-A":"a\nb: c"}}}`, -32602, "handler.headers")
	p.subscribe(`{"handler":{"type":"webhook","url":"` + ts.URL + `","headers":{"X-Team":"ops"}}}`)
	g.emit("github.push", 1)
	first, second := <-requests, <-requests
	if !bytes.Equal(first.body, second.body) {
		t.Error("the second attempt posts another body")
	}
	var body struct {
		Event     event
		Timestamp string
	}
	if err := json.Unmarshal(second.body, &body); err != nil || body.Event.Data.N != 1 || body.Timestamp == "" || second.header.Get("X-Team") != "ops" || !strings.HasPrefix(second.header.Get("User-Agent"), "mcpe-gen") {
		t.Errorf("%v: %s", err, second.body)
	}
	if _, err := (&webhook.Verifier{Secrets: []webhook.Secret{secret}}).Verify(second.header, second.body); err != nil {
		t.Errorf("signature: %v", err)
	}
	eventually(t, "the outcome", func() bool { return g.a.Stats().Handled == 1 })
	// SSRF-1: an address that may not be reached is not, whatever its name says.
	p.subscribe(`{"handler":{"type":"webhook","url":"https://127.0.0.1:1/","timeout":1000}}`)
	g.emit("github.push", 2)
	eventually(t, "the outcome", func() bool { return g.a.Stats().Failed == 1 })
}

// MCPE-HAN-2, HAN-4: the timeout is 10 s unless the handler asks for another.
func TestWebhookTimeout(t *testing.T) {
	silent := func(context.Context, string, string) (net.Conn, error) {
		a, b := net.Pipe()
		go io.Copy(io.Discard, b)
		return a, nil
	}
	o := mcpe.Options{Webhook: &mcpe.WebhookOptions{Attempts: 1, Callbacks: callbacks.Options{AllowOrigins: []string{"http://hooks.test"}, DialContext: silent, Resolver: fixed{}}}}
	bubble(t, o, func(g *rig) {
		p := g.dial(legacy)
		s := p.subscribe(`{"handler":{"type":"webhook","url":"http://hooks.test/"}}`)
		if !strings.Contains(string(s.Handler), `"timeout":10000`) {
			t.Errorf("handler %s", s.Handler)
		}
		g.emit("github.push", 1)
		p.want("event(1)")
		sleep(10*time.Second - time.Millisecond)
		if g.a.Stats().Failed != 0 {
			t.Error("ended before its time")
		}
		sleep(time.Millisecond)
		if g.a.Stats().Failed != 1 {
			t.Error("not ended at its time")
		}
	})
}

// MCPE-HAN-3, MCPE-HAN-4: the host's agent; a batch is handled once, as one event; an agent that
// panics or hangs is an outcome.
func TestAgent(t *testing.T) {
	var requests []mcpe.AgentRequest
	var mu sync.Mutex
	o := mcpe.Options{Agent: &mcpe.AgentOptions{Handle: func(ctx context.Context, r mcpe.AgentRequest) error {
		mu.Lock()
		requests = append(requests, r)
		mu.Unlock()
		switch r.Instructions {
		case "panic":
			panic("no")
		case "hang":
			<-ctx.Done()
			return ctx.Err()
		case "fail":
			return errors.New("no")
		}
		return nil
	}}}
	bubble(t, o, func(g *rig) {
		p := g.dial(legacy)
		s := p.subscribe(`{"delivery":` + cron("@hourly", "") + `,"handler":{"type":"agent","systemPrompt":"You are.","model":"m","instructions":"sum","tools":["t"],"maxTokens":7}}`)
		g.emit("github.push", 1)
		g.emit("github.issue.opened", 2)
		sleep(time.Hour)
		mu.Lock()
		if len(requests) != 1 {
			t.Fatalf("%d runs", len(requests))
		}
		r := requests[0]
		requests = nil
		mu.Unlock()
		if r.Event.Type != "events.batch" || len(r.Events) != 2 || r.SubscriptionID != s.ID || r.SystemPrompt != "You are." || r.Model != "m" || r.Instructions != "sum" ||
			len(r.Tools) != 1 || r.MaxTokens != 7 || r.Event.Metadata.Priority != "high" || !strings.Contains(string(r.Event.Data), `"count":2`) {
			t.Errorf("request %+v", r)
		}
		p.ok("events_unsubscribe", `{"subscriptionId":"`+s.ID+`"}`, nil)
		for _, how := range []string{"panic", "hang", "fail"} {
			p.subscribe(`{"handler":{"type":"agent","instructions":"` + how + `","timeout":5000}}`)
		}
		g.emit("github.push", 3, 4)
		sleep(11 * time.Second)
		if s := g.a.Stats(); s.Failed != 6 || s.Handled != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

// MCPE-HAN-3: sampling on the subscriber's session.
func TestSampling(t *testing.T) {
	var answer string
	o := mcpe.Options{Agent: &mcpe.AgentOptions{Sampling: true, Sampled: func(_ context.Context, _ mcpe.AgentRequest, said string) { answer = said }}}
	bubble(t, o, func(g *rig) {
		p := g.dial(legacy)
		var asked string
		p.calls = func(m *jsonrpc.Request) any {
			asked = m.Method + string(m.Params)
			return map[string]any{"role": "assistant", "model": "m", "content": map[string]string{"type": "text", "text": "noted"}}
		}
		p.subscribe(`{"handler":{"type":"agent","systemPrompt":"Be brief.","instructions":"Say it.","model":"small"}}`)
		g.emit("github.push", 1)
		sleep(time.Second)
		if answer != "noted" {
			t.Errorf("answer %q, %+v", answer, g.a.Stats())
		}
		for _, text := range []string{"sampling/createMessage", "Be brief.", "Say it.", "github.push", "small"} {
			if !strings.Contains(asked, text) {
				t.Errorf("asked %s without %q", asked, text)
			}
		}
	})
}

// TestHandlersOfSeveralClients: the handlers of some clients hang. Those of another one run at once, until each slot is
// used by a different client.
func TestHandlersOfSeveralClients(t *testing.T) {
	for _, k := range []int{1, 2, 3, 10, 19} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			var hanging, handled atomic.Int32
			o := mcpe.Options{Agent: &mcpe.AgentOptions{Handle: func(ctx context.Context, r mcpe.AgentRequest) error {
				if r.Instructions == "hang" {
					hanging.Add(1)
					<-ctx.Done()
				} else {
					handled.Add(1)
				}
				return ctx.Err()
			}}}
			bubble(t, o, func(g *rig) {
				for range k {
					noisy := g.dial(legacy)
					for range 8 {
						noisy.subscribe(`{"filter":{"eventTypes":["github.push"]},"handler":{"type":"agent","instructions":"hang"}}`)
					}
				}
				quiet := g.dial(legacy)
				quiet.subscribe(`{"filter":{"eventTypes":["slack.message"]},"handler":{"type":"agent","instructions":"note"}}`)
				g.emit("github.push", 1)
				sleep(time.Second)
				if n := int(hanging.Load()); n < min(4*k, 16) || n > 31 {
					t.Errorf("%d handlers hang", n)
				}
				g.emit("slack.message", 2)
				sleep(0)
				if handled.Load() != 1 {
					t.Error("the handler of another client waits")
				}
			})
		})
	}
}
