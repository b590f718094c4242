package main

import (
	"context"
	"fmt"
	"time"
)

// pair runs f against the limit and against ours, turn by turn, and returns the medians.
func pair(ctx context.Context, rounds int, f func(*process) (float64, error)) (limit, ours float64, err error) {
	l, err := start(ctx, "limit")
	if err != nil {
		return 0, 0, err
	}
	defer l.stop()
	o, err := start(ctx, "ours")
	if err != nil {
		return 0, 0, err
	}
	defer o.stop()
	var limits, own []float64
	for range rounds {
		x, err := f(l)
		if err != nil {
			return 0, 0, fmt.Errorf("limit: %w", err)
		}
		y, err := f(o)
		if err != nil {
			return 0, 0, fmt.Errorf("ours: %w", err)
		}
		limits, own = append(limits, x), append(own, y)
	}
	return median(limits), median(own), nil
}

// benchPoll measures idle polls, with authentication and validation of arguments on our side.
func benchPoll(ctx context.Context, s settings) ([]row, error) {
	limit, ours, err := pair(ctx, s.rounds, func(p *process) (float64, error) {
		cursor, err := firstCursor(ctx, p.base+"/mcp")
		if err != nil {
			return 0, err
		}
		return pollRate(ctx, p.base+"/mcp", `"name":"bench.sample","arguments":{"severity":"P1","service":"checkout"},"cursor":"`+cursor+`",`, s.duration)
	})
	if err != nil {
		return nil, err
	}
	return []row{{"idle events/poll, 32 connections", perSecond(limit), perSecond(ours), ours / limit, "≥ 0.70"}}, nil
}

// benchPush measures saturated bursts of 64 and the latency of paced events.
func benchPush(ctx context.Context, s settings) ([]row, error) {
	var lost, gaps int64
	paced := map[string][]float64{}
	limit, ours, err := pair(ctx, s.rounds, func(p *process) (float64, error) {
		st, err := openStreams(ctx, p.base+"/mcp", s.streams)
		if err != nil {
			return 0, err
		}
		defer st.close()
		begin, sent := time.Now(), int64(0)
		for time.Since(begin) < s.duration {
			if err := p.emit(64); err != nil {
				return 0, err
			}
			sent += 64
			st.wait((sent - 64) * int64(s.streams))
		}
		st.wait(sent * int64(s.streams))
		rate := float64(st.delivered.Load()) / time.Since(begin).Seconds()
		st.p99()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for range 40 { // 20 events a second for 2 s
			<-tick.C
			if err := p.emit(1); err != nil {
				return 0, err
			}
			sent++
		}
		st.wait(sent * int64(s.streams))
		paced[p.kind] = append(paced[p.kind], float64(st.p99()))
		lost += sent*int64(s.streams) - st.delivered.Load()
		gaps += st.gaps.Load()
		return rate, nil
	})
	if err != nil {
		return nil, err
	}
	if lost != 0 || gaps != 0 {
		return nil, fmt.Errorf("%d deliveries lost, %d gaps", lost, gaps)
	}
	l, o := median(paced["limit"]), median(paced["ours"])
	return []row{
		{fmt.Sprintf("push to %d streams, bursts of 64, deliveries", s.streams), perSecond(limit), perSecond(ours), ours / limit, "≥ 1.00"},
		{fmt.Sprintf("push to %d streams, 20 events/s, p99 latency", s.streams), time.Duration(l).Round(10 * time.Microsecond).String(), time.Duration(o).Round(10 * time.Microsecond).String(), o / l, "≤ 1.30"},
	}, nil
}

// benchIdle measures the heap of an idle stream.
func benchIdle(ctx context.Context, s settings) ([]row, error) {
	limit, ours, err := pair(ctx, 1, func(p *process) (float64, error) {
		before, err := p.memory()
		if err != nil {
			return 0, err
		}
		st, err := openStreams(ctx, p.base+"/mcp", s.streams)
		if err != nil {
			return 0, err
		}
		defer st.close()
		after, err := p.memory()
		return float64(after.Heap-before.Heap) / float64(s.streams), err
	})
	if err != nil {
		return nil, err
	}
	return []row{{"heap of an idle stream (target 18 KB)", fmt.Sprintf("%.1f KB", limit/1024), fmt.Sprintf("%.1f KB", ours/1024), ours / limit, "ours ≤ 18 KB"}}, nil
}

func perSecond(x float64) string { return fmt.Sprintf("%.0f/s", x) }
