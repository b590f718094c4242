package memory

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A record is a stored [store.Subscription] without its ID. A server has many records, so their times are short, and a
// history holds the fields that are zero for most subscriptions. The slices and maps of a record never change.
type record struct {
	principal, url, event, schema                  string
	arguments                                      string
	secrets                                        []secret
	shard, codes                                   int32
	generation, revision                           uint64
	admitted                                       store.ControlPosition
	created, refreshed, expires, notBefore, paused instant
	epoch                                          uint64
	base                                           store.Position
	open, truncated                                bool
	requests                                       map[store.RequestKind]store.Request
	history                                        *history // nil if it is zero
}

type secret struct {
	key      string
	notAfter instant
}

// A history describes the deliveries so far.
type history struct {
	settled  []store.Span
	upstream string
	health   store.Health
	report   *store.Report
}

// recordOf returns the record of s, which shares no memory with s that a caller could modify.
func recordOf(s *store.Subscription) *record {
	r := &record{principal: s.Principal, url: s.URL, event: s.Event, schema: s.Schema, arguments: string(s.Arguments), shard: int32(s.Shard),
		codes: int32(s.Codes), generation: s.Generation, revision: s.Revision, admitted: s.Admitted, created: instantOf(s.CreatedAt),
		refreshed: instantOf(s.RefreshedAt), expires: instantOf(s.ExpiresAt), notBefore: instantOf(s.NotBefore), paused: instantOf(s.PausedAt),
		truncated: s.Truncated, requests: maps.Clone(s.Requests), secrets: make([]secret, len(s.Secrets))}
	for i, k := range s.Secrets {
		r.secrets[i] = secret{string(k.Key), instantOf(k.NotAfter)}
	}
	r.setProgress(&store.Update{Progress: s.Progress, Health: s.Health, Report: s.Report})
	return r
}

// setProgress sets the fields that the owner of the subscription writes.
func (r *record) setProgress(u *store.Update) {
	p := &u.Progress
	r.epoch, r.base, r.open, r.history = p.Epoch, p.Base, p.Open, nil
	if len(p.Settled) > 0 || p.Upstream != "" || u.Health != (store.Health{}) || u.Report != nil {
		r.history = &history{slices.Clone(p.Settled), p.Upstream, u.Health, u.Report}
	}
}

// listed returns the subscription with the given id, without its secrets. It shares memory with r.
func (r *record) listed(id string) store.Subscription {
	s := store.Subscription{ID: id, Principal: r.principal, URL: r.url, Event: r.event, Schema: r.schema, Arguments: json.RawMessage(r.arguments),
		Shard: int(r.shard), Codes: int(r.codes), Generation: r.generation, Revision: r.revision, Admitted: r.admitted,
		CreatedAt: r.created.time(), RefreshedAt: r.refreshed.time(), ExpiresAt: r.expires.time(), NotBefore: r.notBefore.time(),
		PausedAt: r.paused.time(), Truncated: r.truncated, Requests: r.requests, Progress: store.Progress{Epoch: r.epoch, Base: r.base, Open: r.open}}
	if h := r.history; h != nil {
		s.Progress.Settled, s.Progress.Upstream, s.Health, s.Report = h.settled, h.upstream, h.health, h.report
	}
	return s
}

// subscription returns a copy of the subscription with the given id.
func (r *record) subscription(id string) store.Subscription {
	s := r.listed(id)
	s.Requests, s.Progress.Settled = maps.Clone(s.Requests), slices.Clone(s.Progress.Settled)
	for _, k := range r.secrets {
		s.Secrets = append(s.Secrets, store.Secret{Key: []byte(k.key), NotAfter: k.notAfter.time()})
	}
	return s
}

// isFailing reports whether the latest delivery has failed or deliveries are suspended.
func (r *record) isFailing() bool {
	return r.history != nil && (r.history.health.Suspended || !r.history.health.FailedSince.IsZero())
}

// An instant is a time in Unix nanoseconds, where 0 means no time.
type instant int64

// instantOf returns the instant of t. Times after the year 2262, such as the expiry of a token, become the last instant.
func instantOf(t time.Time) instant {
	switch {
	case t.IsZero():
		return 0
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	}
	return instant(t.UnixNano())
}

func (i instant) time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(i)).UTC()
}
