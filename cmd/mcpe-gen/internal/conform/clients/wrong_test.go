package clients

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A wrong client is right but for its fault. It speaks the stateless revision, with nothing of ours.
type wrongClient struct {
	fault          string
	n              *site
	url            string
	http           *http.Client
	stdout, stderr io.Writer
	ids            atomic.Int64

	mu     sync.Mutex
	seen   map[string]bool
	cursor json.RawMessage
}

func (w *wrongClient) is(faults ...string) bool { return slices.Contains(faults, w.fault) }

// wrongly is a program with a fault; "" is none.
func wrongly(fault string) client1 {
	return func(ctx context.Context, n *site, url string, stdout, stderr io.Writer) error {
		w := newWrong(fault, n, url, stdout, stderr)
		defer w.http.CloseIdleConnections()
		return w.run(ctx)
	}
}

func newWrong(fault string, n *site, url string, stdout, stderr io.Writer) *wrongClient {
	return &wrongClient{fault: fault, n: n, url: url, http: &http.Client{Transport: &http.Transport{DialContext: n.DialContext}},
		stdout: stdout, stderr: stderr, seen: map[string]bool{}, cursor: json.RawMessage("null")}
}

// A rpcError is what a server answered instead of a result; status is that of HTTP, when it is not 200.
type rpcError struct {
	Code   int64 `json:"code"`
	status int
	after  time.Duration
}

func (e *rpcError) Error() string { return fmt.Sprintf("error %d, status %d", e.Code, e.status) }

var errBad = errors.New("an answer that is none")

// send sends a request; the caller closes the body.
func (w *wrongClient) send(ctx context.Context, method string, params map[string]any) (*http.Response, error) {
	capabilities := map[string]any{"extensions": map[string]any{wire.ExtensionID: map[string]any{}}}
	if w.is("undeclared") {
		capabilities = map[string]any{}
	}
	params["_meta"] = map[string]any{wire.MetaProtocolVersion: wire.RevisionStateless, "io.modelcontextprotocol/clientCapabilities": capabilities}
	if w.is("no revision in _meta") {
		params["_meta"] = map[string]any{}
	}
	id := any(w.ids.Add(1))
	switch {
	case w.is("one id"):
		id = 1
	case w.is("ids are objects") && method != "server/discover":
		id = map[string]any{}
	}
	body, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	setHeaders(req, method)
	switch w.fault {
	case "plain text":
		req.Header.Set("Content-Type", "text/plain")
	case "accepts JSON alone":
		req.Header.Set("Accept", "application/json")
	case "accepts no JSON":
		req.Header.Set("Accept", "text/event-stream")
	case "no revision":
		req.Header.Del("Mcp-Protocol-Version")
	case "an unknown revision":
		req.Header.Set("Mcp-Protocol-Version", "2025-01-01")
	case "another revision":
		req.Header.Set("Mcp-Protocol-Version", "2027-01-01")
	case "no method":
		req.Header.Del("Mcp-Method")
	case "another method":
		req.Header.Set("Mcp-Method", "tools/list")
	}
	res, err := w.http.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		res.Body.Close()
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return nil, &rpcError{status: res.StatusCode, after: time.Duration(seconds) * time.Second}
	}
	return res, nil
}

// setHeaders sets the headers of a request of the stateless revision.
func setHeaders(req *http.Request, method string) {
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", wire.RevisionStateless)
	req.Header.Set("Mcp-Method", method)
}

func (w *wrongClient) call(ctx context.Context, method string, params map[string]any) (map[string]json.RawMessage, error) {
	res, err := w.send(ctx, method, params)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var m struct {
		Result map[string]json.RawMessage `json:"result"`
		Error  *rpcError                  `json:"error"`
	}
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return nil, err
	case json.Unmarshal(text, &m) != nil:
		return nil, errBad
	case m.Error != nil:
		return nil, m.Error
	case m.Result == nil, w.is("wants resultType") && m.Result["resultType"] == nil:
		return nil, errBad
	}
	if w.is("strict members") && m.Result["x-nobody"] != nil {
		return nil, errors.New("unknown member")
	}
	return m.Result, nil
}

