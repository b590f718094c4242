package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/eventstest"
	"github.com/mcpe-gen/mcpe-gen/runtime/otelevents"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
	"github.com/mcpe-gen/mcpe-gen/runtime/telemetry"
)

// dropped exports spans to nowhere.
type dropped struct{}

func (dropped) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (dropped) Shutdown(context.Context) error                             { return nil }

// BenchmarkConsumeTelemetry is what the SDK's meter and tracer cost client.Consume (CON-7): b.N events that carry a
// traceparent, by push to eight workers whose handler does nothing. It is here because the SDK is; BenchmarkConsume of
// runtime/client has the stores.
//
//	go test -run '^$' -bench ConsumeTelemetry -benchtime 20000x -count 5 .
func BenchmarkConsumeTelemetry(b *testing.B) {
	for _, c := range []struct {
		name    string
		metrics bool
		sampled float64 // of the spans; negative for no provider
	}{{"none", false, -1}, {"metrics", true, -1}, {"metrics+traces=1%", true, 0.01}, {"metrics+traces=100%", true, 1}} {
		b.Run(c.name, func(b *testing.B) {
			var recorder telemetry.Recorder
			o := otelevents.Options{TracerProvider: noop.NewTracerProvider()}
			if c.metrics {
				p := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
				defer p.Shutdown(context.Background())
				o.MeterProvider = p
			}
			if c.sampled >= 0 {
				p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(dropped{}), sdktrace.WithSampler(sdktrace.TraceIDRatioBased(c.sampled)))
				defer p.Shutdown(context.Background())
				o.TracerProvider = p
			}
			if c.metrics {
				recorder = otelevents.New(o)
			}
			benchmarkConsume(b, recorder)
		})
	}
}

func benchmarkConsume(b *testing.B, recorder telemetry.Recorder) {
	quiet := slog.New(slog.DiscardHandler)
	es := eventstest.NewServer(b, func(o *server.Options) {
		o.Logger, o.Retention = quiet, server.Retention{MaxCount: b.N + 1}
	})
	ticks := eventstest.Register[map[string]int](b, es, "tick")
	cl := eventstest.NewClient(b, es, func(o *eventstest.Options) { o.Logger = quiet })
	sub, err := client.Subscribe(b.Context(), cl.Client, client.Dynamic("tick"), nil)
	if err != nil {
		b.Fatal(err)
	}
	origin := events.WithMeta(map[string]any{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
	emit := func(n int) {
		for range n {
			eventstest.Emit(b, ticks, map[string]int{"n": 1}, origin)
		}
	}
	emit(1)
	var start client.SubscribeOption
	for ev, err := range sub.Events() {
		if err != nil {
			b.Fatal(err)
		}
		start = client.WithCursor(ev.Cursor)
		break
	}
	sub.Close()
	emit(b.N)
	b.ReportAllocs()
	b.ResetTimer()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var handled atomic.Int64
	o := client.ConsumeOptions{Store: clientmemory.NewCursors(), Workers: 8, Telemetry: recorder}
	err = client.Consume(ctx, cl.Client, o, client.Handle(client.Dynamic("tick"), nil, func(context.Context, *events.Event[json.RawMessage, json.RawMessage]) error {
		if handled.Add(1) == int64(b.N) {
			cancel()
		}
		return nil
	}, start))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	b.StopTimer()
}
