package client

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/file"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// BenchmarkConsume receives b.N events that a server in this process has, by push: with eight workers and each store, and by
// the iterator, which commits each event by itself where it has a store (CON-10). What OpenTelemetry's SDK costs is
// measured where the SDK is, by BenchmarkConsumeTelemetry in examples/metrics.
func BenchmarkConsume(b *testing.B) {
	stores := map[string]func(b *testing.B) clientstore.ConsumerStore{
		"memory": func(*testing.B) clientstore.ConsumerStore { return clientmemory.NewCursors() },
		"file": func(b *testing.B) clientstore.ConsumerStore {
			s, err := file.OpenCursors(filepath.Join(b.TempDir(), "cursors.json"))
			if err != nil {
				b.Fatal(err)
			}
			return s
		},
		"sqlite": func(b *testing.B) clientstore.ConsumerStore {
			s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "consumer.db"), sqlite.Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { s.Close() })
			return s
		},
	}
	for _, name := range []string{"memory", "file", "sqlite"} {
		b.Run("consume/"+name, func(b *testing.B) {
			st := stores[name](b)
			benchmarkReceiving(b, func(cl *Client, typ events.Type[tickArguments, tickPayload], start SubscribeOption) error {
				ctx, cancel := context.WithCancel(b.Context())
				defer cancel()
				var n atomic.Int64
				done := make(chan error, 1)
				go func() {
					done <- Consume(ctx, cl, ConsumeOptions{Store: st, Workers: 8}, Handle(typ, tickArguments{}, func(context.Context, *tickEvent) error {
						if n.Add(1) == int64(b.N) {
							cancel()
						}
						return nil
					}, start))
				}()
				return <-done
			})
		})
	}
	for _, name := range []string{"none", "memory", "file", "sqlite"} {
		b.Run("iterator/"+name, func(b *testing.B) {
			var st clientstore.CursorStore
			if name != "none" {
				st = stores[name](b)
			}
			benchmarkReceiving(b, func(cl *Client, typ events.Type[tickArguments, tickPayload], start SubscribeOption) error {
				cl.opts.Cursors = st
				s, err := Subscribe(b.Context(), cl, typ, tickArguments{}, start)
				if err != nil {
					return err
				}
				n := 0
				for _, err := range s.Events() {
					if err != nil {
						return err
					}
					if n++; n == b.N {
						return s.Close()
					}
				}
				return errors.New("ended")
			})
		})
	}
}

func benchmarkReceiving(b *testing.B, receive func(cl *Client, typ events.Type[tickArguments, tickPayload], start SubscribeOption) error) {
	b.Helper()
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil),
		server.Options{Logger: slog.New(slog.DiscardHandler), Retention: server.Retention{MaxCount: b.N + 1}})
	if err != nil {
		b.Fatal(err)
	}
	typ := events.Type[tickArguments, tickPayload]{Info: events.Info{Name: "tick", Description: "A tick.",
		InputSchema: []byte(`{"type":"object"}`), PayloadSchema: []byte(`{"type":"object"}`)}}
	ticks, err := server.Register(es, typ, server.Hooks[tickArguments, tickPayload]{})
	if err != nil {
		b.Fatal(err)
	}
	mine, theirs := mcp.NewInMemoryTransports()
	go transport.Run(context.Background(), es, theirs)
	cl, err := Connect(b.Context(), mine, Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	first, err := Subscribe(b.Context(), cl, typ, tickArguments{})
	if err != nil {
		b.Fatal(err)
	}
	start := WithCursor(*first.core.resumeCursor())
	for range b.N {
		if err := ticks.Emit(b.Context(), tickPayload{Seq: 1}); err != nil {
			b.Fatal(err)
		}
	}
	if err := first.Close(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	if err := receive(cl, typ, start); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	b.StopTimer()
	cl.Close()
	es.Shutdown(context.Background())
}
