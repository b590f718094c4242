package conform

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// nextID returns an unused JSON-RPC request ID.
func (r *run) nextID() json.RawMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids++
	return fmt.Appendf(nil, "%d", r.ids)
}

// call sends a request with the given method and waits for the response.
func (r *run) call(ctx context.Context, method string, params map[string]any) (*exchange, error) {
	return r.send(ctx, request{method: method, params: params})
}

// mustSend sends a request and checks that the response is a result.
func (r *run) mustSend(ctx context.Context, q request, expected string) (*exchange, error) {
	x, err := r.send(ctx, q)
	if err == nil {
		err = x.refused(expected)
	}
	return x, err
}

// expectResult calls a method and checks that the response is a result.
func (r *run) expectResult(ctx context.Context, method string, params map[string]any, expected string) error {
	_, err := r.mustSend(ctx, request{method: method, params: params}, expected)
	return err
}

// expectCallError calls a method and checks that the response is an error of the kind.
func (r *run) expectCallError(ctx context.Context, method string, params map[string]any, kind wire.Kind) error {
	x, err := r.call(ctx, method, params)
	if err != nil {
		return err
	}
	return r.expectError(x, kind)
}

// send sends a request and waits for the response.
func (r *run) send(ctx context.Context, q request) (*exchange, error) {
	q.within = cmp.Or(q.within, r.o.pace.call)
	f, x, err := r.open(ctx, q)
	if err != nil {
		return x, err
	}
	defer f.stop()
	x, err = f.response(f.ctx, x.request)
	x.took = time.Since(f.sent)
	r.record(ctx, x)
	r.mu.Lock()
	if f.session != "" && q.method == methodInitialize {
		r.session = f.session
	}
	r.mu.Unlock()
	r.noteRefusal(ctx, q, x)
	return x, err
}

// A checkKey is the key of a context's value that is set during a check.
type checkKey struct{}

// isChecking reports whether ctx is the context of a check, rather than of a watcher.
func isChecking(ctx context.Context) bool { return ctx.Value(checkKey{}) != nil }

// record stores an exchange as the latest one of the check.
func (r *run) record(ctx context.Context, x *exchange) {
	if !isChecking(ctx) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastExchange = x
}

// errLimited is the error of a request that the server limited again after the wait that it had asked for.
const errLimited = verdict.UnjudgedError("the server limits requests")

// open sends a request and returns the flow of its messages. If the server limits requests, it waits as told and sends
// the request again, once. The caller stops the flow.
func (r *run) open(ctx context.Context, q request) (*flow, *exchange, error) {
	if q.id == nil {
		q.id = r.nextID()
	}
	x := &exchange{request: q.encode(r.revision)}
	r.record(ctx, x)
	for again := false; ; again = true {
		if err := r.gate.pass(ctx); err != nil {
			return nil, x, err
		}
		f, err := r.begin(ctx, q, x.request)
		limited, ok := errors.AsType[*limitedError](err)
		if !ok {
			return f, x, err
		}
		if r.gate.shut(limited.wait, r.o.pace.limited); again || limited.wait > r.o.pace.limited {
			return nil, x, errLimited
		}
	}
}

// begin sends a request once. Unless q.within is 0, its flow ends after that time.
func (r *run) begin(ctx context.Context, q request, body []byte) (*flow, error) {
	limit, cancel := ctx, context.CancelFunc(func() {})
	if q.within > 0 {
		limit, cancel = context.WithTimeoutCause(ctx, q.within, fmt.Errorf("no answer within %v", q.within))
	}
	sent := time.Now()
	f, err := r.link.start(limit, q, body)
	if err != nil {
		cancel()
		return nil, err
	}
	stop := f.stop
	f.ctx, f.sent, f.stop = limit, sent, func() { stop(); cancel() }
	return f, nil
}

// A limitedError is the error of a request that the server refuses to everybody for a while.
type limitedError struct{ wait time.Duration }

func (e *limitedError) Error() string { return "the server limits requests for " + e.wait.String() }

