package server

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// BenchmarkPollIdle is a poll that finds nothing: the path that pollers take most.
func BenchmarkPollIdle(b *testing.B) {
	s := newServer(b, Options{})
	e := register(b, s, "e", Hooks[filterArgs, incident]{})
	emit(b, e, incident{ID: "x"})
	c := pollFrom(b, s, nil, "").Cursor
	r := port.Request{Method: wire.MethodPoll, Stateless: true,
		Params: json.RawMessage(fmt.Sprintf(`{"name":"e","arguments":{"severity":"P1"},"cursor":%q,"maxEvents":50}`, *c))}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.inside().Call(context.Background(), r); err != nil {
			b.Fatal(err)
		}
	}
}

// countingCarrier counts frames.
type countingCarrier struct{ n *atomic.Int64 }

func (c countingCarrier) Write(frames []frame.Frame) error {
	c.n.Add(int64(len(frames)))
	return nil
}

func benchStreams(b *testing.B, s *Server, n int, params func(int) string) (frames *atomic.Int64, stop func()) {
	frames = &atomic.Int64{}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range n {
		st, err := s.inside().Open(context.Background(), streamRequest("", params(i)))
		if err != nil {
			b.Fatal(err)
		}
		wg.Go(func() { st.Run(ctx, countingCarrier{frames}) })
	}
	for frames.Load() < int64(n) {
		runtime.Gosched()
	}
	return frames, func() { cancel(); wg.Wait() }
}

// BenchmarkFanOut is one emit to 1,000 streams until all have it.
func BenchmarkFanOut(b *testing.B) {
	const streams = 1000
	s := newServer(b, Options{})
	e := register(b, s, "e", Hooks[filterArgs, incident]{})
	frames, stop := benchStreams(b, s, streams, func(int) string { return `{"name":"e"}` })
	defer stop()
	b.ReportAllocs()
	for b.Loop() {
		want := frames.Load() + streams
		emit(b, e, incident{Severity: "P1", Service: "web"})
		for frames.Load() < want {
			runtime.Gosched()
		}
	}
	b.ReportMetric(float64(streams*b.N)/b.Elapsed().Seconds(), "deliveries/s")
}

// BenchmarkEmitIndexed is an emit of which 10 subscriptions match: its cost must not depend on the
// others.
func BenchmarkEmitIndexed(b *testing.B) {
	for _, others := range []int{0, 10_000, 100_000} {
		b.Run(fmt.Sprint("others=", others), func(b *testing.B) {
			s := newServer(b, Options{})
			e := register(b, s, "e", Hooks[filterArgs, incident]{})
			d := e.et.current()
			t := e.et.topic
			for i := range others + 10 {
				tag := "hit"
				if i >= 10 {
					tag = fmt.Sprint("tag", i)
				}
				a, err := d.Reparse(json.RawMessage(fmt.Sprintf(`{"tag":%q}`, tag)))
				if err != nil {
					b.Fatal(err)
				}
				_, head := t.Bounds()
				wake := topic.NewWake()
				r := t.Reader(a, fmt.Sprint(i), wake, head)
				if !r.Park() {
					b.Fatal("not parked")
				}
				if i < 10 {
					go func() {
						for range wake {
							r.Unpark()
							r.Park()
						}
					}()
					b.Cleanup(func() { r.Close(); close(wake) })
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				emit(b, e, incident{Tags: []string{"hit"}})
			}
		})
	}
}

// BenchmarkEmitID is an emit under the author's own id, which must not stand twice (OCC-5).
func BenchmarkEmitID(b *testing.B) {
	e := register(b, newServer(b, Options{}), "e", Hooks[filterArgs, incident]{})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		emit(b, e, incident{ID: strconv.Itoa(i), Tags: []string{"hit"}})
	}
}

// BenchmarkEmitHostile is an emit of 64 KiB beside streams whose patterns are as dear as they may be;
// beside=0 has none of them.
func BenchmarkEmitHostile(b *testing.B) {
	for _, beside := range []int{0, 20, 1000} {
		b.Run(fmt.Sprint("beside=", beside), func(b *testing.B) {
			s := newServer(b, Options{})
			e := register(b, s, "e", Hooks[filterArgs, incident]{})
			_, stop := benchStreams(b, s, beside, func(i int) string {
				return fmt.Sprintf(`{"name":"e","arguments":{"service":"*%sb%d"}}`, strings.Repeat("a", 1000), i)
			})
			defer stop()
			text := strings.Repeat("a", 64<<10)
			for i := 0; b.Loop(); i++ {
				emit(b, e, incident{ID: strconv.Itoa(i), Service: text})
			}
		})
	}
}

// BenchmarkIdleStream reports the heap that an idle stream keeps beside its goroutine's stack.
func BenchmarkIdleStream(b *testing.B) {
	const streams = 2000
	for b.Loop() {
		s := newServer(b, Options{})
		register(b, s, "e", Hooks[filterArgs, incident]{})
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		_, stop := benchStreams(b, s, streams, func(i int) string { return fmt.Sprintf(`{"name":"e","arguments":{"tag":"t%d"}}`, i) })
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/streams, "heap-B/stream")
		b.ReportMetric(float64(after.StackInuse-before.StackInuse)/streams, "stack-B/stream")
		stop()
	}
}
