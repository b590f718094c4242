package mcpeclient

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/carry"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// An Item is one result of a [Subscription]: the events of a notification, a gap, or the expiry.
type Item struct {
	// Events are the events of the notification, in the server's order; nil for a gap or an expiry. They
	// are unchanged from the server: untrusted, and not validated against any schema.
	Events []mcpewire.Event
	// Batch reports that the events arrived as a batch. A realtime event is not a batch.
	Batch bool
	// Gap reports that events may be missing between the previous and the next item. MCPE does not repeat
	// lost events.
	Gap bool
	// Expired reports that the subscription has expired on the server. It is the last item.
	Expired bool
}

// A Subscription receives the events that the filter of its [Request] matches. Its methods are safe for
// concurrent use, but only one iteration runs at a time.
type Subscription struct {
	sub *client.Subscription
	c   *carrier
}

// Receive subscribes and returns once the server has accepted the subscription. The subscription ends when
// ctx is done, when it or the underlying client is closed, when it is unsubscribed, or when it expires.
// Errors of the server are of type [*Error]; [ErrNoMCPE] reports that the server does not offer MCPE.
//
// If the session is lost, the client looks the subscription up with events_list and resumes it, or
// recreates it with the changes of [Client.Update] and [Client.Pause]. client.Options.Policy decides about
// each event, and client.Client.Subscriptions lists the subscription.
func (m *Client) Receive(ctx context.Context, r Request) (*Subscription, error) {
	about := strings.Join(r.Filter.EventTypes, ", ")
	if about == "" {
		about = "*"
	}
	c := &carrier{m: m, raw: true, route: newRoute(), request: r}
	sub, err := m.c.Subscribe(ctx, about, c)
	if err != nil {
		return nil, err
	}
	return &Subscription{sub.(*client.Subscription), c}, nil
}

// Items iterates over the received items. An item has either events or one of Gap and Expired. An error
// ends the iteration if [client.Final] reports true; after Close or an expiry the iteration ends without
// an error. A subscription to several channels, such as realtime and cron, receives an event once per
// channel.
//
// You can leave an iteration with break and continue it with another call. Items that arrive in between
// wait in a bounded buffer. If it is full, items are lost and the iteration yields a gap instead.
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

// ID returns the subscription's id on the server, for [Client.Update] and its siblings. The id changes if
// the subscription is recreated.
func (s *Subscription) ID() string { return s.c.named() }

// Status returns the state of the subscription; its Event lists the event types of the filter.
func (s *Subscription) Status() client.Status { return s.sub.Status() }

// Close removes the subscription and ends its iteration. It returns once the subscription has fully
// stopped; if the server does not answer, it waits up to 3 s. The error is always nil.
func (s *Subscription) Close() error { return s.sub.Close() }
