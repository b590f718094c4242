package clientimpl_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets/ticketsclient"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets/ticketsserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// A subscription of E is what programs make of their own to take any subscription.
type subscription[E any] interface {
	io.Closer
	Events() iter.Seq2[E, error]
	Subscription() *client.Subscription
}

// Generated subscriptions and those of client.Subscribe satisfy the same interfaces of a program's own: their
// methods are ordinary ones.
var (
	_ subscription[*tickets.TicketCreatedEvent] = (*ticketsclient.TicketCreatedSubscription)(nil)
	_ subscription[*tickets.TicketCreatedEvent] = (*client.TypedSubscription[tickets.TicketCreatedArguments, tickets.TicketCreatedPayload])(nil)
)

// CLI-6, CLI-8: a generated subscription delivers the types of its event type, shows the state of what it is made
// of, and Close ends its iteration.
func TestGeneratedSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "tickets", Version: "1"}, nil), server.Options{})
		if err != nil {
			t.Fatal(err)
		}
		created, err := ticketsserver.RegisterTicketCreated(es, ticketsserver.TicketCreatedHooks{})
		if err != nil {
			t.Fatal(err)
		}
		mine, theirs := mcp.NewInMemoryTransports()
		ran := make(chan error, 1)
		go func() { ran <- transport.Run(t.Context(), es, theirs) }()
		c, err := client.Connect(t.Context(), mine, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		sub, err := ticketsclient.SubscribeTicketCreated(t.Context(), c, tickets.TicketCreatedArguments{})
		if err != nil {
			t.Fatal(err)
		}
		if err := created.Emit(t.Context(), tickets.TicketCreatedPayload{Severity: "low", OpenedAt: events.NewTime(time.Now())}, events.WithID("e1")); err != nil {
			t.Fatal(err)
		}
		seen := 0
		for ev, err := range sub.Events() {
			if err != nil || ev.ID != "e1" {
				t.Fatalf("%v, %v", ev, err)
			}
			seen++
			base := sub.Subscription()
			if st := base.Status(); base.Mode() != st.Mode || st.Received != 1 || base.Cursor() == "" {
				t.Errorf("by %s, cursor %q, %+v", base.Mode(), base.Cursor(), st)
			}
			if err := base.Ack(); err != nil {
				t.Error(err)
			}
			if err := sub.Close(); err != nil {
				t.Error(err)
			}
			if left := c.Subscriptions(); len(left) != 0 {
				t.Errorf("Close returned, and %+v lives", left)
			}
		}
		if seen != 1 {
			t.Errorf("%d events", seen)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := es.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		<-ran
	})
}

// A subscription that is refused is nil, and the error that of client.Subscribe.
func TestGeneratedSubscriptionRefused(t *testing.T) {
	mine, theirs := mcp.NewInMemoryTransports()
	plain := mcp.NewServer(&mcp.Implementation{Name: "plain", Version: "1"}, nil)
	ss, err := plain.Connect(t.Context(), theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ss.Close()
	c, err := client.Connect(t.Context(), mine, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sub, err := ticketsclient.SubscribeTicketCreated(t.Context(), c, tickets.TicketCreatedArguments{})
	if sub != nil || !errors.Is(err, client.ErrNoEvents) {
		t.Errorf("%v, %v", sub, err)
	}
}

// CON-1, CON-3: a generated Handle function binds a handler to its event type: the types, the errors and the panics of
// the handler arrive.
func TestGeneratedHandle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "tickets", Version: "1"}, nil), server.Options{})
		if err != nil {
			t.Fatal(err)
		}
		created, err := ticketsserver.RegisterTicketCreated(es, ticketsserver.TicketCreatedHooks{})
		if err != nil {
			t.Fatal(err)
		}
		mine, theirs := mcp.NewInMemoryTransports()
		ran := make(chan error, 1)
		go func() { ran <- transport.Run(t.Context(), es, theirs) }()
		c, err := client.Connect(t.Context(), mine, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		cursors := clientmemory.NewCursors()
		var handled []string
		go func() {
			done <- client.Consume(ctx, c, client.ConsumeOptions{Store: cursors, MaxTries: 1}, ticketsclient.HandleTicketCreated(tickets.TicketCreatedArguments{},
				func(_ context.Context, ev *tickets.TicketCreatedEvent) error {
					switch handled = append(handled, ev.ID+" "+string(ev.Data.Severity)); ev.ID {
					case "e1":
						return client.Discard(errors.New("not this one"))
					case "e2":
						panic("nor this one")
					}
					return nil
				}, client.WithCursorKey("k")))
		}()
		synctest.Wait()
		for _, id := range []string{"e1", "e2", "e3"} {
			p := tickets.TicketCreatedPayload{Severity: "low", OpenedAt: events.NewTime(time.Now())}
			if err := created.Emit(t.Context(), p, events.WithID(id)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if !slices.Equal(handled, []string{"e1 low", "e2 low", "e3 low"}) {
			t.Errorf("handled %q", handled)
		}
		letters, err := cursors.DeadLetters(t.Context(), 0, 10)
		if err != nil || len(letters) != 2 || letters[0].Error != "discarded: not this one" || !strings.HasPrefix(letters[1].Error, "panic: nor this one") {
			t.Errorf("%+v, %v", letters, err)
		}
		if saved, ok, _ := cursors.Load(t.Context(), "k"); !ok || len(saved.EventIDs) != 3 {
			t.Errorf("saved %+v", saved)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := es.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		<-ran
	})
}
