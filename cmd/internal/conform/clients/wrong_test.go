package clients

import (
	"bytes"
	"context"
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
	"unicode"

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
	order  []string // of seen ids
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
	if w.is("does-not-declare-extension") {
		capabilities = map[string]any{}
	}
	params["_meta"] = map[string]any{wire.MetaProtocolVersion: wire.RevisionStateless, "io.modelcontextprotocol/clientCapabilities": capabilities}
	if w.is("names-no-revision-meta") {
		params["_meta"] = map[string]any{}
	}
	id := any(w.ids.Add(1))
	switch {
	case w.is("one-request-id"):
		id = 1
	case w.is("makes-ids-objects") && method != "server/discover":
		id = map[string]any{}
	}
	body, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	setHeaders(req, method)
	switch w.fault {
	case "sends-plain-text":
		req.Header.Set("Content-Type", "text/plain")
	case "accepts-json-alone":
		req.Header.Set("Accept", "application/json")
	case "accepts-no-json":
		req.Header.Set("Accept", "text/event-stream")
	case "names-no-revision":
		req.Header.Del("Mcp-Protocol-Version")
	case "names-unknown-revision":
		req.Header.Set("Mcp-Protocol-Version", "2025-01-01")
	case "names-another-revision-meta":
		req.Header.Set("Mcp-Protocol-Version", "2027-01-01")
	case "names-no-method":
		req.Header.Del("Mcp-Method")
	case "names-another-method":
		req.Header.Set("Mcp-Method", "tools/list")
	}
	res, err := w.http.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		res.Body.Close()
		seconds, failed := strconv.Atoi(res.Header.Get("Retry-After"))
		after := time.Duration(seconds) * time.Second
		if at, err := http.ParseTime(res.Header.Get("Retry-After")); failed != nil && err == nil && !w.is("reads-retry-after-seconds-only") {
			after = time.Until(at)
		}
		return nil, &rpcError{status: res.StatusCode, after: after}
	}
	if w.is("requires-exact-content-type") && strings.Contains(res.Header.Get("Content-Type"), ";") {
		res.Body.Close()
		return nil, errBad
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
	case m.Result == nil, w.is("requires-result-type") && m.Result["resultType"] == nil:
		return nil, errBad
	}
	if w.is("refuses-unknown-members") && m.Result["x-nobody"] != nil {
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
	top, below := c.Events != nil && !w.is("finds-capability-among-extensions-only"), c.Extensions[wire.ExtensionID] != nil && !w.is("finds-capability-top-level-only")
	if !top && !below && !w.is("asks-anyway") {
		<-ctx.Done()
		return nil
	}
	if w.is("names-no-tool") {
		_, _ = w.call(ctx, "tools/call", map[string]any{"name": "look", "arguments": map[string]any{}})
	}
	var mode string
	for mode == "" {
		if mode, err = w.list(ctx); err != nil && w.is("silent-on-malformed-list") {
			<-ctx.Done()
		}
		if err != nil && w.is("hangs-after-start-failure") {
			<-ctx.Done()
		}
		if err != nil && !w.bear(ctx, err, time.Second) {
			return err
		}
	}
	if w.is("follows-nothing") {
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
	case w.is("silent-on-malformed") && (errors.Is(err, errBad) || errors.Is(err, io.ErrUnexpectedEOF)):
		<-ctx.Done()
	case w.is("makes-no-pauses-after-failures") && err != nil, w.is("reopens-without-pause") && errors.Is(err, io.EOF):
		pause = time.Millisecond
	case w.is("makes-constant-pauses"):
		pause = 500 * time.Millisecond
	}
	if pause <= 0 {
		return ctx.Err() == nil
	}
	return sleep(ctx, pause)
}

