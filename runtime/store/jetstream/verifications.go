package jetstream

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/scalar"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A storedVerification is the encoding of a verification in the stream.
type storedVerification struct {
	Principal, URL []byte
	Method         string
	At, Until      int64
}

func decodeVerification(r record) (v storedVerification, err error) {
	if err := json.Unmarshal(r.body, &v); err != nil {
		return v, fmt.Errorf("%w: verification %s: %w", ErrCorrupt, r.subject, err)
	}
	return v, nil
}

// Verification implements [store.SubscriptionStore].
func (s *Store) Verification(ctx context.Context, principal, url string) (v store.Verification, ok bool, err error) {
	subject := "v." + pairToken(principal, url)
	r, err := s.readProven(ctx, subject)
	if err != nil {
		return v, false, err
	}
	x := r.of(subject)
	if !x.exists() {
		return v, false, nil
	}
	is, err := decodeVerification(x)
	if err != nil {
		return v, false, err
	}
	return store.Verification{Principal: principal, URL: url, Method: is.Method, At: scalar.Time(is.At), Until: scalar.Time(is.Until)}, true, nil
}

// PutVerification implements [store.SubscriptionStore].
func (s *Store) PutVerification(ctx context.Context, v store.Verification) error {
	return s.AdmitVerification(ctx, v, engine.Quota{})
}

// AdmitVerification implements [engine.Shared].
func (s *Store) AdmitVerification(ctx context.Context, v store.Verification, q engine.Quota) error {
	body, err := json.Marshal(storedVerification{[]byte(v.Principal), []byte(v.URL), v.Method, scalar.Nanos(v.At), scalar.Nanos(v.Until)})
	if err != nil {
		return err
	}
	subject := "v." + pairToken(v.Principal, v.URL)
	own, all := counterSubjects(verificationQuota, v.Principal)
	return s.withLock(ctx, verificationQuota, func(ctx context.Context) error {
		_, err := s.state.change(ctx, []string{subject, own, all}, func(r *reading) ([]write, error) {
			x := r.of(subject)
			writes := []write{put(x, body)}
			if x.exists() {
				return writes, nil
			}
			counts, err := reserve(r, verificationQuota, v.Principal, q)
			return append(writes, counts...), err
		})
		return err
	})
}

// DeleteVerification implements [store.SubscriptionStore].
func (s *Store) DeleteVerification(ctx context.Context, principal, url string) error {
	return s.withLock(ctx, verificationQuota, func(ctx context.Context) error {
		_, err := s.deleteVerifications(ctx, map[string]string{"v." + pairToken(principal, url): principal}, nil)
		return err
	})
}

// deleteVerifications deletes the verifications with the given subjects. The map contains their principals. If still is
// not nil, it deletes only verifications for which still returns true.
func (s *Store) deleteVerifications(ctx context.Context, of map[string]string, still func(record) bool) (n int, err error) {
	var read []string
	for subject, principal := range of {
		own, all := counterSubjects(verificationQuota, principal)
		read = append(read, subject, own, all)
	}
	_, err = s.state.change(ctx, read, func(r *reading) (writes []write, err error) {
		by := map[string]int{}
		for subject, principal := range of {
			if x := r.of(subject); x.exists() && (still == nil || still(x)) {
				writes = append(writes, remove(x))
				by[principal]--
			}
		}
		if n = len(writes); n == 0 {
			return nil, nil
		}
		counts, err := adjustCounters(r, verificationQuota, by)
		return append(writes, counts...), err
	})
	return n, err
}

// CountVerifications implements [store.SubscriptionStore].
func (s *Store) CountVerifications(ctx context.Context, principal string) (own, all int, err error) {
	return s.countRecords(ctx, verificationQuota, principal)
}

// sweepBatch is the maximum number of verifications removed per batch.
const sweepBatch = 100

// SweepVerifications implements [store.SubscriptionStore]. It removes verifications in batches of up to sweepBatch. A
// subscription that is admitted during the sweep may lose its verification.
func (s *Store) SweepVerifications(ctx context.Context, now time.Time, limit int) (removed int, err error) {
	err = s.withLock(ctx, verificationQuota, func(ctx context.Context) error {
		found, _, err := s.state.scan(ctx, "v.>", s.proofSubject("v."), 1, 0)
		if err != nil {
			return err
		}
		latest := map[string]record{}
		for _, r := range found {
			latest[r.subject] = r
		}
		over := map[string]string{} // principal by subject
		step := func() error {
			n, err := s.sweepSome(ctx, over, latest)
			removed += n
			clear(over)
			return err
		}
		for subject, r := range latest {
			if !r.exists() {
				continue
			}
			v, err := decodeVerification(r)
			if err != nil {
				return err
			}
			if v.Until == 0 || v.Until > now.UnixNano() {
				continue
			}
			if over[subject] = string(v.Principal); len(over) == sweepBatch || removed+len(over) == limit {
				if err := step(); err != nil || removed >= limit {
					return err
				}
			}
			if removed+len(over) > limit {
				break
			}
		}
		if limit <= 0 {
			return nil
		}
		return step()
	})
	return removed, err
}

// sweepSome removes the verifications in over that no subscription uses and that have not changed since they were read.
func (s *Store) sweepSome(ctx context.Context, over map[string]string, was map[string]record) (removed int, err error) {
	var uses []string
	for subject := range over {
		uses = append(uses, "u."+strings.TrimPrefix(subject, "v.")+".*")
	}
	if len(uses) == 0 {
		return 0, nil
	}
	r, err := s.state.read(ctx, true, uses...)
	if err != nil {
		return 0, err
	}
	unused := map[string]string{}
	for subject, principal := range over {
		if len(r.findMatching("u."+strings.TrimPrefix(subject, "v.")+".*")) == 0 {
			unused[subject] = principal
		}
	}
	if len(unused) == 0 {
		return 0, nil
	}
	return s.deleteVerifications(ctx, unused, func(r record) bool { return r.sequence == was[r.subject].sequence })
}
