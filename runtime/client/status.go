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

// A Status describes one live subscription, for audit. See CLI-8.
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
	// LastFrame is when the server last sent anything; zero before that.
	LastFrame time.Time
	// Cursor is the position received so far, or "".
	Cursor string
	// Received, Duplicates and Withheld count occurrences: new ones, repeated ones, and ones that the policy withheld.
	Received, Duplicates, Withheld int64
	// Gaps counts gaps.
	Gaps int64
	// Drift is set if the generated types differ from the published ones. See CLI-9.
	Drift *Drift
	// LastError is why delivery was last interrupted or slowed down, or nil. While the callback of a webhook
	// subscription refuses deliveries, it is the reason for that.
	LastError error
	// RefreshBefore is when a webhook subscription expires unless it is refreshed, by the server's clock. It is zero if
	// the subscription does not expire, and in other modes.
	RefreshBefore time.Time
	// Delivery is the server's report at the last refresh of a webhook subscription. It is nil before that and in other
	// modes.
	Delivery *DeliveryStatus
	// Refused counts the deliveries that the callback of a webhook subscription refused in this process; zero in other
	// modes.
	Refused webhook.Refusals
}

// A Drift reports that code was generated from other schemas than the server publishes. See CLI-9.
type Drift struct {
	// Event is the event type's name.
	Event string
	// Generated and Published are the fingerprints. See EVOL-4.
	Generated, Published string
}

// Subscriptions returns the live subscriptions in order of creation.
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

// End ends the live subscription with that ID with ErrClosed and reports whether it existed.
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

// checkFingerprint reports drift if an occurrence carries another fingerprint.
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
	s.log.Warn("generated types differ from the published types", "generated", d.Generated, "published", d.Published)
	if s.c.opts.OnDrift != nil {
		s.c.opts.OnDrift(d)
	}
}
