package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/scalar"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Kinds of quotas.
const (
	subscriptionQuota = "s"
	verificationQuota = "v"
)

// A storedSubscription is the encoding of a subscription in the stream. Strings that may be invalid UTF-8 are stored as
// bytes. Times are in Unix nanoseconds; 0 means the zero time.
type storedSubscription struct {
	ID, Principal, URL, Arguments                  []byte
	Event, Schema                                  string
	Shard, Codes                                   int
	Secrets                                        []byte
	Generation                                     uint64
	Created, Refreshed, Expires, NotBefore, Paused int64
	Admitted                                       store.ControlPosition
	Truncated                                      bool
	Requests                                       map[store.RequestKind]store.Request `json:",omitempty"`
}

// A storedProgress is the encoding of a subscription's progress, health and report in the stream.
type storedProgress struct {
	Epoch, Base                               uint64
	Settled                                   []store.Span
	Open                                      bool
	Upstream                                  []byte
	Suspended                                 bool
	SuspendedAfter, FailedSince, LastDelivery int64
	LastError                                 string
	Slow                                      bool
	Report                                    *store.Report `json:",omitempty"`
}

func progressOf(p store.Progress, h store.Health, r *store.Report) ([]byte, error) {
	return json.Marshal(storedProgress{Epoch: p.Epoch, Base: uint64(p.Base), Settled: p.Settled, Open: p.Open, Upstream: []byte(p.Upstream),
		Suspended: h.Suspended, SuspendedAfter: scalar.Nanos(h.SuspendedAfter), FailedSince: scalar.Nanos(h.FailedSince), LastDelivery: scalar.Nanos(h.LastDeliveryAt), LastError: h.LastError, Slow: h.Slow, Report: r})
}

// encodeSubscription encodes a subscription with sealed secrets as the body of a record.
func (s *Store) encodeSubscription(sub *store.Subscription) ([]byte, error) {
	secrets, err := s.box.Seal(sub.ID, sub.Secrets)
	if err != nil {
		return nil, err
	}
	return json.Marshal(storedSubscription{ID: []byte(sub.ID), Principal: []byte(sub.Principal), URL: []byte(sub.URL), Arguments: sub.Arguments,
		Event: sub.Event, Schema: sub.Schema, Shard: sub.Shard, Codes: sub.Codes, Secrets: secrets, Generation: sub.Generation,
		Created: scalar.Nanos(sub.CreatedAt), Refreshed: scalar.Nanos(sub.RefreshedAt), Expires: scalar.Nanos(sub.ExpiresAt), NotBefore: scalar.Nanos(sub.NotBefore),
		Paused: scalar.Nanos(sub.PausedAt), Admitted: sub.Admitted, Truncated: sub.Truncated, Requests: sub.Requests})
}

// decodeSubscription decodes the body of a subscription record.
func decodeSubscription(r record) (x storedSubscription, err error) {
	if err := json.Unmarshal(r.body, &x); err != nil {
		return x, fmt.Errorf("%w: %s: %w", ErrCorrupt, r.subject, err)
	}
	return x, nil
}