// list reads the list and returns the mode of its type.
func (w *wrongClient) list(ctx context.Context) (string, error) {
	type entry struct {
		Name     string   `json:"name"`
		Delivery []string `json:"delivery"`
	}
	var all []entry
	for params := map[string]any{}; ; {
		got, err := w.call(ctx, wire.MethodList, params)
		if err != nil {
			return "", err
		}
		var page []entry
		if json.Unmarshal(got["events"], &page) != nil {
			return "", errBad
		}
		if all = append(all, page...); got["nextCursor"] == nil || w.is("reads-one-page-list") {
			break
		}
		params["cursor"] = got["nextCursor"]
	}
	if len(all) == 0 {
		return "", errBad
	}
	for _, mode := range all[0].Delivery {
		if slices.Contains([]string{wire.ModePoll, wire.ModePush, wire.ModeWebhook}, mode) {
			return mode, nil
		}
		if w.is("refuses-types-unknown-modes") {
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
	case w.is("asks-another-type"):
		name = "tock"
	case w.is("sends-null-cursor-text") && string(w.cursor) == "null" && w.ids.Load() > 2:
		cursor = "null"
	case w.is("begins-at-0") && string(w.cursor) == "null":
		cursor = "0"
	case w.is("changes-cursors"):
		cursor = json.RawMessage(strings.ToLower(string(w.cursor)))
	case w.is("sends-numeric-cursors"):
		if n, err := strconv.ParseFloat(strings.Trim(string(w.cursor), `"`), 64); err == nil && len(w.cursor) > 18 {
			cursor = n
		}
	case w.is("trims-cursors"):
		cursor = trimmed(w.cursor)
	}
	return map[string]any{"name": name, "cursor": cursor}
}

// trimmed returns a cursor without white space around it.
func trimmed(cursor json.RawMessage) any {
	var text string
	if string(cursor) == "null" || json.Unmarshal(cursor, &text) != nil {
		return cursor
	}
	return strings.TrimSpace(text)
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

// isFirst reports whether an id comes for the first time.
func (w *wrongClient) isFirst(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := !w.seen[id]
	w.seen[id] = true
	return first
}

func (w *wrongClient) take(raw json.RawMessage) bool {
	var e map[string]json.RawMessage
	var id string
	if json.Unmarshal(raw, &e) != nil || json.Unmarshal(e["eventId"], &id) != nil || w.is("drops-unknown-members") && e["x-nobody"] != nil {
		return false
	}
	if w.refusesForm(raw, e) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := id
	switch w.fault {
	case "ignores-case-of-ids":
		key = strings.ToUpper(id)
	case "compares-encoded-ids":
		id = strings.Trim(string(e["eventId"]), `"`)
	case "truncates-ids":
		key = id[:min(len(id), 20)]
	}
	if w.seen[key] && !w.is("handles-repeats", "identifies-by-webhook-id") || w.is("handles-nothing") {
		return true
	}
	if w.order = append(w.order, key); w.is("remembers-ten-ids") && len(w.order) > 10 {
		delete(w.seen, w.order[0])
		w.order = w.order[1:]
	}
	w.seen[key] = true
	fmt.Fprintln(w.stdout, id)
	if w.is("handles-twice") {
		fmt.Fprintln(w.stdout, id)
	}
	if cursor := e["cursor"]; len(cursor) > 0 {
		w.cursor = cursor
	}
	return true
}

// refusesForm reports whether a fault makes the client drop a valid event because of its form.
func (w *wrongClient) refusesForm(raw json.RawMessage, e map[string]json.RawMessage) bool {
	switch w.fault {
	case "requires-data-members":
		return string(e["data"]) == "{}"
	case "reads-utc-timestamps-only":
		return !strings.HasSuffix(string(e["timestamp"]), `Z"`)
	case "reads-data-as-integers":
		return strings.Contains(string(e["data"]), "1e300")
	case "reads-8-kib":
		return len(raw) > 8<<10
	case "reads-64-kib":
		return len(raw) > 64<<10
	case "drops-old-events":
		return strings.Contains(string(e["timestamp"]), "1999")
	case "reads-ascii-only":
		return strings.ContainsFunc(string(e["data"]), func(r rune) bool { return r > unicode.MaxASCII })
	case "requires-own-members":
		return e["version"] != nil
	case "matches-id-pattern":
		return strings.Contains(string(e["eventId"]), "/")
	}
	return false
}

func (w *wrongClient) gap() {
	if !w.is("does-not-report-gaps") {
		fmt.Fprintln(w.stderr, "a gap")
	}
}

// interrupted is after whatever broke off.
func (w *wrongClient) interrupted() {
	if w.is("forgets-cursor-break") {
		w.at(nil)
	}
}

// refused is what becomes of an error of the server: again, or the end.
func (w *wrongClient) refused(ctx context.Context, code int64) (again bool, err error) {
	notFound := code == -32011 && !w.is("knows-sep-codes-only", "stops-at-sketch-codes") ||
		code == -32023 && !w.is("knows-sketch-codes-only", "stops-at-sep-codes") || code == -32014
	switch {
	case code == -32603 && w.is("ends-failure-upstream"):
		return false, errors.New("failed")
	case code == -32603, w.is("goes-on-after-forbidden"):
		return true, nil
	case notFound:
		for {
			if _, err := w.list(ctx); err == nil {
				return true, nil
			} else if !sleep(ctx, time.Second) {
				return false, nil
			}
		}
	case w.is("silent-on-errors", "knows-sep-codes-only", "knows-sketch-codes-only"):
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
	if w.is("hangs-after-start-failure") && string(w.cursor) == "null" {
		<-ctx.Done()
	}
	switch {
	case ok && rpc.Code != 0:
		if again, end := w.refused(ctx, rpc.Code); !again {
			return false, end
		}
	case ok && w.is("ends-status-503"), !ok && w.is("ends-restart"):
		return false, err
	case ok && !w.is("ignores-retry-after"):
		pause = max(pause, rpc.after)
	}
	return w.bear(ctx, err, pause), nil
}

func (w *wrongClient) poll(ctx context.Context) error {
	if w.is("overlaps-polls") {
		go func() {
			for sleep(ctx, time.Second) {
				go func() { _, _ = w.call(ctx, wire.MethodPoll, w.following()) }()
			}
		}()
	}
	for failures := 0; ctx.Err() == nil; {
		got, err := w.call(ctx, wire.MethodPoll, w.following())
		if w.is("crashes-after-poll") {
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
		if more && w.is("drops-last-of-page") {
			all = all[:len(all)-1]
		}
		truncated := string(got["truncated"]) == "true"
		if truncated && w.is("drops-truncated-pages") {
			all = nil
		}
		for _, raw := range all {
			odd = !w.take(raw) || odd
		}
		if odd && w.is("reads-8-kib", "reads-64-kib") {
			continue
		}
		if more && w.is("reads-one-page") {
			<-ctx.Done()
		}
		if odd && w.is("silent-on-malformed") {
			<-ctx.Done()
		}
		if truncated {
			w.gap()
		}
		if !truncated || !w.is("keeps-old-cursors") {
			quiet := len(all) == 0 && string(w.cursor) != "null" && w.is("ignores-quiet-pages")
			if (got["cursor"] != nil || got["events"] == nil) && !quiet {
				w.at(got["cursor"])
			}
		}
		var next float64
		_ = json.Unmarshal(got["nextPollMs"], &next)
		wait := time.Duration(next) * time.Millisecond
		if w.is("ignores-next-poll") {
			wait = time.Second
		}
		if !w.is("polls-loop") {
			wait = max(wait, time.Second)
		}
		switch {
		case w.is("floods"):
			wait = time.Microsecond
		case string(got["hasMore"]) == "true" && !w.is("ignores-has-more"):
			wait = 10 * time.Millisecond
		}
		if wait > 0 && !sleep(ctx, wait) {
			return nil
		}
	}
	return nil
}
