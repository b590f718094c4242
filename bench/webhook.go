package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/mcpe-gen/mcpe-gen/bench/sample"
	"github.com/mcpe-gen/mcpe-gen/bench/sample/sampleserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

const (
	hookSubscriptions = 64 // for measuring deliveries, at one receiver
	hookWorkers       = 16 // concurrent posts to one host, on both sides
)

// Arguments of subscriptions, with which the emitted incident matches or not.
const (
	matching    = `{"incident":"INC-1234"}`
	notMatching = `{"incident":"INC-x$i"}`
)

// counts contains the totals of a receiver.
type counts struct {
	Requests    int64 `json:"requests"`
	Connections int64 `json:"connections"`
}

// serveReceiver accepts every POST request and counts requests and connections.
func serveReceiver(mux *http.ServeMux, _ string) error {
	var requests, connections atomic.Int64
	var seen sync.Map // by address
	onGet(mux, "/admin/counts", func(*http.Request) (any, error) { return counts{requests.Load(), connections.Load()}, nil })
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if _, again := seen.LoadOrStore(r.RemoteAddr, true); !again {
			connections.Add(1)
		}
		requests.Add(1)
		w.WriteHeader(http.StatusNoContent)
	})
	return nil
}

// counts returns the totals of a receiver.
func (b *bench) counts(receiver *process) (c counts) {
	b.check(receiver.ask("/admin/counts", &c))
	return c
}

// openStore opens the store that place specifies: the URL of a PostgreSQL database, in which each process has its own
// schema, the directory of a SQLite database, or "memory".
func openStore(ctx context.Context, place string) (store.Store, error) {
	switch {
	case place == "memory":
		return nil, nil
	case strings.HasPrefix(place, "postgres"):
		return postgres.Open(ctx, place, postgres.Options{Schema: fmt.Sprintf("bench_%d", os.Getpid())})
	}
	return sqlite.Open(ctx, filepath.Join(place, "events.db"), sqlite.Options{})
}

// serveWebhook serves a server with webhooks. place consists of the receiver's URL, the store and the maximum number of
// stored attempts of each subscription (-1: none). The operators' console is on /ops/.
func serveWebhook(mux *http.ServeMux, place string) error {
	var receiver, stored string
	var attempts int
	if _, err := fmt.Sscan(place, &receiver, &stored, &attempts); err != nil {
		return err
	}
	st, err := openStore(context.Background(), stored)
	if err != nil {
		return err
	}
	es, err := hookServer(receiver, st, attempts)
	if err != nil {
		return err
	}
	emitter, err := sampleserver.RegisterBenchSample(es, sampleserver.BenchSampleHooks{})
	if err != nil {
		return err
	}
	emit := func() error { return emitter.Emit(context.Background(), payload()) }
	onSubscribe(mux, es, sample.BenchSampleEventName, receiver)
	onEmit(mux, emit)
	onEmitCost(mux, emit)
	onGet(mux, "/admin/close", func(*http.Request) (any, error) { return nil, st.Close() })
	return serveOperators(mux, es)
}

// onSubscribe handles the requests of bench.subscribe. It adds many subscriptions concurrently, because a store may
// write them in one step.
func onSubscribe(mux *http.ServeMux, es *server.Server, event, receiver string) {
	onGet(mux, "/admin/subscribe", func(r *http.Request) (any, error) {
		q := r.URL.Query()
		n, err := strconv.Atoi(q.Get("n"))
		g, ctx := errgroup.WithContext(r.Context())
		g.SetLimit(64)
		for i := range n {
			numbered := strings.NewReplacer("$i", strconv.Itoa(i))
			principal, arguments := numbered.Replace(q.Get("principal")), numbered.Replace(q.Get("arguments"))
			g.Go(func() error {
				_, err := es.Admin().Subscribe(ctx, operator.SubscribeRequest{SubscriptionKey: operator.SubscriptionKey{
					Principal: principal, Event: event, URL: fmt.Sprintf("%s/%s/%d", receiver, principal, i), Arguments: json.RawMessage(arguments)}})
				return err
			})
		}
		return nil, errors.Join(err, g.Wait())
	})
}

// subscribe makes a server create n webhook subscriptions. Each $i in the principal and the arguments is replaced by the
// subscription's number. The principal begins the path of the URLs.
func (b *bench) subscribe(p *process, n int, principal, arguments string) {
	q := url.Values{"n": {strconv.Itoa(n)}, "principal": {principal}, "arguments": {arguments}}
	b.tell(p, "/admin/subscribe?"+q.Encode())
}

// A cost is the cost of an emit in seconds.
type cost struct {
	Took float64 `json:"took"`
	CPU  float64 `json:"cpu"` // of the whole process
}

// onEmitCost handles requests for the cost of an emit.
func onEmitCost(mux *http.ServeMux, emit func() error) {
	onGet(mux, "/admin/emitcost", func(*http.Request) (any, error) {
		const n = 300
		var c cost
		used := cpuTime()
		for range n {
			begin := time.Now()
			if err := emit(); err != nil {
				return nil, err
			}
			c.Took += time.Since(begin).Seconds() / n
			time.Sleep(3 * time.Millisecond) // let the deliveries of this emit finish
		}
		c.CPU = (cpuTime() - used).Seconds() / n
		return c, nil
	})
}

// emitCost returns the cost of an emit at a server.
func (b *bench) emitCost(p *process) (c cost) {
	b.check(p.ask("/admin/emitcost", &c))
	return c
}

