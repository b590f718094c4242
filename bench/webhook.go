package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/mcpe-gen/mcpe-gen/bench/sample/sampleserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	hookSubscriptions = 64 // for measuring deliveries, at one receiver
	hookWorkers       = 16 // concurrent posts to one host, on both sides
)

// counts contains the totals of a receiver.
type counts struct {
	Requests    int64 `json:"requests"`
	Connections int64 `json:"connections"`
}

// serveReceiver accepts every POST request and counts requests and connections.
func serveReceiver() error {
	var requests, connections atomic.Int64
	type seenKey struct{} // a connection's *atomic.Bool: it has carried a POST
	mux := http.NewServeMux()
	mux.HandleFunc("GET /admin/counts", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(counts{requests.Load(), connections.Load()})
	})
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if seen := r.Context().Value(seenKey{}).(*atomic.Bool); !seen.Swap(true) {
			connections.Add(1)
		}
		requests.Add(1)
		w.WriteHeader(http.StatusNoContent)
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	return (&http.Server{Handler: mux, ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, seenKey{}, new(atomic.Bool))
	}}).Serve(ln)
}

func (p *process) counts() (c counts, err error) {
	resp, err := http.Get(p.base + "/admin/counts")
	if err != nil {
		return c, err
	}
	defer resp.Body.Close()
	return c, json.NewDecoder(resp.Body).Decode(&c)
}

// serveWebhook serves a server on which /admin/subscribe?n=…&url=…&matching=… creates n subscriptions. The first ones
// match the emitted incident. They are stored in st, or in memory by default. &attempts=N limits the stored attempts of
// each subscription. If N is -1, no attempts are stored. &principal=P sets the principal, which begins the path of the
// URLs. The operators' console is on /ops/.
func serveWebhook(mux *http.ServeMux, st store.Store) error {
	var emitter *sampleserver.BenchSampleEmitter
	var es *server.Server
	mux.HandleFunc("GET /admin/subscribe", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		n, err := strconv.Atoi(q.Get("n"))
		matching, err2 := strconv.Atoi(q.Get("matching"))
		attempts, _ := strconv.Atoi(q.Get("attempts"))
		if err = errors.Join(err, err2); err == nil && es == nil {
			es, emitter, err = webhookServer(q.Get("url"), st, attempts)
			if err == nil {
				err = serveOperators(mux, es)
			}
		}
		if err == nil {
			err = register(r.Context(), es, q.Get("url"), cmp.Or(q.Get("principal"), "hooks"), n, matching)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	onEmit(mux, func() error { return emitter.Emit(context.Background(), payload()) })
	onEmitCost(mux, func() error { return emitter.Emit(context.Background(), payload()) })
	return nil
}

// onEmitCost handles requests for the cost of an emit in nanoseconds.
func onEmitCost(mux *http.ServeMux, emit func() error) {
	mux.HandleFunc("GET /admin/emitcost", func(w http.ResponseWriter, _ *http.Request) {
		const n = 300
		var spent time.Duration
		for range n {
			begin := time.Now()
			if err := emit(); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			spent += time.Since(begin)
			time.Sleep(3 * time.Millisecond) // let the deliveries of this emit finish
		}
		fmt.Fprint(w, spent.Nanoseconds()/n)
	})
}

// emitCost returns the median cost of an emit at a server, in nanoseconds.
func (p *process) emitCost(rounds int) (float64, error) {
	var costs []float64
	for range rounds {
		text, err := p.get("/admin/emitcost")
		if err != nil {
			return 0, err
		}
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, err
		}
		costs = append(costs, x)
	}
	return median(costs), nil
}

// register adds n subscriptions. It adds many concurrently, because a store may write them in one step.
func register(ctx context.Context, es *server.Server, url, principal string, n, matching int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(64)
	for i := range n {
		incident := "INC-1234" // the incident in payload
		if i >= matching {
			incident = fmt.Sprint("INC-x", i)
		}
		g.Go(func() error {
			_, err := es.Admin().Subscribe(ctx, operator.SubscribeRequest{SubscriptionKey: operator.SubscriptionKey{
				Principal: principal, Event: "bench.sample", URL: fmt.Sprintf("%s/%s/%d", url, principal, i), Arguments: json.RawMessage(`{"incident":"` + incident + `"}`)}})
			return err
		})
	}
	return g.Wait()
}

func webhookServer(receiver string, st store.Store, attempts int) (*server.Server, *sampleserver.BenchSampleEmitter, error) {
	es, err := hookServer(receiver, st, attempts)
	if err != nil {
		return nil, nil, err
	}
	emitter, err := sampleserver.RegisterBenchSample(es, sampleserver.BenchSampleHooks{})
	return es, emitter, err
}

// hookServer returns a server without event types that sends all webhooks to one receiver.
func hookServer(receiver string, st store.Store, attempts int) (*server.Server, error) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
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
	return server.New(srv, o)
}

// get sends a GET request to a server and returns the text of the response.
func (p *process) get(path string) (string, error) {
	resp, err := http.Get(p.base + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, b)
	}
	return string(b), err
}