func (w *wrongClient) run(ctx context.Context) error {
	hello, err := w.call(ctx, "server/discover", map[string]any{})
	if err != nil {
		return err
	}
	var c struct {
		Events     json.RawMessage            `json:"events"`
		Extensions map[string]json.RawMessage `json:"extensions"`
	}
	_ = json.Unmarshal(hello["capabilities"], &c)
	top, below := c.Events != nil && !w.is("only among extensions"), c.Extensions[wire.ExtensionID] != nil && !w.is("only at the top")
	if !top && !below && !w.is("asks anyway") {
		<-ctx.Done()
		return nil
	}
	if w.is("no name of a tool") {
		_, _ = w.call(ctx, "tools/call", map[string]any{"name": "look", "arguments": map[string]any{}})
	}
	var mode string
	for mode == "" {
		if mode, err = w.list(ctx); err != nil && !w.bear(ctx, err, time.Second) {
			return err
		}
	}
	if w.is("follows nothing") {
		<-ctx.Done()
		return nil
	}
	switch mode {
	case wire.ModePoll:
		err = w.poll(ctx)
	case wire.ModePush:
		err = w.push(ctx)
	default:
		err = w.hook(ctx)
	}
	return err
}

// bear waits before something is tried again, and reports whether it is.
func (w *wrongClient) bear(ctx context.Context, err error, pause time.Duration) bool {
	switch {
	case w.is("fragile") && (errors.Is(err, errBad) || errors.Is(err, io.ErrUnexpectedEOF)):
		<-ctx.Done()
	case w.is("no pause") && err != nil:
		pause = time.Millisecond
	case w.is("constant pauses"):
		pause = 500 * time.Millisecond
	}
	if pause <= 0 {
		return ctx.Err() == nil
	}
	return sleep(ctx, pause)
}

// list reads the list and returns the mode of its type.
func (w *wrongClient) list(ctx context.Context) (string, error) {
	got, err := w.call(ctx, wire.MethodList, map[string]any{})
	if err != nil {
		return "", err
	}
	var all []struct {
		Name     string   `json:"name"`
		Delivery []string `json:"delivery"`
	}
	if json.Unmarshal(got["events"], &all) != nil || len(all) == 0 {
		return "", errBad
	}
	for _, mode := range all[0].Delivery {
		if slices.Contains([]string{wire.ModePoll, wire.ModePush, wire.ModeWebhook}, mode) {
			return mode, nil
		}
		if w.is("only known modes") {
			return "", errors.New("unknown mode " + mode)
		}
	}
	return "", errBad
}

// following is the params of a request that follows.
func (w *wrongClient) following() map[string]any {
	w.mu.Lock()
	defer w.mu.Unlock()
	name, cursor := EventType, any(w.cursor)
	switch {
	case w.is("another type"):
		name = "tock"
	case w.is("null as text") && string(w.cursor) == "null" && w.ids.Load() > 2:
		cursor = "null"
	case w.is("begins at 0") && string(w.cursor) == "null":
		cursor = "0"
	case w.is("changes cursors"):
		cursor = json.RawMessage(strings.ToLower(string(w.cursor)))
	}
	return map[string]any{"name": name, "cursor": cursor}
}

// at moves the cursor.
func (w *wrongClient) at(cursor json.RawMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(cursor) == 0 {
		cursor = json.RawMessage("null")
	}
	w.cursor = cursor
}

func (w *wrongClient) take(raw json.RawMessage) bool {
	var e map[string]json.RawMessage
	var id string
	if json.Unmarshal(raw, &e) != nil || json.Unmarshal(e["eventId"], &id) != nil || w.is("strict events") && e["x-nobody"] != nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[id] && !w.is("no dedup") || w.is("drops") {
		return true
	}
	w.seen[id] = true
	fmt.Fprintln(w.stdout, id)
	if w.is("handles twice") {
		fmt.Fprintln(w.stdout, id)
	}
	if cursor := e["cursor"]; len(cursor) > 0 {
		w.cursor = cursor
	}
	return true
}

