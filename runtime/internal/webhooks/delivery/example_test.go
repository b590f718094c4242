package delivery_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// oneEvent is a log that holds one entry for everybody.
type oneEvent struct{}

func (oneEvent) Read(_ context.Context, after store.Position, _ int) (delivery.Found, error) {
	if after >= 1 {
		return delivery.Found{Upto: after}, nil
	}
	body := func(cursor *string) ([]byte, error) {
		return webhook.Occurrence{EventID: "evt_1", Name: "incident.created", Timestamp: "2026-11-20T08:00:00Z", Data: []byte(`{}`)}.Body(cursor)
	}
	return delivery.Found{Items: []delivery.Item{{Position: 1, EventID: "evt_1", Body: body}}, Upto: 1}, nil
}

func (oneEvent) Park(store.Position) bool { return true }
func (oneEvent) Unpark() store.Position   { return 1 }
func (oneEvent) Passed() store.Position   { return 1 }
func (oneEvent) Close()                   {}

func (oneEvent) Cursor(p store.Position) *string {
	c := fmt.Sprint("position-", p)
	return &c
}

// A printer stands in for a netguard.Guard.
type printer struct{ done chan struct{} }

func (p printer) Send(_ context.Context, r netguard.Request) (*netguard.Answer, error) {
	fmt.Println(r.Method, r.URL, r.Header.Get(wire.HeaderWebhookID))
	defer close(p.done)
	return &netguard.Answer{Status: http.StatusNoContent}, nil
}

func ExampleEngine() {
	done := make(chan struct{})
	engine, err := delivery.New(delivery.Options{Sender: printer{done}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	handle, err := engine.Add(ctx, delivery.Entry{
		Subscription: store.Subscription{
			ID: "sub_1", URL: "https://receiver.example/hooks/1", Event: "incident.created",
			Secrets: []store.Secret{{Key: []byte("a secret of at least 24 bytes")}}, ExpiresAt: time.Now().Add(time.Hour),
		},
		Reader: oneEvent{}, Shard: engine.NewShard(delivery.ShardOptions{Store: memory.New()}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-done
	if err := engine.Shutdown(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(*handle.Watermark())
	// Output:
	// POST https://receiver.example/hooks/1 evt_1
	// position-1
}
