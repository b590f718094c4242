package mcpeclient

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/carry"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// An Item is a value that a [Subscription] receives. It contains the events of a notification, or indicates a gap or
// the expiry of the subscription.
type Item struct {
	// Events contains the events of the notification in the server's order. It is nil for a gap or an expiry. The
	// events are exactly as the server sent them. They are untrusted and have not been validated against a schema.
	Events []mcpewire.Event
	// Batch is true if the events arrived as a batch. A realtime event is not a batch.
	Batch bool
	// Gap is true if events may be missing between the previous and the next item. MCPE does not resend lost events.
	Gap bool
	// Expired is true if the subscription has expired on the server. It is the last item.
	Expired bool
}

// A Subscription receives the events that the filter of its [Request] matches. Its methods are safe for
// concurrent use, but only one iteration runs at a time.
type Subscription struct {
	sub *client.Subscription
	c   *carrier
}

// Receive subscribes and returns once the server has accepted the subscription. The subscription ends when ctx is done,
// when it or the underlying client is closed, when it is removed by [Client.Unsubscribe], or when it expires. Errors
// returned by the server have type [*Error]. If the server does not offer MCPE, the error is [ErrNoMCPE].
//
// If the session is lost, the client looks up the subscription with events_list. It resumes the subscription if it
// still exists. Otherwise, the client recreates it, preserving the changes made by [Client.Update] and [Client.Pause].
// client.Options.Policy applies to each event, and client.Client.Subscriptions includes the subscription.
func (m *Client) Receive(ctx context.Context, r Request) (*Subscription, error) {
	about := cmp.Or(strings.Join(r.Filter.EventTypes, ", "), "*")
	c := &carrier{m: m, raw: true, route: newRoute(), request: r}
	sub, err := m.c.Subscribe(ctx, about, c)
	if err != nil {
		return nil, err
	}
	return &Subscription{sub.(*client.Subscription), c}, nil
}

// Items iterates over the received items. In each item, exactly one of Events, Gap and Expired is set. An error ends
// the iteration if [client.Final] reports true for it. After Close or an expiry, the iteration ends without an error. A
// subscription with several channels, such as realtime and cron, receives each event once per channel.
//
// You can exit the loop and continue with another call to Items. Items that arrive between the calls are stored in a
// bounded buffer. If the buffer is full, items are lost and the iteration yields a gap instead.
func (s *Subscription) Items() iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		carry.Iterate(s.sub, func(v any, err error) bool {
			switch item, ok := v.(Item); {
			case ok:
				return yield(item, nil)
			case errors.Is(err, ErrExpired):
				return yield(Item{Expired: true}, nil)
			case errors.As(err, new(*client.GapError)):
				return yield(Item{Gap: true}, nil)
			}
			return yield(Item{}, err)
		})
	}
}

// ID returns the subscription's id on the server, for use with methods such as [Client.Update]. The id changes if the
// subscription is recreated.
func (s *Subscription) ID() string { return s.c.subscriptionID() }

// Status returns the state of the subscription. The Event field lists the event types of the filter.
func (s *Subscription) Status() client.Status { return s.sub.Status() }

// Close removes the subscription and ends its iteration. It returns once the subscription has stopped. If the server
// does not respond, Close returns after 3 s. The error is always nil.
func (s *Subscription) Close() error { return s.sub.Close() }