// decodeWithProgress decodes a subscription from its record and its progress. It returns an error if the progress is
// missing.
func (s *Store) decodeWithProgress(r, progress record) (sub store.Subscription, err error) {
	x, err := decodeSubscription(r)
	if err != nil {
		return sub, err
	}
	sub = store.Subscription{ID: string(x.ID), Principal: string(x.Principal), URL: string(x.URL), Event: x.Event, Arguments: x.Arguments,
		Shard: x.Shard, Schema: x.Schema, Codes: x.Codes, Generation: x.Generation, Revision: r.sequence,
		CreatedAt: scalar.Time(x.Created), RefreshedAt: scalar.Time(x.Refreshed), ExpiresAt: scalar.Time(x.Expires), NotBefore: scalar.Time(x.NotBefore),
		PausedAt: scalar.Time(x.Paused), Admitted: x.Admitted, Truncated: x.Truncated, Requests: x.Requests}
	if sub.Secrets, err = s.box.Open(sub.ID, x.Secrets); err != nil {
		return sub, classifySecretError(err)
	}
	if !progress.exists() {
		return sub, fmt.Errorf("%w: subscription %s has no progress", ErrCorrupt, sub.ID)
	}
	var p storedProgress
	if err := json.Unmarshal(progress.body, &p); err != nil {
		return sub, fmt.Errorf("%w: %s: %w", ErrCorrupt, progress.subject, err)
	}
	sub.Progress = store.Progress{Epoch: p.Epoch, Base: store.Position(p.Base), Settled: p.Settled, Open: p.Open, Upstream: string(p.Upstream)}
	sub.Health = store.Health{Suspended: p.Suspended, SuspendedAfter: scalar.Time(p.SuspendedAfter), FailedSince: scalar.Time(p.FailedSince),
		LastDeliveryAt: scalar.Time(p.LastDelivery), LastError: p.LastError, Slow: p.Slow}
	sub.Report = p.Report
	return sub, nil
}

// classifySecretError wraps an error from opening secrets with ErrKey or ErrCorrupt.
func classifySecretError(err error) error {
	switch {
	case errors.Is(err, sealed.ErrKey):
		return fmt.Errorf("%w: %w", ErrKey, err)
	case errors.Is(err, sealed.ErrForm):
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

// shardPrefix returns the subject prefix of a shard. A process that does not use shards has a shard with an empty
// topic.
func shardPrefix(s engine.Shard) string {
	return "o." + logToken(s.Topic) + "." + strconv.Itoa(s.Number) + "."
}

// shardPattern is a pattern that matches the prefix of every shard.
const shardPattern = "o.*.*."

// recordSubject returns the subject of a subscription's record, and progressSubject returns that of its progress in a
// generation. The argument at is the prefix of the subscription's shard.
func recordSubject(at, id string) string { return at + "r." + encodeToken(id) }

func progressSubject(at, id string, generation uint64) string {
	return recordSubject(at, id) + "." + strconv.FormatUint(generation, 16)
}

// markSubject returns the subject of a log's mark in a shard.
func markSubject(at, log string) string { return at + "m." + logToken(log) }

// pairToken returns a token that identifies a principal and a URL.
func pairToken(principal, url string) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(len(principal)) + " " + principal + url))
	return hex.EncodeToString(sum[:16])
}

// counterSubjects returns the subjects of the counters for one principal and for all principals.
func counterSubjects(kind, principal string) (own, all string) {
	sum := sha256.Sum256([]byte(principal))
	return "q." + kind + "." + hex.EncodeToString(sum[:16]), "q." + kind + ".all"
}

func counted(r record) (n int, err error) {
	if r.exists() {
		if n, err = strconv.Atoi(string(r.body)); err != nil {
			return 0, fmt.Errorf("%w: %s holds %q", ErrCorrupt, r.subject, r.body)
		}
	}
	return n, nil
}

// addToCounter returns a write that adds to a counter. A counter that drops to 0 is deleted.
func addToCounter(r record, by int) (write, error) {
	n, err := counted(r)
	if n += by; n <= 0 {
		return remove(r), err
	}
	return put(r, []byte(strconv.Itoa(n))), err
}

// reserve returns writes that add one record to both counters. It returns an [engine.QuotaError] if a quota is
// exhausted.
func reserve(r *reading, kind, principal string, q engine.Quota) ([]write, error) {
	own, all := counterSubjects(kind, principal)
	has, err := counted(r.of(own))
	if err != nil {
		return nil, err
	}
	sum, err := counted(r.of(all))
	if err == nil {
		err = q.Full(has, sum)
	}
	if err != nil {
		return nil, err
	}
	return adjustCounters(r, kind, map[string]int{principal: 1})
}

// adjustCounters returns writes that add to the counters of principals and to the counter of all principals.
func adjustCounters(r *reading, kind string, by map[string]int) (writes []write, err error) {
	total, all := 0, ""
	for principal, n := range by {
		own := ""
		own, all = counterSubjects(kind, principal)
		w, err := addToCounter(r.of(own), n)
		if err != nil {
			return nil, err
		}
		total, writes = total+n, append(writes, w)
	}
	w, err := addToCounter(r.of(all), total)
	return append(writes, w), err
}

