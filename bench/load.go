package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const connections = 32 // closed-loop connections of polls

// request returns a POST request for a method, as sent by a client of revision 2026-07-28.
func request(ctx context.Context, url, method, params string) *http.Request {
	req := message(ctx, url, "2026-07-28", `{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":{`+params+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`)
	req.Header.Set("Mcp-Method", method)
	return req
}

// message returns a POST request with a JSON-RPC message of a protocol revision.
func message(ctx context.Context, url, version, body string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		panic(err) // the URL is a constant
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", version)
	req.Header.Set("Authorization", "Bearer "+token)
	return req
}

// call sends a request and returns the body of the response, which must contain a result.
func call(hc *http.Client, r *http.Request) ([]byte, error) {
	resp, err := hc.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(`"result"`))) {
		err = fmt.Errorf("%s answered %s: %.200s", r.URL, resp.Status, body)
	}
	return body, err
}

// keepAlive returns a client with the given number of keep-alive connections.
func keepAlive(connections int) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}}
}

// closedLoop calls f in n goroutines for d. It returns the calls per second and how long each took in seconds.
func closedLoop(ctx context.Context, n int, d time.Duration, f func(context.Context) error) (rate float64, took []float64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var wg sync.WaitGroup
	begin := time.Now()
	for range n {
		wg.Go(func() {
			var some []float64
			for now := time.Now(); now.Sub(begin) < d && ctx.Err() == nil; {
				if err := f(ctx); err != nil {
					cancel(err)
					return
				}
				done := time.Now()
				some = append(some, done.Sub(now).Seconds())
				now = done
			}
			mu.Lock()
			took = append(took, some...)
			mu.Unlock()
		})
	}
	wg.Wait()
	return float64(len(took)) / time.Since(begin).Seconds(), took, context.Cause(ctx)
}

// streams is a set of open SSE responses. It counts frames as they arrive.
type streams struct {
	cancel    context.CancelFunc
	wg        sync.WaitGroup
	hc        *http.Client
	arrived   func(stamp, now int64)
	delivered atomic.Int64
	gaps      atomic.Int64

	mu   sync.Mutex
	took []float64 // seconds
}

// openStreams opens n events/stream requests for n principals and returns when all are active. It calls arrived with the
// time of each payload and that of its arrival, unless arrived is nil.
func openStreams(ctx context.Context, url string, n int, arrived func(stamp, now int64)) (*streams, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &streams{cancel: cancel, arrived: arrived, hc: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}}
	answered := make(chan error, n)
	for i := range n {
		s.wg.Go(func() {
			req := request(ctx, url, "events/stream", `"name":"bench.sample","cursor":null,`)
			req.Header.Set("Authorization", fmt.Sprintf("Bearer %s/%d", token, i))
			resp, err := s.hc.Do(req)
			if err == nil && resp.StatusCode != http.StatusOK {
				resp.Body.Close()
				err = fmt.Errorf("stream answered %s", resp.Status)
			}
			if err != nil {
				answered <- err
				return
			}
			defer resp.Body.Close()
			s.read(resp.Body, answered)
		})
	}
	for range n {
		if err := <-answered; err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

var (
	stampKey  = []byte(`"data":{"t":`)
	gapKey    = []byte(`"truncated":true`)
	activeKey = []byte(`events/active`)
)

func (s *streams) read(body io.Reader, answered chan<- error) {
	br := bufio.NewReaderSize(body, 4096)
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			if answered != nil {
				answered <- fmt.Errorf("the stream ended before it was active: %w", err)
			}
			return
		}
		now := time.Now().UnixNano()
		i := bytes.Index(line, stampKey)
		if i < 0 {
			if bytes.Contains(line, gapKey) {
				s.gaps.Add(1)
			}
			if answered != nil && bytes.Contains(line, activeKey) {
				answered <- nil
				answered = nil
			}
			continue
		}
		digits := line[i+len(stampKey):]
		end := bytes.IndexAny(digits, ",}")
		if end < 0 {
			continue
		}
		stamp, err := strconv.ParseInt(string(digits[:end]), 10, 64)
		if err != nil {
			continue
		}
		if s.arrived != nil {
			s.arrived(stamp, now)
		}
		if n := s.delivered.Add(1); n < 1000 || n%7 == 0 { // a sample of many is enough, and cheaper than all
			s.mu.Lock()
			s.took = append(s.took, time.Duration(now-stamp).Seconds())
			s.mu.Unlock()
		}
	}
}

func (s *streams) close() {
	s.cancel()
	s.wg.Wait()
	s.hc.CloseIdleConnections()
}

// latencies returns the latencies since the last call.
func (s *streams) latencies() []float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := s.took
	s.took = nil
	return took
}

// wait blocks until n frames in total have arrived, or nothing has arrived for three seconds.
func (s *streams) wait(n int64) {
	last, since := s.delivered.Load(), time.Now()
	for {
		got := s.delivered.Load()
		if got >= n || time.Since(since) > 3*time.Second {
			return
		}
		if got != last {
			last, since = got, time.Now()
		}
		time.Sleep(200 * time.Microsecond)
	}
}