// benchWebhook measures deliveries to 64 subscriptions at one receiver.
func benchWebhook(ctx context.Context, s settings) ([]row, error) {
	receiver, err := start(ctx, "receiver")
	if err != nil {
		return nil, err
	}
	defer receiver.stop()
	ours, err := start(ctx, "webhook")
	if err != nil {
		return nil, err
	}
	defer ours.stop()
	if _, err := ours.get(fmt.Sprintf("/admin/subscribe?n=%d&matching=%[1]d&url=%s", hookSubscriptions, receiver.base)); err != nil {
		return nil, err
	}
	before, err := receiver.counts()
	if err != nil {
		return nil, err
	}
	var limits, own []float64
	for range s.rounds {
		l, err := postSigned(ctx, receiver.base, s.duration)
		if err != nil {
			return nil, fmt.Errorf("limit: %w", err)
		}
		o, err := deliver(ours, receiver, s.duration)
		if err != nil {
			return nil, fmt.Errorf("ours: %w", err)
		}
		limits, own = append(limits, l), append(own, o)
	}
	after, err := receiver.counts()
	if err != nil {
		return nil, err
	}
	// The limit opens its own connections each round.
	opened := after.Connections - before.Connections - int64(s.rounds*hookWorkers)
	l, o := median(limits), median(own)
	return []row{
		{fmt.Sprintf("webhook deliveries, %d subscriptions at one host", hookSubscriptions), perSecond(l), perSecond(o), o / l, "≥ 0.80"},
		{"connections opened for them", strconv.Itoa(hookWorkers), strconv.FormatInt(opened, 10), float64(opened) / hookWorkers, "≤ 1.00"},
	}, nil
}

// deliver emits in bursts and returns the deliveries per second.
func deliver(ours, receiver *process, d time.Duration) (float64, error) {
	first, err := receiver.counts()
	if err != nil {
		return 0, err
	}
	begin, want := time.Now(), first.Requests
	for time.Since(begin) < d {
		if err := ours.emit(32); err != nil {
			return 0, err
		}
		want += 32 * hookSubscriptions
		// The next burst starts while a quarter of this one is in flight.
		if err := receiver.waitRequests(want - 8*hookSubscriptions); err != nil {
			return 0, err
		}
	}
	if err := receiver.waitRequests(want); err != nil {
		return 0, err
	}
	return float64(want-first.Requests) / time.Since(begin).Seconds(), nil
}

// waitRequests waits until the receiver has accepted n requests.
func (p *process) waitRequests(n int64) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		c, err := p.counts()
		if err != nil || c.Requests >= n {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d deliveries arrived", c.Requests, n)
		}
	}
}

// postSigned signs and posts prebuilt bytes over keep-alive connections.
func postSigned(ctx context.Context, base string, d time.Duration) (float64, error) {
	data, err := json.Marshal(payload())
	if err != nil {
		return 0, err
	}
	body := []byte(`{"eventId":"0197a3c4-7f00-7000-8000-000000000000","name":"bench.sample","timestamp":"2026-11-20T07:00:00.123456789Z","data":` + string(data) + `,"cursor":"AQJr0wAAAAAAAAABAAAAAAAAAAE"}`)
	key := bytes.Repeat([]byte("k"), 32)
	hc := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: hookWorkers, MaxConnsPerHost: hookWorkers}}
	defer hc.CloseIdleConnections()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var done atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for range hookWorkers {
		wg.Go(func() {
			for time.Since(begin) < d && ctx.Err() == nil {
				if err := post(ctx, hc, base+"/hooks/1", body, key); err != nil {
					cancel(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(begin).Seconds(), context.Cause(ctx)
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
func benchSubscriptions(ctx context.Context, s settings) ([]row, error) {
	receiver, err := start(ctx, "receiver")
	if err != nil {
		return nil, err
	}
	defer receiver.stop()
	const matching = 10
	var rows []row
	cost := map[int]float64{}
	for _, n := range []int{matching, 10_000, 100_000} {
		p, err := start(ctx, "webhook")
		if err != nil {
			return nil, err
		}
		defer p.stop()
		if _, err := p.get(fmt.Sprintf("/admin/subscribe?n=0&matching=0&url=%s", receiver.base)); err != nil {
			return nil, err
		}
		before, err := p.memory()
		if err != nil {
			return nil, err
		}
		if _, err := p.get(fmt.Sprintf("/admin/subscribe?n=%d&matching=%d&url=%s", n, matching, receiver.base)); err != nil {
			return nil, err
		}
		after, err := p.memory()
		if err != nil {
			return nil, err
		}
		if n > matching {
			r, err := firstBytes(p, s.rounds, fmt.Sprintf("%d subscriptions in memory", n))
			if err != nil {
				return nil, err
			}
			rows = append(rows, r...)
		}
		if cost[n], err = p.emitCost(s.rounds); err != nil {
			return nil, err
		}
		if n > matching {
			each := float64(after.Heap-before.Heap) / float64(n)
			rows = append(rows, row{fmt.Sprintf("memory of an idle webhook subscription of %d (limit: target)", n), "1.2 KB", fmt.Sprintf("%.2f KB", each/1024), each / 1024 / 1.2, "≤ 1.00"})
		}
	}
	return append(rows, row{"emit to 100,000 subscriptions of which 10 match, against 10", micros(cost[matching]), micros(cost[100_000]), cost[100_000] / cost[matching], "≤ 2.00"}), nil
}

func micros(ns float64) string { return fmt.Sprintf("%.1f µs", ns/1000) }