// limitOf returns the error for an HTTP response that asks the client to wait, or nil.
func limitOf(res *http.Response) error {
	text := res.Header.Get("Retry-After")
	if res.StatusCode != http.StatusTooManyRequests && (res.StatusCode != http.StatusServiceUnavailable || text == "") {
		return nil
	}
	now, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	pause, ok := wire.RetryAfter(text, now)
	if !ok {
		pause = time.Second
	}
	return &limitedError{max(pause, 0)}
}

// A gate delays requests after the server has limited them, and spaces them from then on.
type gate struct {
	mu sync.Mutex
	// next is when the next request may begin, and opens is when the last wait ends. space is the time between requests.
	next, opens time.Time
	space       time.Duration
	// refusals counts the limited requests.
	refusals int
}

// pass waits until a request may begin.
func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	if g.space == 0 {
		g.mu.Unlock()
		return nil
	}
	at := g.next
	if now := time.Now(); at.Before(now) {
		at = now
	}
	g.next = at.Add(g.space)
	g.mu.Unlock()
	pause(ctx, time.Until(at))
	return ctx.Err()
}

// These limits apply to the time between requests once the server has limited one.
const minSpace, maxSpace = 100 * time.Millisecond, time.Second

// shut delays requests by the given time, unless it is longer than most. It spaces them further if the server has
// limited them despite the space.
func (g *gate) shut(wait, most time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refusals++
	if wait > most {
		return
	}
	now := time.Now()
	if now.After(g.opens) {
		g.space = min(max(2*g.space, minSpace), maxSpace)
	}
	g.opens = now.Add(wait)
	if g.next.Before(g.opens) {
		g.next = g.opens
	}
}

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refusals
}

// verbs describe the methods that a server may refuse to a caller.
var verbs = map[string]string{wire.MethodList: "list", wire.MethodPoll: "poll", wire.MethodStream: "stream", wire.MethodSubscribe: "subscribe to",
	wire.MethodUnsubscribe: "unsubscribe from"}

// noteRefusal records in the exchange that the server may always give its answer: the caller is not authorized, or has
// reached a quota. A refusal after a grant is a fault.
func (r *run) noteRefusal(ctx context.Context, q request, x *exchange) {
	if q.omitsToken || q.otherCaller || x.answer.raw == nil {
		return
	}
	name, _ := q.params["name"].(string)
	key := q.method + " " + name
	if q.method == wire.MethodSubscribe || q.method == wire.MethodUnsubscribe {
		key = string(verdict.Encode(keyOf(q.params)))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case x.answer.err == nil && q.method == wire.MethodUnsubscribe:
		delete(r.granted, key)
	case x.answer.err == nil:
		r.granted[key], r.granted[q.method+" "+name] = true, true
		if q.method == wire.MethodSubscribe && isChecking(ctx) {
			r.opened = append(r.opened, keyOf(q.params))
		}
	case isKind(x, wire.Forbidden) && !r.granted[q.method+" "+name]:
		option := "--token"
		if r.o.Target.Token != "" {
			option = "the --token of another caller"
		}
		x.refusal = skipf("the caller may not %s %s; try %s", verbs[q.method], wire.Shown(name), option)
	case isKind(x, wire.ResourceExhausted) && (q.method != wire.MethodSubscribe || !r.granted[key]):
		x.refusal = skipf("the caller may not %s %s so often, or no more at once", verbs[q.method], wire.Shown(name))
	}
}

// isKind reports whether the response is an error of the kind, in either code family.
func isKind(x *exchange, k wire.Kind) bool {
	e := x.answer.err
	return e != nil && (e.Code == wire.Sketch.Code(k) || e.Code == wire.SEP.Code(k))
}

// refused returns nil if the response is a result. For an error, it returns the reason to skip the check if the server
// may always give that answer, and otherwise a violation.
func (x *exchange) refused(expected string) error {
	switch {
	case x.answer.err == nil:
		return nil
	case x.refusal != nil:
		return x.refusal
	}
	return x.violation(expected, "error %d", x.answer.err.Code)
}
