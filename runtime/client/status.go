package client

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// A Status is what is known of one live subscription, for audit. See CLI-8.
type Status struct {
	// ID identifies the subscription within its Client.
	ID string
	// Event is the event type's name.
	Event string
	// Arguments are the subscription's arguments as JSON; nil for none.
	Arguments json.RawMessage
	// Mode is the delivery mode in use.
	Mode string
	// Since is when Subscribe was called.
	Since time.Time
	// LastFrame is when the server was last heard; zero before that.
	LastFrame time.Time
	// Cursor is the position that has been received; "" while there is none.
	Cursor string
	// Received, Duplicates and Withheld count occurrences: new ones, repeated ones, and those that
	// the policy kept from the application.
	Received, Duplicates, Withheld int64
	// Gaps counts gaps.
	Gaps int64
	// Drift is set when the generated types differ from what the server publishes. See CLI-9.
	Drift *Drift
	// LastError is why the delivery was last interrupted or slowed down, or nil; while the callback of a webhook
	// subscription refuses deliveries, it says so.
	LastError error
	// RefreshBefore is when a webhook subscription ends unless it is refreshed, by the server's
	// clock; zero for never and in other modes.
	RefreshBefore time.Time
	// Delivery is what the server reported at the last refresh of a webhook subscription; nil
	// before that and in other modes.
	Delivery *DeliveryStatus
	// Refused is what the callback of a webhook subscription has refused, in this process; zero in
	// other modes.
	Refused webhook.Refusals
}

// A Drift says that generated code was made from other schemas than those that the server
// publishes. See CLI-9.
type Drift struct {
	// Event is the event type's name.
	Event string
	// Generated and Published are the fingerprints. See EVOL-4.
	Generated, Published string
}

// Subscriptions lists the live subscriptions in the order in which they were made.
func (c *Client) Subscriptions() []Status {
	all := c.registry()
	slices.SortFunc(all, func(a, b *subscription) int {
		return cmp.Or(cmp.Compare(len(a.id), len(b.id)), cmp.Compare(a.id, b.id))
	})
	list := make([]Status, len(all))
	for i, s := range all {
		list[i] = s.snapshot()
	}
	return list
}

// End ends the live subscription of that id with ErrClosed and reports whether there was one.
func (c *Client) End(id string) bool {
	for _, s := range c.registry() {
		if s.id == id {
			s.cancel(ErrClosed)
			<-s.done
			return true
		}
	}
	return false
}

func (s *subscription) snapshot() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	if s.endpoint != nil {
		if st.Refused = s.endpoint.Refused(); st.Refused.Standing {
			st.LastError = st.Refused.Last
		}
	}
	if d := st.Delivery; d != nil {
		own := *d
		st.Delivery = &own
	}
	st.ID, st.Event, st.Arguments, st.Mode, st.Cursor = s.id, s.name, slices.Clone(s.args), s.modeName, s.cursor
	return st
}

func (c *Client) remove(s *subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.subs, s)
	delete(c.keys, s.ledger.key)
}

// compare reports drift between the subscription's types and a descriptor.
func (s *subscription) compare(d Descriptor) {
	if s.fingerprint == "" {
		return
	}
	published, _ := d.Meta[wire.MetaFingerprint].(string)
	if published == "" { // another implementation's server
		var err error
		if published, err = wire.Fingerprint(d.InputSchema, d.PayloadSchema); err != nil {
			return
		}
	}
	s.drift(published)
}

// checkFingerprint reports drift that an occurrence itself shows.
func (s *subscription) checkFingerprint(o *wire.Occurrence) {
	if s.fingerprint == "" || !bytes.Contains(o.Meta, []byte(wire.MetaFingerprint)) {
		return
	}
	meta, err := wire.DecodeMembers(o.Meta)
	var published string
	if err == nil && meta.Read(wire.MetaFingerprint, &published) == nil && published != "" {
		s.drift(published)
	}
}

func (s *subscription) drift(published string) {
	s.mu.Lock()
	known := s.status.Drift
	if published == s.fingerprint {
		s.status.Drift = nil
		s.mu.Unlock()
		return
	}
	if known != nil && known.Published == published {
		s.mu.Unlock()
		return
	}
	d := Drift{Event: s.name, Generated: s.fingerprint, Published: published}
	s.status.Drift = &d
	s.mu.Unlock()
	s.log.Warn("generated types differ from what the server publishes", "generated", d.Generated, "published", d.Published)
	if s.c.opts.OnDrift != nil {
		s.c.opts.OnDrift(d)
	}
}