func (w *wrongClient) gap() {
	if !w.is("no gaps") {
		fmt.Fprintln(w.stderr, "a gap")
	}
}

// interrupted is after whatever broke off.
func (w *wrongClient) interrupted() {
	if w.is("forgets") {
		w.at(nil)
	}
}

// refused is what becomes of an error of the server: again, or the end.
func (w *wrongClient) refused(ctx context.Context, code int64) (again bool, err error) {
	notFound := code == -32011 && !w.is("SEP only") || code == -32023 && !w.is("sketch only") || code == -32014
	switch {
	case code == -32603 && w.is("no failures"):
		return false, errors.New("failed")
	case code == -32603, w.is("never stops"):
		return true, nil
	case notFound:
		for {
			if _, err := w.list(ctx); err == nil {
				return true, nil
			} else if !sleep(ctx, time.Second) {
				return false, nil
			}
		}
	case w.is("silent", "SEP only", "sketch only"):
		<-ctx.Done()
		return false, nil
	}
	fmt.Fprintln(w.stderr, "stopped by", code)
	<-ctx.Done()
	return false, nil
}

// failed decides after an error, the nth in a row, from 1.
func (w *wrongClient) failed(ctx context.Context, err error, n int) (again bool, end error) {
	if ctx.Err() != nil {
		return false, nil
	}
	w.interrupted()
	pause := 500 * time.Millisecond << min(n-1, 4)
	rpc, ok := errors.AsType[*rpcError](err)
	switch {
	case ok && rpc.Code != 0:
		if again, end := w.refused(ctx, rpc.Code); !again {
			return false, end
		}
	case ok && w.is("no 503"), !ok && w.is("no restart"):
		return false, err
	case ok && !w.is("no Retry-After"):
		pause = max(pause, rpc.after)
	}
	return w.bear(ctx, err, pause), nil
}

func (w *wrongClient) poll(ctx context.Context) error {
	if w.is("overlaps") {
		go func() {
			for sleep(ctx, time.Second) {
				go func() { _, _ = w.call(ctx, wire.MethodPoll, w.following()) }()
			}
		}()
	}
	for failures := 0; ctx.Err() == nil; {
		got, err := w.call(ctx, wire.MethodPoll, w.following())
		if w.is("crashes") {
			return ended("signal: segmentation fault")
		}
		if err != nil {
			failures++
			if again, err := w.failed(ctx, err, failures); !again {
				return err
			}
			continue
		}
		failures = 0
		var all []json.RawMessage
		_ = json.Unmarshal(got["events"], &all)
		odd := got["events"] == nil
		more := string(got["hasMore"]) == "true" && len(all) > 0
		if more && w.is("drops the last event of a page with more after it") {
			all = all[:len(all)-1]
		}
		for _, raw := range all {
			odd = !w.take(raw) || odd
		}
		if more && w.is("reads one page") {
			<-ctx.Done()
		}
		if odd && w.is("fragile") {
			<-ctx.Done()
		}
		truncated := string(got["truncated"]) == "true"
		if truncated {
			w.gap()
		}
		if !truncated || !w.is("keeps old cursors") {
			if got["cursor"] != nil || got["events"] == nil {
				w.at(got["cursor"])
			}
		}
		var next float64
		_ = json.Unmarshal(got["nextPollMs"], &next)
		wait := time.Duration(next) * time.Millisecond
		if w.is("own pace") {
			wait = time.Second
		}
		if !w.is("no floor") {
			wait = max(wait, time.Second)
		}
		switch {
		case w.is("floods"):
			wait = time.Microsecond
		case string(got["hasMore"]) == "true" && len(all) == 0 && !w.is("no drain"):
			wait = 10 * time.Millisecond
		}
		if wait > 0 && !sleep(ctx, wait) {
			return nil
		}
	}
	return nil
}

