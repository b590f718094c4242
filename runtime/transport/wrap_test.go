package transport

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	consumer "github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// Several connections of one server carry streams through Wrap, and its sessions stay those of the SDK.
func TestWrap(t *testing.T) {
	for _, version := range []string{wire.RevisionLegacy, wire.RevisionStateless} {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, server.Options{})
				defer g.stop()
				ticks := events.Type[tickArguments, tickPayload]{Info: events.Info{Name: "tick"}}
				var subs []*consumer.TypedSubscription[tickArguments, tickPayload]
				for range 2 {
					ct, st := mcp.NewInMemoryTransports()
					session, err := g.srv.Connect(t.Context(), Wrap(g.es, st), nil)
					if err != nil {
						t.Fatal(err)
					}
					defer session.Close()
					c, err := consumer.Connect(t.Context(), ct, consumer.Options{ProtocolVersion: version, Mode: events.ModePush})
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					sub, err := consumer.Subscribe(context.Background(), c, ticks, tickArguments{})
					if err != nil {
						t.Fatal(err)
					}
					subs = append(subs, sub)
				}
				g.emit(7)
				for i, sub := range subs {
					for ev, err := range sub.Events() {
						if err != nil || ev.Data.Seq != 7 {
							t.Errorf("connection %d: %+v, %v", i, ev, err)
						}
						break
					}
				}
			})
		})
	}
}