// PutSubscription implements [store.SubscriptionStore].
func (s *Store) PutSubscription(ctx context.Context, sub store.Subscription) (uint64, error) {
	return s.admit(ctx, sub, engine.Quota{}, nil)
}

// Admit implements [engine.Shared].
func (s *Store) Admit(ctx context.Context, sub store.Subscription, q engine.Quota) (uint64, error) {
	return s.admit(ctx, sub, q, nil)
}

// withLock calls f while holding the lock for a key. Concurrent changes by this process with the same key would
// otherwise conflict.
func (s *Store) withLock(ctx context.Context, key string, f func(ctx context.Context) error) error {
	ctx, done, err := s.beginCall(ctx)
	if err != nil {
		return err
	}
	defer done()
	unlock, err := s.locks.Lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	return s.wrapClosed(f(ctx))
}

// subscriptionSubjects returns patterns for all subjects of a subscription, in any shard.
func subscriptionSubjects(id string) []string {
	return []string{recordSubject(shardPattern, id), recordSubject(shardPattern, id) + ".*"}
}

// findSubscription returns the record of a subscription. The reading must include the patterns returned by
// subscriptionSubjects. The record is zero if the subscription does not exist.
func findSubscription(r *reading, id string) (rec record, x storedSubscription, err error) {
	for _, rec = range r.findMatching(recordSubject(shardPattern, id)) {
		x, err = decodeSubscription(rec)
		return rec, x, err
	}
	return record{}, x, nil
}