func (w *wrongClient) push(ctx context.Context) error {
	for failures, first := 0, true; ctx.Err() == nil; first = false {
		if w.is("leaves streams") && !first {
			<-ctx.Done()
		}
		err := w.stream(ctx)
		if errors.Is(err, io.EOF) {
			failures = 0
		}
		failures++
		if again, err := w.failed(ctx, err, failures); !again {
			return err
		}
	}
	return nil
}

// stream reads one stream, and says why it ended.
func (w *wrongClient) stream(parent context.Context) error {
	ctx, cancel := context.WithCancel(parent)
	if !w.is("leaves dead streams open", "one id") {
		defer cancel()
	}
	res, err := w.send(ctx, wire.MethodStream, w.following())
	if err != nil {
		cancel()
		return err
	}
	if kind := res.Header.Get("Content-Type"); kind != "text/event-stream" {
		defer res.Body.Close()
		defer cancel()
		var m struct {
			Error *rpcError `json:"error"`
		}
		if json.NewDecoder(res.Body).Decode(&m) != nil || m.Error == nil {
			return errBad
		}
		return m.Error
	}
	lines := make(chan string)
	go func() {
		defer res.Body.Close()
		defer close(lines)
		for r := bufio.NewReader(res.Body); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			select {
			case lines <- line:
			case <-parent.Done():
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		if parent.Err() != nil {
			cancel()
		}
	}()
	patience, beats, last, actives := time.Minute, 0, time.Now(), 0
	for {
		var dead <-chan time.Time
		if !w.is("believes") {
			t := time.NewTimer(patience)
			defer t.Stop()
			dead = t.C
		}
		var line string
		var ok bool
	next:
		for {
			select {
			case line, ok = <-lines:
				if !ok {
					return io.EOF
				}
				if strings.HasPrefix(line, "data: ") || strings.HasPrefix(line, ":") && w.is("comments are heartbeats") {
					break next
				}
			case <-dead:
				return io.EOF
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		var m struct {
			Method string
			Params map[string]json.RawMessage
			Result json.RawMessage
			Error  *rpcError
		}
		data, isData := strings.CutPrefix(line, "data: ")
		if !isData {
			continue
		}
		if json.Unmarshal([]byte(data), &m) != nil {
			return errBad
		}
		switch m.Method {
		case wire.NotificationActive:
			if w.is("leaves streams") {
				return io.EOF
			}
			w.at(m.Params["cursor"])
			truncated := string(m.Params["truncated"]) == "true"
			if actives++; w.is("fragile") && actives > 1 {
				return errBad
			}
			if truncated {
				w.gap()
				if actives > 1 && w.is("gaps end streams") {
					return io.EOF
				}
			}
		case wire.NotificationEvent:
			w.take(mustJSON(m.Params))
		case wire.NotificationHeartbeat:
			w.at(m.Params["cursor"])
			if beats++; beats > 1 && !w.is("patient") {
				patience = 2*time.Since(last) + time.Second
			}
			last = time.Now()
		case wire.NotificationError:
			if w.is("errors end streams") {
				return io.EOF
			}
		case wire.NotificationTerminated:
			var e rpcError
			_ = json.Unmarshal(m.Params["error"], &e)
			if e.Code == -32014 && !w.is("schema loop") {
				w.at(nil)
			}
			if e.Code == 0 {
				e.Code = -1
			}
			return &e
		case "":
			if m.Error != nil {
				return m.Error
			}
			return io.EOF
		}
	}
}

func mustJSON(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

func (w *wrongClient) hook(ctx context.Context) error {
	l, host := w.n.open("callback")
	secret := make([]byte, 32)
	if w.is("short secrets") {
		secret = secret[:8]
	}
	rand.Read(secret)
	delivery := map[string]any{"mode": wire.ModeWebhook, "url": "https://" + host + "/cb", "secret": "whsec_" + base64.StdEncoding.EncodeToString(secret)}
	if w.is("http callbacks") {
		delivery["url"] = "http://" + host + "/cb"
	}
	again := make(chan struct{}, 10)
	server := &http.Server{Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) { w.called(out, r, again) }),
		TLSConfig: memnet.ServerTLS()}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.ServeTLS(l, "", "") })
	defer serving.Wait()
	defer server.Close()
	defer func() {
		if w.is("never unsubscribes") {
			return
		}
		ending, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_, _ = w.call(ending, wire.MethodUnsubscribe, map[string]any{"name": EventType, "delivery": map[string]any{"url": delivery["url"]}})
	}()
	for failures, n := 0, 0; ctx.Err() == nil; n++ {
		params := w.following()
		params["delivery"] = delivery
		if n > 0 && w.is("no cursors on refresh") {
			params["cursor"] = nil
		}
		if n > 0 && w.is("another callback") {
			delivery["url"] = fmt.Sprint("https://", host, "/cb", n)
		}
		got, err := w.call(ctx, wire.MethodSubscribe, params)
		var id string
		if err == nil && (json.Unmarshal(got["id"], &id) != nil || id == "") {
			err = errBad
		}
		if err != nil {
			failures++
			if again, err := w.failed(ctx, err, failures); !again {
				return err
			}
			continue
		}
		failures = 0
		var before time.Time
		if json.Unmarshal(got["refreshBefore"], &before) != nil || before.IsZero() {
			if w.is("fragile") {
				_ = server.Close()
				<-ctx.Done()
			}
			before = time.Now().Add(30 * time.Minute)
		}
		w.mu.Lock()
		if string(w.cursor) == "null" {
			w.cursor = got["cursor"]
		}
		if len(w.cursor) == 0 {
			w.cursor = json.RawMessage("null")
		}
		w.mu.Unlock()
		wait := time.Until(before) * 2 / 3
		switch {
		case w.is("never refreshes"):
			wait = time.Hour
		case w.is("refreshes late"):
			wait = time.Until(before) * 97 / 100
		}
		t := time.NewTimer(max(wait, 100*time.Millisecond))
		select {
		case <-t.C:
		case <-again:
			if again, err := w.refused(ctx, -32011); !again {
				return err
			}
		case <-ctx.Done():
		}
		t.Stop()
	}
	return nil
}

