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

// A Status describes the state of a live subscription. See CLI-8.
type Status struct {
	// ID identifies the subscription within its Client.
	ID string
	// Event is the event type's name.
	Event string
	// Arguments holds the arguments that the server receives as JSON, including that of [NotBy], or nil without arguments.
	Arguments json.RawMessage
	// CursorKey is the subscription's key in the cursor store, or "" without a store. Live subscriptions of a client
	// have different keys, see [WithCursorKey].
	CursorKey string
	// Mode is the delivery mode in use.
	Mode string
	// Since is the time when Subscribe was called.
	Since time.Time
	// LastFrame is the time when the server last sent data; zero if it has sent none.
	LastFrame time.Time
	// Cursor is the current position, or "" if unknown.
	Cursor string
	// Received, Duplicates and Withheld are the numbers of new occurrences, of repeated occurrences, and of occurrences
	// that the policy withheld.
	Received, Duplicates, Withheld int64
	// Gaps is the number of gaps.
	Gaps int64
	// Drift is set if the generated types differ from the published ones. See CLI-9.
	Drift *Drift
	// LastError is the last error that interrupted or delayed delivery, or nil. While a webhook subscription's callback
	// is refusing deliveries, it is the latest refusal.
	LastError error
	// RefreshBefore is the time, by the server's clock, when a webhook subscription expires unless it is refreshed. It
	// is zero in other modes and if the subscription does not expire.
	RefreshBefore time.Time
	// Delivery is the delivery status that the server reported at the last refresh of a webhook subscription. It is nil
	// before the first report and in other modes.
	Delivery *DeliveryStatus
	// Refused describes the deliveries that a webhook subscription's callback has refused in this process. It is zero
	// in other modes.
	Refused webhook.Refusals
}

// A Drift reports that code was generated from schemas that differ from the published ones. See CLI-9.
type Drift struct {
	// Event is the event type's name.
	Event string
	// Generated and Published are the fingerprints of the schemas. See EVOL-4.
	Generated, Published string
}

// Subscriptions returns the status of each live subscription in order of creation.
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

// End ends the live subscription with the given ID and reports whether it existed. Its iteration ends with [ErrClosed].
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
	st.ID, st.Event, st.Arguments, st.CursorKey = s.id, s.name, slices.Clone(s.args), s.ledger.key
	st.Mode, st.Cursor = s.modeName, s.cursor
	return st
}

func (c *Client) remove(s *subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.subs, s)
	delete(c.keys, s.ledger.key)
}

// checkDescriptor reports drift if the descriptor's types differ from the subscription's types.
func (s *subscription) checkDescriptor(d Descriptor) {
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

// checkFingerprint reports drift if an occurrence's fingerprint differs from the subscription's.
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
