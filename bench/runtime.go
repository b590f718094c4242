package main

import (
	"context"
	"fmt"
	"time"
)

// medians runs f against a server of each kind alternately, and returns the median of each.
func medians(ctx context.Context, rounds int, f func(*process) (float64, error), kinds ...string) ([]float64, error) {
	var servers []*process
	for _, kind := range kinds {
		p, err := start(ctx, kind)
		if err != nil {
			return nil, err
		}
		defer p.stop()
		servers = append(servers, p)
	}
	measured := make([][]float64, len(kinds))
	for range rounds {
		for i, p := range servers {
			x, err := f(p)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.kind, err)
			}
			measured[i] = append(measured[i], x)
		}
	}
	out := make([]float64, len(kinds))
	for i, xs := range measured {
		out[i] = median(xs)
	}
	return out, nil
}

// medianPair returns the medians of the limit and of ours.
func medianPair(ctx context.Context, rounds int, f func(*process) (float64, error)) (limit, ours float64, err error) {
	m, err := medians(ctx, rounds, f, "limit", "ours")
	if err != nil {
		return 0, 0, err
	}
	return m[0], m[1], nil
}

// benchPoll measures idle polls, including authentication and validation of arguments. It measures a server without
// receiving middleware and a server with a middleware that is called for each request. The limit is a custom method of
// the SDK.
func benchPoll(ctx context.Context, s settings) ([]row, error) {
	m, err := medians(ctx, s.rounds, func(p *process) (float64, error) {
		cursor, err := firstCursor(ctx, p.base+"/mcp")
		if err != nil {
			return 0, err
		}
		return pollRate(ctx, p.base+"/mcp", `"name":"bench.sample","arguments":{"severity":"P1","service":"checkout"},"cursor":"`+cursor+`",`, s.duration)
	}, "limit", "middleware", "ours", "sdk")
	if err != nil {
		return nil, err
	}
	return []row{
		{"idle events/poll, 32 connections, with receiving middleware", perSecond(m[0]), perSecond(m[1]), m[1] / m[0], "≥ 0.40"},
		{"the same beside a custom method of the SDK that is empty", perSecond(m[3]), perSecond(m[1]), m[1] / m[3], "≥ 0.90"},
		{"idle events/poll, 32 connections", perSecond(m[0]), perSecond(m[2]), m[2] / m[0], "≥ 0.80"},
	}, nil
}

// benchPush measures saturated bursts of 64 and the latency of paced events.
func benchPush(ctx context.Context, s settings) ([]row, error) {
	var lost, gaps int64
	paced := map[string][]float64{}
	limit, ours, err := medianPair(ctx, s.rounds, func(p *process) (float64, error) {
		st, err := openStreams(ctx, p.base+"/mcp", s.streams)
		if err != nil {
			return 0, err
		}
		defer st.close()
		rate, sent, err := bursts(p, st, s)
		if err != nil {
			return 0, err
		}
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
		{fmt.Sprintf("push to %d streams, bursts of 64, deliveries", s.streams), perSecond(limit), perSecond(ours), ours / limit, "≥ 4.00"},
		{fmt.Sprintf("push to %d streams, 20 events/s, p99 latency", s.streams), time.Duration(l).Round(10 * time.Microsecond).String(), time.Duration(o).Round(10 * time.Microsecond).String(), o / l, "≤ 1.10"},
	}, nil
}

// bursts emits 64 events at a time for the duration of a measurement. Each burst starts after every stream has received
// the previous one. It returns the deliveries per second and the number of emitted events.
func bursts(p *process, st *streams, s settings) (rate float64, sent int64, err error) {
	begin := time.Now()
	for time.Since(begin) < s.duration {
		if err := p.emit(64); err != nil {
			return 0, 0, err
		}
		sent += 64
		st.wait((sent - 64) * int64(s.streams))
	}
	st.wait(sent * int64(s.streams))
	return float64(st.delivered.Load()) / time.Since(begin).Seconds(), sent, nil
}

// benchPrivate measures the cost of a separate payload for each principal. Without PerPrincipal, all streams share one
// encoding.
func benchPrivate(ctx context.Context, s settings) ([]row, error) {
	m, err := medians(ctx, s.rounds, func(p *process) (float64, error) {
		st, err := openStreams(ctx, p.base+"/mcp", s.streams)
		if err != nil {
			return 0, err
		}
		defer st.close()
		rate, sent, err := bursts(p, st, s)
		if lost := sent*int64(s.streams) - st.delivered.Load(); err == nil && lost != 0 {
			err = fmt.Errorf("%d deliveries lost", lost)
		}
		return rate, err
	}, "ours", "private")
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("push with private members to %d streams, bursts of 64, deliveries; limit: without", s.streams)
	return []row{{what, perSecond(m[0]), perSecond(m[1]), m[1] / m[0], ""}}, nil
}

// benchIdle measures the heap of an idle stream.
func benchIdle(ctx context.Context, s settings) ([]row, error) {
	limit, ours, err := medianPair(ctx, 1, func(p *process) (float64, error) {
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
	return []row{{"heap of an idle stream", fmt.Sprintf("%.1f KB", limit/1024), fmt.Sprintf("%.1f KB", ours/1024), ours / limit, "ours ≤ 16 KB"}}, nil
}

func perSecond(x float64) string { return fmt.Sprintf("%.0f/s", x) }
