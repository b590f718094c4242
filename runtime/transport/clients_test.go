package transport

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sse"
)

// A client speaks JSON-RPC with ids and params as the test wrote them.
type client interface {
	// rpc makes a call and returns its response.
	rpc(id, method, params string) envelope
	// stream sends events/stream; the feed gets every message for that id.
	stream(id, params string) *feed
	notify(method, params string)
}

// A feed is what arrives for one id.
type feed struct {
	t      testing.TB
	c      chan string // messages
	cancel func()
	ended  chan struct{} // the response is over (HTTP)
	// patient is how long to wait for a message; 0 means patience.
	patient time.Duration
}

// patience is how long a busy machine may take for anything.
const patience = time.Minute

// next waits for the next message.
func (f *feed) next() string {
	f.t.Helper()
	select {
	case m, ok := <-f.c:
		if !ok {
			f.t.Fatal("the stream has ended")
		}
		return m
	case <-time.After(max(f.patient, patience)):
		f.t.Fatal("timeout: no message")
		panic("unreachable")
	}
}

// want1 waits for the next message, whatever it is.
func (f *feed) want1() envelope {
	f.t.Helper()
	env, _ := parseEnvelope([]byte(f.next()))
	return env
}

// want waits for a message of a method, "" being a response, and returns it. Heartbeats come whenever the
// machine was busy long enough: those that nobody wants are passed over.
func (f *feed) want(method string) envelope {
	f.t.Helper()
	for {
		m := f.next()
		env, ok := parseEnvelope([]byte(m))
		switch {
		case ok && env.method == method:
			return env
		case !ok || env.method != wire.NotificationHeartbeat:
			f.t.Fatalf("got %s, want %q", m, method)
		}
	}
}

// over waits until the response has ended and reports what came before.
func (f *feed) over() []string {
	f.t.Helper()
	select {
	case <-f.ended:
	case <-time.After(patience):
		f.t.Fatal("timeout: the stream has not ended")
	}
	var rest []string
	for m := range f.c {
		rest = append(rest, m)
	}
	return rest
}

// requestMeta is the _meta of a stateless request.
const requestMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/events":{}}},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}`

// request writes a request; params are an object's text, to which the stateless revision adds.
func (m mode) request(id, method, params string) string {
	if params == "" {
		params = "{}"
	}
	if m.modern() {
		sep := ","
		if strings.TrimSpace(params) == "{}" {
			sep = ""
		}
		params = strings.TrimSuffix(params, "}") + sep + requestMeta + "}"
	}
	if id == "" {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"%s","params":%s}`, method, params)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"%s","params":%s}`, id, method, params)
}

type httpClient struct {
	t      testing.TB
	url    string
	hc     *http.Client
	mode   mode
	header http.Header
}

// post sends a body with the client's headers; those of h replace them, "-" removes one.
func (c *httpClient) post(ctx context.Context, body string, h map[string]string) *http.Response {
	c.t.Helper()
	resp, err := c.do(ctx, http.MethodPost, body, h)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp
}

func (c *httpClient) do(ctx context.Context, method, body string, h map[string]string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = c.header.Clone()
	req.Header.Set("Content-Type", contentTypeJSON)
	req.Header.Set("Accept", "application/json, text/event-stream")
	if env, ok := parseEnvelope([]byte(body)); ok && c.mode.modern() {
		req.Header.Set(headerVersion, c.mode.version)
		req.Header.Set(headerMethod, env.method)
	}
	for k, v := range h {
		switch {
		case v == "-":
			req.Header.Del(k)
		case k == "Host":
			req.Host = v
		default:
			req.Header.Set(k, v)
		}
	}
	return c.hc.Do(req)
}

func (c *httpClient) rpc(id, method, params string) envelope {
	c.t.Helper()
	resp := c.post(context.Background(), c.mode.request(id, method, params), nil)
	return readMessage(c.t, resp)
}

func (c *httpClient) notify(method, params string) {
	c.t.Helper()
	c.post(context.Background(), c.mode.request("", method, params), nil).Body.Close()
}

// readMessage returns the last JSON-RPC message of a response.
func readMessage(t testing.TB, resp *http.Response) envelope {
	t.Helper()
	defer resp.Body.Close()
	rec := newRecorder()
	rec.header = resp.Header
	if _, err := io.Copy(&rec.body, resp.Body); err != nil {
		t.Fatal(err)
	}
	env, ok := parseEnvelope(rec.message())
	if !ok {
		t.Fatalf("%s: no JSON-RPC message: %s", resp.Status, rec.body.Bytes())
	}
	return env
}

func (c *httpClient) stream(id, params string) *feed {
	c.t.Helper()
	return c.sse(c.mode.request(id, wire.MethodStream, params))
}

// sse sends a request and feeds the events of the response; a response that is no stream is fed as
// one message.
func (c *httpClient) sse(body string) *feed {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	resp := c.post(ctx, body, nil)
	return feedOf(c.t, resp, cancel)
}

func feedOf(t testing.TB, resp *http.Response, cancel func()) *feed {
	f := &feed{t: t, c: make(chan string, 5000), cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		defer close(f.c)
		defer resp.Body.Close()
		defer cancel()
		r := bufio.NewReader(resp.Body)
		if mediaType(resp.Header.Get("Content-Type")) != sse.ContentType {
			b, _ := io.ReadAll(r)
			f.c <- string(b)
			return
		}
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if data, ok := strings.CutPrefix(line, sse.Head); ok {
				f.c <- strings.TrimRight(data, "\n")
			}
		}
	}()
	return f
}

type lineClient struct {
	t      testing.TB
	mode   mode
	w      io.WriteCloser
	r      io.Reader
	cancel context.CancelFunc
	ran    chan error
	closed chan struct{}

	mu    sync.Mutex
	feeds map[string]*feed // by raw id, and "" for what belongs to none
	all   []string
}

func (c *lineClient) read() {
	defer close(c.closed)
	r := bufio.NewReader(c.r)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			c.mu.Lock()
			for _, f := range c.feeds {
				close(f.c)
				close(f.ended)
			}
			c.feeds = map[string]*feed{}
			c.mu.Unlock()
			return
		}
		line = bytes.TrimSpace(line)
		env, _ := parseEnvelope(line)
		key := string(env.id)
		if env.id == nil {
			key = string(member(member(env.params, "_meta"), wire.MetaSubscriptionID))
		}
		c.mu.Lock()
		c.all = append(c.all, string(line))
		f := c.feeds[key]
		c.mu.Unlock()
		if f != nil {
			f.c <- string(line)
		}
	}
}

func (c *lineClient) send(message string) {
	c.t.Helper()
	if _, err := io.WriteString(c.w, message+"\n"); err != nil {
		c.t.Error(err)
	}
}

// feed gets what arrives for an id from now on.
func (c *lineClient) feed(id string) *feed {
	f := &feed{t: c.t, c: make(chan string, 5000), ended: make(chan struct{})}
	f.cancel = func() {
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
	}
	c.mu.Lock()
	c.feeds[id] = f
	c.mu.Unlock()
	return f
}

func (c *lineClient) rpc(id, method, params string) envelope {
	c.t.Helper()
	f := c.feed(id)
	c.send(c.mode.request(id, method, params))
	return f.want("")
}

func (c *lineClient) notify(method, params string) {
	c.t.Helper()
	c.send(c.mode.request("", method, params))
}

func (c *lineClient) stream(id, params string) *feed {
	c.t.Helper()
	f := c.feed(id)
	c.send(c.mode.request(id, wire.MethodStream, params))
	return f
}
