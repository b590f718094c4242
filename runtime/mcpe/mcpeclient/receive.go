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

// An Item is what a [Subscription] yields: what one notification brought, a gap, or its expiry.
type Item struct {
	// Events are those of the notification in the server's order; none beside a gap or an expiry. They
	// are as the server wrote them: untrusted, and not checked against any schema.
	Events []mcpewire.Event
	// Batch tells that they came as a batch; an event that comes at once is no batch of one.
	Batch bool
	// Gap tells that events may be missing between the items before and those to come: MCPE repeats
	// nothing.
	Gap bool
	// Expired tells that the subscription has expired on the server. It is the last item.
	Expired bool
}

// A Subscription receives whatever the filter of its [Request] matches. Its methods are safe for
// concurrent use, but only one iteration runs at a time.
type Subscription struct {
	sub *client.Subscription
	c   *carrier
}

// Receive subscribes and returns when the server has accepted. The subscription lives until ctx is done,
// Close is called on it or on the client below, it is unsubscribed, or it expires. A refusal is an
// [*Error], and [ErrNoMCPE] says that the server has no MCPE.
//
// After a loss of the session the subscription is looked up by events_list and taken up again, or made
// anew, with what [Client.Update] and [Client.Pause] have changed since. client.Options.Policy is asked
// about each event, and client.Client.Subscriptions lists the subscription.
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

// Items iterates over what arrives. An item has either events or one of Gap and Expired. An error ends the
// iteration if [client.Final] says so; after Close and an expiry it ends without one. A subscription to
// several channels, such as realtime and cron, gets an event by each.
//
// An iteration may be left with break and taken up again with another call: what arrives meanwhile waits
// in a bounded buffer. What does not fit is lost, and a gap stands in its place.
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

// ID is the subscription's id on the server, for [Client.Update] and its siblings. It is another one after
// the subscription was made anew.
func (s *Subscription) ID() string { return s.c.named() }

// Status returns what is known of the subscription; its Event is the filter's event types.
func (s *Subscription) Status() client.Status { return s.sub.Status() }

// Close removes the subscription and ends its iteration. It returns when nothing of the subscription runs
// any more; where the server does not answer it waits up to 3 s. The error is always nil.
func (s *Subscription) Close() error { return s.sub.Close() }