// admit stores a record. Unless h is nil, the record must be in its shard.
func (s *Store) admit(ctx context.Context, sub store.Subscription, q engine.Quota, h *engine.ShardFence) (revision uint64, err error) {
	body, err := s.encodeSubscription(&sub)
	if err != nil {
		return 0, err
	}
	sub.Progress.Open = true // stored only for a new generation
	progress, err := progressOf(sub.Progress, sub.Health, sub.Report)
	if err != nil {
		return 0, err
	}
	shard := engine.Shard{Topic: sub.Event, Number: sub.Shard}
	if h != nil && h.Shard != shard {
		return 0, fmt.Errorf("%w: it is of %v", engine.ErrFenced, shard)
	}
	at := shardPrefix(shard)
	own, all := counterSubjects(subscriptionQuota, sub.Principal)
	use := "u." + pairToken(sub.Principal, sub.URL) + "." + encodeToken(sub.ID)
	read := append(subscriptionSubjects(sub.ID), recordSubject(at, sub.ID), progressSubject(at, sub.ID, sub.Generation), use, own, all)
	var old *storedSubscription
	step := func(r *reading) (writes []write, err error) {
		old = nil
		rec, x, err := findSubscription(r, sub.ID)
		switch {
		case err != nil:
			return nil, err
		case rec.sequence != sub.Revision:
			return nil, store.ErrConflict
		case rec.sequence > 0 && x.Generation == sub.Generation: // its identity and progress are preserved
			var next storedSubscription
			if err := json.Unmarshal(body, &next); err != nil {
				return nil, err
			}
			next.ID, next.Principal, next.URL, next.Arguments, next.Event, next.Shard, next.Created = x.ID, x.Principal, x.URL, x.Arguments, x.Event, x.Shard, x.Created
			b, err := json.Marshal(next)
			return []write{put(rec, b)}, err
		}
		writes = []write{put(r.of(recordSubject(at, sub.ID)), body), put(r.of(progressSubject(at, sub.ID, sub.Generation)), progress)}
		if rec.sequence == 0 {
			counts, err := reserve(r, subscriptionQuota, sub.Principal, q)
			return append(append(writes, put(r.of(use), nil)), counts...), err
		}
		old = &x
		if string(x.Principal) != sub.Principal || string(x.URL) != sub.URL {
			return nil, errors.New("it was of another principal or URL")
		}
		return append(writes, deleteOthers(r, sub.ID, writes)...), nil
	}
	key := subscriptionQuota
	if sub.Revision > 0 { // it is already counted
		key = "subscription " + sub.ID
	}
	err = s.withLock(ctx, key, func(ctx context.Context) (err error) {
		revision, err = s.changeOwned(ctx, h, read, step)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("subscription %s: %w", sub.ID, err)
	}
	if old != nil {
		s.forgetAttempts(ctx, sub.ID, old.Generation)
	}
	return revision, nil
}

// deleteOthers returns writes that delete all records of a subscription, except those with the subjects of the given
// writes.
func deleteOthers(r *reading, id string, but []write) (writes []write) {
	for _, pattern := range subscriptionSubjects(id) {
		for _, x := range r.findMatching(pattern) {
			if !slices.ContainsFunc(but, func(w write) bool { return w.subject == x.subject }) {
				writes = append(writes, remove(x))
			}
		}
	}
	return writes
}

// DeleteSubscription implements [store.SubscriptionStore].
func (s *Store) DeleteSubscription(ctx context.Context, id string, generation uint64) error {
	return s.delete(ctx, id, generation, nil)
}

func (s *Store) delete(ctx context.Context, id string, generation uint64, h *engine.ShardFence) error {
	gone := false
	err := s.withLock(ctx, subscriptionQuota, func(ctx context.Context) error {
		var x storedSubscription
		// The principal and the URL are read first: the subjects of the counters and of the use depend on them.
		r, err := s.state.read(ctx, true, recordSubject(shardPattern, id))
		if err != nil {
			return err
		}
		rec, x, err := findSubscription(r, id)
		if err != nil {
			return err
		}
		own, all := counterSubjects(subscriptionQuota, string(x.Principal))
		use := "u." + pairToken(string(x.Principal), string(x.URL)) + "." + encodeToken(id)
		if rec.sequence == 0 { // the hold is checked even so
			own, all, use = "q.none", "q.none", "u.none.none"
		}
		_, err = s.changeOwned(ctx, h, append(subscriptionSubjects(id), own, all, use), func(r *reading) ([]write, error) {
			gone = false
			rec, now, err := findSubscription(r, id)
			if err != nil || rec.sequence == 0 || now.Generation != generation || h != nil && !strings.HasPrefix(rec.subject, shardPrefix(h.Shard)) {
				return nil, err
			}
			gone = true
			counts, err := adjustCounters(r, subscriptionQuota, map[string]int{string(x.Principal): -1})
			return append(append(deleteOthers(r, id, nil), remove(r.of(use))), counts...), err
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("deleting subscription %s: %w", id, err)
	}
	if gone {
		s.forgetAttempts(ctx, id, generation)
	}
	return nil
}

// Subscription implements [store.SubscriptionStore].
func (s *Store) Subscription(ctx context.Context, id string) (store.Subscription, bool, error) {
	r, err := s.readProven(ctx, subscriptionSubjects(id)...)
	if err != nil {
		return store.Subscription{}, false, err
	}
	rec, x, err := findSubscription(r, id)
	if err != nil || rec.sequence == 0 {
		return store.Subscription{}, false, err
	}
	sub, err := s.decodeWithProgress(rec, r.of(rec.subject+"."+strconv.FormatUint(x.Generation, 16)))
	if err != nil {
		return store.Subscription{}, false, err
	}
	return sub, true, nil
}

// CountSubscriptions implements [store.SubscriptionStore].
func (s *Store) CountSubscriptions(ctx context.Context, principal string) (own, all int, err error) {
	return s.countRecords(ctx, subscriptionQuota, principal)
}

func (s *Store) countRecords(ctx context.Context, kind, principal string) (own, all int, err error) {
	mine, everybodys := counterSubjects(kind, principal)
	r, err := s.readProven(ctx, mine, everybodys)
	if err != nil {
		return 0, 0, err
	}
	if own, err = counted(r.of(mine)); err == nil {
		all, err = counted(r.of(everybodys))
	}
	return own, all, err
}
