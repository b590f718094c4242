package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// pollArguments begins the params of polls. The cursor follows.
const pollArguments = `"name":"bench.sample","arguments":{"severity":"P1","service":"checkout"},"cursor":`

// poll sends a first poll and returns a function that polls from its cursor. The limit responds with a prebuilt cursor.
func poll(ctx context.Context, hc *http.Client, url string) (func(context.Context) error, error) {
	body, err := call(hc, request(ctx, url, "events/poll", pollArguments+"null,"))
	if err != nil {
		return nil, err
	}
	if _, data, ok := bytes.Cut(body, []byte("data: ")); ok { // as the SDK answers
		body = data
	}
	var answer struct{ Result struct{ Cursor string } }
	if err := json.Unmarshal(body, &answer); err != nil || answer.Result.Cursor == "" {
		return nil, fmt.Errorf("the first poll of %s returned no cursor: %.200s (%w)", url, body, err)
	}
	params := pollArguments + strconv.Quote(answer.Result.Cursor) + ","
	return func(ctx context.Context) error {
		_, err := call(hc, request(ctx, url, "events/poll", params))
		return err
	}, nil
}

// benchPoll measures idle polls, including authentication and validation of arguments. It measures a server without
// receiving middleware and a server with a middleware that is called for each request. The limit of the latter is also a
// custom method of the SDK.
func benchPoll(b *bench) {
	var measured []func() float64
	for _, kind := range []string{"limit", "middleware", "ours", "sdk"} {
		url := b.start(kind).base + "/mcp"
		measured = append(measured, func() float64 {
			hc := keepAlive(connections)
			defer hc.CloseIdleConnections()
			f, err := poll(b, hc, url)
			b.check(err)
			polls, _, err := closedLoop(b, connections, b.duration, f)
			b.check(err)
			return polls
		})
	}
	m := b.inTurns(measured...)
	b.against("idle events/poll, 32 connections", m[0], m[2], rate, "≥ 0.75")
	b.against("the same with receiving middleware", m[0], m[1], rate, "≥ 0.55")
	b.against("the same; limit: an empty custom method of the SDK", m[3], m[1], rate, "≥ 0.90")
}

// benchPush measures saturated bursts of 64 and the latency of paced events.
func benchPush(b *bench) {
	var paced [2]latencies
	var gaps int64
	var measured []func() float64
	for i, kind := range []string{"limit", "ours"} {
		p := b.start(kind)
		measured = append(measured, func() float64 {
			st, err := openStreams(b, p.base+"/mcp", b.streams, nil)
			b.check(err)
			defer st.close()
			deliveries, sent := bursts(b, p, st)
			st.latencies()
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for range 40 { // 20 events a second for 2 s
				<-tick.C
				b.emit(p, 1)
				sent++
			}
			b.checkArrived(st, sent)
			paced[i].add(st.latencies())
			gaps += st.gaps.Load()
			return deliveries
		})
	}
	m := b.inTurns(measured...)
	if gaps != 0 {
		b.check(fmt.Errorf("%d gaps", gaps))
	}
	b.against(fmt.Sprintf("push to %d streams, bursts of 64, deliveries", b.streams), m[0], m[1], rate, "≥ 4.00")
	b.against(fmt.Sprintf("push to %d streams, 20 events/s, p99 latency", b.streams), paced[0].p99, paced[1].p99, duration, "≤ 1.10")
}

// bursts emits 64 events at a time for the duration of a measurement. Each burst starts after every stream has received
// the previous one. It returns the deliveries per second and the number of emitted events.
func bursts(b *bench, p *process, st *streams) (deliveries float64, sent int64) {
	begin := time.Now()
	for time.Since(begin) < b.duration {
		b.emit(p, 64)
		sent += 64
		st.wait((sent - 64) * int64(b.streams))
	}
	b.checkArrived(st, sent)
	return float64(st.delivered.Load()) / time.Since(begin).Seconds(), sent
}

// checkArrived waits until each stream has received all events, and ends the part if some are lost.
func (b *bench) checkArrived(st *streams, sent int64) {
	want := sent * int64(b.streams)
	st.wait(want)
	if lost := want - st.delivered.Load(); lost != 0 {
		b.check(fmt.Errorf("%d deliveries lost", lost))
	}
}

// benchPrivate measures the cost of a separate payload for each principal. Without PerPrincipal, all streams share one
// encoding.
func benchPrivate(b *bench) {
	var measured []func() float64
	for _, kind := range []string{"ours", "private"} {
		p := b.start(kind)
		measured = append(measured, func() float64 {
			st, err := openStreams(b, p.base+"/mcp", b.streams, nil)
			b.check(err)
			defer st.close()
			deliveries, _ := bursts(b, p, st)
			return deliveries
		})
	}
	m := b.inTurns(measured...)
	b.against(fmt.Sprintf("push with private members to %d streams, bursts of 64, deliveries; limit: without", b.streams), m[0], m[1], rate, "≥ 0.40")
}

// benchIdle measures the heap of an idle stream.
func benchIdle(b *bench) {
	var measured []func() float64
	for _, kind := range []string{"limit", "ours"} {
		measured = append(measured, func() float64 {
			p := b.start(kind)
			defer p.stop()
			before := b.heap(p)
			st, err := openStreams(b, p.base+"/mcp", b.streams, nil)
			b.check(err)
			defer st.close()
			return (b.heap(p) - before) / float64(b.streams)
		})
	}
	m := b.inTurns(measured...)
	b.within("heap of an idle stream", m[1], 16<<10, size)
	b.note("net/http alone " + size(median(m[0])))
}
