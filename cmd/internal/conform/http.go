package conform

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/useragent"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// An httpLink sends requests to the endpoint of an HTTP server.
type httpLink struct {
	url, token, other string
	client            *http.Client
	flows             sync.WaitGroup
	observe           func(*flow, message)

	mu                sync.Mutex
	revision, session string
}

// A notMCPError is the error for a response that an MCP server never sends.
type notMCPError struct {
	status      int
	contentType string
	reason      string
}

func (e *notMCPError) Error() string {
	return fmt.Sprintf("it answers %s: %s", strings.TrimSpace(fmt.Sprint(e.status, " ", wire.Shown(e.contentType))),
		e.reason)
}

// newHTTPLink returns a link to the server at url. If dial is nil, the link uses the system's network.
func newHTTPLink(url, token, other string, dial dialer, observe func(*flow, message)) *httpLink {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if dial != nil {
		transport.DialContext, transport.Proxy = dial, nil
	}
	transport.MaxIdleConnsPerHost = 4
	transport.ResponseHeaderTimeout = 40 * time.Second
	return &httpLink{url: url, token: token, other: other, observe: observe, client: &http.Client{Transport: transport,
		// A redirect would send the token to another server, and the report would describe that server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

func (l *httpLink) settle(revision, session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revision, l.session = revision, session
}

// do sends an HTTP request to the endpoint. method is the JSON-RPC method of its body.
func (l *httpLink) do(ctx context.Context, verb, method, token string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, verb, l.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	revision, session := l.revision, l.session
	l.mu.Unlock()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("User-Agent", useragent.Default())
	// Repeat a request that meets the end of an idle connection. A key without a value is not sent (http.Transport).
	r.Header["Idempotency-Key"] = []string{}
	if revision != "" && method != "initialize" {
		r.Header.Set(wire.HeaderProtocolVersion, revision)
	}
	if revision >= wire.RevisionStateless {
		r.Header.Set(wire.HeaderMethod, method)
	}
	if session != "" {
		r.Header.Set(wire.HeaderSessionID, session)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return l.client.Do(r)
}

func (l *httpLink) start(ctx context.Context, q request, body []byte) (*flow, error) {
	ctx, cancel := context.WithCancel(ctx)
	token := l.token
	switch {
	case q.omitsToken:
		token = ""
	case q.otherCaller:
		token = l.other
	}
	res, err := l.do(ctx, http.MethodPost, q.method, token, body)
	if err != nil {
		cancel()
		return nil, err
	}
	if err := limitOf(res); err != nil {
		res.Body.Close()
		cancel()
		return nil, err
	}
	f := newFlow(q.id, cancel, l.observe)
	f.date, _ = http.ParseTime(res.Header.Get("Date"))
	f.status, f.contentType, f.session = res.StatusCode, res.Header.Get("Content-Type"), res.Header.Get(wire.HeaderSessionID)
	l.flows.Go(func() {
		defer cancel()
		defer res.Body.Close()
		f.finish(f.read(res))
	})
	return f, nil
}

// read reads the messages in an HTTP response.
func (f *flow) read(res *http.Response) error {
	kind, _, _ := mime.ParseMediaType(f.contentType)
	bad := func(reason string) error { return &notMCPError{f.status, f.contentType, reason} }
	switch kind {
	case "application/json":
		data, err := io.ReadAll(io.LimitReader(res.Body, maxMessage+1))
		if err != nil {
			return err
		}
		if len(data) > maxMessage {
			return bad(fmt.Sprintf("more than %d bytes", maxMessage))
		}
		m, err := parse(data)
		if err != nil {
			return bad(err.Error())
		}
		f.add(m)
		return nil
	case "text/event-stream":
		return f.readEvents(res.Body, bad)
	}
	return bad("neither application/json nor text/event-stream")
}

// readEvents reads server-sent events until the body ends or the response message arrives.
func (f *flow) readEvents(body io.Reader, bad func(string) error) error {
	in := bufio.NewReaderSize(body, 64<<10)
	var data []byte
	size := 0
	for first := true; ; first = false {
		line, err := readLine(in)
		if first { // by the HTML standard, a leading byte order mark is not part of the stream
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if size += len(line); err == errTooLong || size > maxMessage {
			return bad(fmt.Sprintf("an SSE event of more than %d bytes", maxMessage))
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if bytes.HasPrefix(line, []byte(":")) {
			f.mu.Lock()
			f.comment = true
			f.mu.Unlock()
		}
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if len(data) > 0 {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		}
		if len(line) > 0 {
			continue
		}
		size = 0
		if len(data) == 0 {
			continue
		}
		m, err := parse(bytes.Clone(data))
		if err != nil {
			return bad(err.Error())
		}
		data = data[:0]
		f.add(m)
		if m.isResponse() {
			return nil
		}
	}
}

func (l *httpLink) notify(ctx context.Context, method string, params map[string]any) error {
	_, _, err := l.send(ctx, method, notification(method, params))
	return err
}

// send posts a message that has no response, and returns the status and the body of the HTTP response.
func (l *httpLink) send(ctx context.Context, method string, message []byte) (status int, body []byte, err error) {
	res, err := l.do(ctx, http.MethodPost, method, l.token, message)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(io.LimitReader(res.Body, 64<<10))
	return res.StatusCode, body, err
}

// close ends the MCP session, if there is one.
func (l *httpLink) close() {
	l.mu.Lock()
	session := l.session
	l.mu.Unlock()
	if session != "" {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if res, err := l.do(ctx, http.MethodDelete, "", l.token, nil); err == nil {
			res.Body.Close()
		}
	}
	l.flows.Wait()
	l.client.CloseIdleConnections()
}
