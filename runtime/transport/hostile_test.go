package transport

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// CAP-6, ERR-2: whatever a hostile client sends gets its answer on every carrier and route, and the
// stream of a bystander goes on. That nothing is left running is for TestMain to see.
func TestHostileClient(t *testing.T) {
	type carrier struct {
		name  string
		mode  mode
		plain bool
	}
	for _, k := range []carrier{{"stdio legacy", modes[0], false}, {"stdio 2026-07-28", modes[1], false}, {"http session", modes[2], false},
		{"http stateless", modes[3], false}, {"http plain", modes[3], true}} {
		t.Run(k.name, func(t *testing.T) {
			g := map[bool]func(testing.TB, server.Options) *rig{false: newRig, true: plainRig}[k.plain](t, server.Options{})
			c := g.connect(k.mode, HandlerOptions{})
			bystander := c.stream(`"bystander"`, `{"name":"tick"}`)
			bystander.want(wire.NotificationActive)
			sent := 0
			check := func(name string, answer []byte, code int64, id string) {
				t.Helper()
				sent++
				env, _ := parseEnvelope(answer)
				if env.error == nil {
					t.Errorf("%s: answered by %.200s", name, answer)
				} else if got := errorOf(t, env); got.Code != code || string(member(answer, "id")) != id {
					t.Errorf("%s: answered by %.200s, want %d for %s", name, answer, code, id)
				}
			}
			var ask func(text, id string, status int) []byte
			switch c := c.(type) {
			case *lineClient:
				nobody := c.feed("")
				ask = func(text, id string, _ int) []byte {
					f := nobody
					if id != "null" {
						f = c.feed(id)
					}
					c.send(text)
					return []byte(f.next())
				}
			case *httpClient:
				ask = func(text, id string, status int) []byte {
					header := map[string]string{}
					if _, ok := parseEnvelope([]byte(text)); !ok && k.mode.modern() {
						header = map[string]string{headerVersion: k.mode.version, headerMethod: wire.MethodPoll}
					}
					resp := c.post(context.Background(), text, header)
					defer resp.Body.Close()
					if resp.StatusCode != status {
						t.Errorf("%.60q: %s, want %d", text, resp.Status, status)
					}
					rec := newRecorder()
					rec.header = resp.Header
					_, _ = rec.body.ReadFrom(resp.Body)
					return rec.message()
				}
			}
			for _, m := range hostileMessages() {
				check(m.name, ask(m.text, m.id, http.StatusBadRequest), m.code, m.id)
			}
			for i, call := range hostileCalls() {
				id := fmt.Sprint(1000 + i)
				status := http.StatusOK
				if k.mode.modern() && call.code == -32602 {
					status = http.StatusBadRequest
				}
				check(call.method+" "+call.name, ask(k.mode.request(id, call.method, call.params+"}"), id, status), call.code, id)
			}
			if sent < 80 {
				t.Errorf("%d requests", sent)
			}
			g.emit(1)
			if ev := bystander.want(wire.NotificationEvent); subscriptionID(ev) != `"bystander"` {
				t.Errorf("the bystander got %s", ev.params)
			}
			if env := c.rpc(`"after"`, wire.MethodPoll, `{"name":"tick"}`); env.result == nil {
				t.Errorf("afterwards: %s", env.error)
			}
			bystander.cancel()
		})
	}
}

// A body that comes too slowly is cut off; what a request holds open is not (PUSH-8, POLL-9).
func TestSlowBody(t *testing.T) {
	g := newRig(t, server.Options{})
	m := modes[3]
	c := g.connect(m, HandlerOptions{ReadTimeout: 100 * time.Millisecond}).(*httpClient)
	f := c.stream(`7`, `{"name":"tick"}`)
	f.want(wire.NotificationActive)
	slow := &drip{first: []byte(`{"jsonrpc":"2.0","id":1,`), done: make(chan struct{})}
	defer close(slow.done)
	req, err := http.NewRequest(http.MethodPost, c.url, slow)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = c.header.Clone()
	resp, err := c.hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("answered by %s", resp.Status)
	}
	boot := c.rpc(`2`, wire.MethodPoll, `{"name":"tick"}`)
	held := c.rpc(`3`, wire.MethodPoll, `{"name":"tick","timeoutMs":300,"cursor":`+string(member(boot.result, "cursor"))+`}`)
	if held.result == nil {
		t.Errorf("a held poll: %s", held.error)
	}
	g.emit(1)
	f.want(wire.NotificationEvent)
	f.cancel()
}

// A drip is a body that stops after its first bytes.
type drip struct {
	first []byte
	done  chan struct{}
}

func (d *drip) Read(p []byte) (int, error) {
	if n := copy(p, d.first); n > 0 {
		d.first = d.first[n:]
		return n, nil
	}
	<-d.done
	return 0, context.Canceled
}

// Headers that decide where a request goes are bounded.
func TestLongHeaders(t *testing.T) {
	g := newRig(t, server.Options{})
	for _, m := range modes[2:4] {
		c := g.connect(m, HandlerOptions{}).(*httpClient)
		for _, name := range []string{headerSession, headerLastEventID} {
			resp := c.post(context.Background(), m.request(`1`, wire.MethodList, ``), map[string]string{name: strings.Repeat("x", maxHeader+1)})
			resp.Body.Close()
			if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("%s %s: %s", m.name, name, resp.Status)
			}
		}
	}
}
