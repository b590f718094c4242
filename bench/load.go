package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const connections = 32 // closed-loop connections of benchPoll

// request returns a POST request for an events/* method, as sent by a client of revision 2026-07-28.
func request(ctx context.Context, url, method, params string) *http.Request {
	body := `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{` + params +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		panic(err) // the URL is a constant
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", method)
	req.Header.Set("Authorization", "Bearer "+token)
	return req
}

// pollRate sends polls over keep-alive connections for d and returns the responses per second.
func pollRate(ctx context.Context, url, params string, d time.Duration) (float64, error) {
	hc := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}}
	defer hc.CloseIdleConnections()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var done atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for range connections {
		wg.Go(func() {
			for time.Since(begin) < d && ctx.Err() == nil {
				resp, err := hc.Do(request(ctx, url, "events/poll", params))
				if err != nil {
					cancel(err)
					return
				}
				b, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK || !bytes.Contains(b, []byte(`"result"`)) {
					cancel(fmt.Errorf("poll answered %s: %.200s (%w)", resp.Status, b, err))
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(begin).Seconds(), context.Cause(ctx)
}

// streams is a set of open SSE responses. It counts frames as they arrive.
type streams struct {
	cancel    context.CancelFunc
	wg        sync.WaitGroup
	hc        *http.Client
	delivered atomic.Int64
	gaps      atomic.Int64

	mu      sync.Mutex
	latency []time.Duration
}

// openStreams opens n events/stream requests and returns when all have a response.
func openStreams(ctx context.Context, url string, n int) (*streams, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &streams{cancel: cancel, hc: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}}
	answered := make(chan error, n)
	for range n {
		s.wg.Go(func() {
			resp, err := s.hc.Do(request(ctx, url, "events/stream", `"name":"bench.sample","cursor":null,`))
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
		if s.delivered.Add(1)%7 == 0 { // a sample is enough, and cheaper than all
			s.mu.Lock()
			s.latency = append(s.latency, time.Duration(now-stamp))
			s.mu.Unlock()
		}
	}
}

func (s *streams) close() {
	s.cancel()
	s.wg.Wait()
	s.hc.CloseIdleConnections()
}

// p99 returns the 99th percentile of the latencies since the last call.
func (s *streams) p99() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.latency) == 0 {
		return 0
	}
	slices.Sort(s.latency)
	d := s.latency[len(s.latency)*99/100]
	s.latency = s.latency[:0]
	return d
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