// called answers a callback. Signatures are the business of another judge.
func (w *wrongClient) called(out http.ResponseWriter, r *http.Request, again chan struct{}) {
	if !strings.HasPrefix(r.UserAgent(), "mcpe-gen") { // as firewalls do
		out.WriteHeader(http.StatusForbidden)
		return
	}
	body, _ := io.ReadAll(r.Body)
	for text := ""; w.is("hanging callback", "dripping callback", "flooding callback"); {
		switch {
		case w.is("dripping callback"):
			text = "x"
		case w.is("flooding callback"):
			text = strings.Repeat("x", 1<<20)
		}
		if _, err := io.WriteString(out, text); err != nil || http.NewResponseController(out).Flush() != nil || !sleep(r.Context(), time.Second) {
			return
		}
	}
	var m map[string]json.RawMessage
	_ = json.Unmarshal(body, &m)
	var kind string
	_ = json.Unmarshal(m["type"], &kind)
	switch {
	case kind == wire.EnvelopeVerification && !w.is("no challenge"):
		fmt.Fprintf(out, `{"challenge":%s}`, m["challenge"])
	case kind == wire.EnvelopeGap && w.is("refuses gaps"), kind == wire.EnvelopeTerminated && w.is("refuses terminations"),
		kind == "" && w.is("refuses events"):
		out.WriteHeader(http.StatusBadRequest)
	case kind == wire.EnvelopeGap:
		w.gap()
	case kind == wire.EnvelopeTerminated && !w.is("ignores terminations"):
		again <- struct{}{}
	case kind == "":
		w.take(body)
	}
}