// hookServer returns a server without event types that sends all webhooks to one receiver.
func hookServer(receiver string, st store.Store, attempts int) (*server.Server, error) {
	o := server.Options{
		Store:       st,
		MemoryQuota: server.Quota{PerPrincipal: -1, Total: -1},
		Logger:      slog.New(slog.DiscardHandler),
		Principal:   func(context.Context, *mcp.RequestExtra) string { return "bench" },
		Webhooks: webhooks.New(webhooks.Options{
			Callbacks: callbacks.Options{AllowOrigins: []string{receiver}}, AllowReceivers: []string{receiver},
			Quota:    webhooks.Quota{PerPrincipal: -1, Total: -1},
			Verify:   webhooks.Verify{PerPrincipal: -1, Total: -1},
			Attempts: webhooks.Attempts{PerSubscription: attempts},
			Retry:    webhooks.Retry{PerHost: hookWorkers},
		}),
		Operators: operators.New(),
	}
	if _, shared := st.(engine.Shared); shared {
		o.Replicas = replicas.New(replicas.Options{})
	}
	return server.New(newServer(), o)
}

// benchWebhook measures deliveries to 64 subscriptions at one receiver.
func benchWebhook(b *bench) {
	receiver := b.start("receiver")
	ours := b.start("webhook", receiver.base, "memory", 0)
	b.subscribe(ours, hookSubscriptions, "hooks", matching)
	var opened int64
	m := b.inTurns(func() float64 { return postSigned(b, receiver) }, func() float64 {
		before := b.counts(receiver)
		r := deliver(b, ours, receiver)
		opened += b.counts(receiver).Connections - before.Connections
		return r
	})
	b.against(fmt.Sprintf("webhook deliveries, %d subscriptions at one host", hookSubscriptions), m[0], m[1], rate, "≥ 0.75")
	b.within("connections opened for them", []float64{float64(opened)}, hookWorkers, count)
}

// deliver emits in bursts and returns the deliveries per second.
func deliver(b *bench, ours, receiver *process) float64 {
	first := b.counts(receiver)
	begin, want := time.Now(), first.Requests
	for time.Since(begin) < b.duration {
		b.emit(ours, 32)
		want += 32 * hookSubscriptions
		// The next burst starts while a quarter of this one is in flight.
		b.waitRequests(receiver, want-8*hookSubscriptions)
	}
	b.waitRequests(receiver, want)
	return float64(want-first.Requests) / time.Since(begin).Seconds()
}

// waitRequests waits until a receiver has accepted n requests.
func (b *bench) waitRequests(receiver *process, n int64) {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		arrived := b.counts(receiver).Requests
		if arrived >= n {
			return
		}
		if time.Now().After(deadline) {
			b.check(fmt.Errorf("%d of %d deliveries arrived", arrived, n))
		}
	}
}

// postSigned signs and posts prebuilt bytes over keep-alive connections. It returns the posts per second.
func postSigned(b *bench, receiver *process) float64 {
	data, err := json.Marshal(payload())
	b.check(err)
	body := []byte(`{"eventId":"0197a3c4-7f00-7000-8000-000000000000","name":"bench.sample","timestamp":"2026-11-20T07:00:00.123456789Z","data":` + string(data) + `,"cursor":"AQJr0wAAAAAAAAABAAAAAAAAAAE"}`)
	key := bytes.Repeat([]byte("k"), 32)
	hc := keepAlive(hookWorkers)
	defer hc.CloseIdleConnections()
	posts, _, err := closedLoop(b, hookWorkers, b.duration, func(ctx context.Context) error {
		return post(ctx, hc, receiver.base+"/hooks/1", body, key)
	})
	b.check(err)
	return posts
}

func post(ctx context.Context, hc *http.Client, url string, body, key []byte) error {
	const id = "0197a3c4-7f00-7000-8000-000000000000"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, key)
	io.WriteString(mac, id+"."+stamp+".")
	mac.Write(body)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", stamp)
	req.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	resp, err := hc.Do(req)
	if err != nil {
		return err
	}
	io.Copy(io.Discard, resp.Body)
	return resp.Body.Close()
}

// benchSubscriptions measures the memory of idle webhook subscriptions, and the cost of an emit if only a few of many
// match.
func benchSubscriptions(b *bench) {
	receiver := b.start("receiver")
	const few, many = 10, 100_000
	subscribed := func(others int) (p *process, each float64) {
		p = b.start("webhook", receiver.base, "memory", 0)
		before := b.heap(p)
		b.subscribe(p, few, "hooks", matching)
		b.subscribe(p, others, "others", notMatching)
		time.Sleep(2 * time.Second) // a subscription is idle once its first progress is stored
		return p, (b.heap(p) - before) / float64(few+others)
	}
	alone, _ := subscribed(0)
	var beside *process
	memory := b.inTurns(func() (each float64) {
		if beside != nil {
			beside.stop()
		}
		beside, each = subscribed(many - few)
		return each
	})
	b.within("memory of an idle webhook subscription of 100,000", memory[0], 2<<10, size)
	firstByte(b, beside, "100,000 subscriptions in memory")
	m := b.inTurns(func() float64 { return b.emitCost(alone).Took }, func() float64 { return b.emitCost(beside).Took })
	b.against("emit with 10 matches among 100,000 subscriptions, against 10 subscriptions", m[0], m[1], duration, "≤ 2.00")
}
