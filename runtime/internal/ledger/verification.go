package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A verificationRecord is the value of ver.
type verificationRecord struct {
	store.Verification
	Counted [2]int `json:"counted"`
}

// Bytes implements [store.Value].
func (v *verificationRecord) Bytes() []byte { return encode(v) }

func verificationKey(principal, url string) string {
	return join(familyVerified, hash(principal), hash(url))
}

// Verification returns the verification of a URL for a principal, and whether there is one (VER-3).
func (l *Ledger) Verification(ctx context.Context, principal, url string) (v store.Verification, ok bool, err error) {
	found, err := l.e.Get(ctx, store.Latest, verificationKey(principal, url))
	if err != nil {
		return v, false, err
	}
	record, err := decode[verificationRecord](found[0])
	if err != nil || record == nil {
		return v, false, err
	}
	return record.Verification, true, nil
}

// AdmitVerification stores a verification. It replaces the one of the same principal and URL, and counts a new one; it
// returns a [*QuotaError] if a quota is used up (REP-12).
func (l *Ledger) AdmitVerification(ctx context.Context, v store.Verification, q Quota) error {
	if err := checkTexts(v.Principal, v.URL); err != nil {
		return err
	}
	key := verificationKey(v.Principal, v.URL)
	err := l.reserve(ctx, countersOf(countVerifications, v.Principal, q), func(at *reservation) error {
		counted := at.keys()
		_, err := l.change(ctx, append(counted[:], key), func(r reading) (*store.Commit, error) {
			old, err := decode[verificationRecord](r.of(key))
			if err != nil {
				return nil, err
			}
			c := &store.Commit{Writes: make([]store.Write, 1, 3)}
			record := &verificationRecord{v, at.at}
			if old != nil {
				record.Counted = old.Counted
			} else if c.Writes, err = at.count(l, c.Writes, r); err != nil {
				return nil, err
			}
			c.Writes[0] = r.write(key, record)
			return c, nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("storing a verification: %w", err)
	}
	return nil
}

// DeleteVerification deletes the verification of a URL for a principal, if there is one.
func (l *Ledger) DeleteVerification(ctx context.Context, principal, url string) error {
	_, err := l.deleteVerification(ctx, verificationKey(principal, url), func(*store.Verification) bool { return true })
	if err != nil {
		return fmt.Errorf("deleting a verification: %w", err)
	}
	return nil
}

// deleteVerification deletes a verification if judge agrees, and subtracts it from its counters.
func (l *Ledger) deleteVerification(ctx context.Context, key string, judge func(v *store.Verification) bool) (deleted bool, err error) {
	revisions, err := l.change(ctx, []string{key}, func(r reading) (*store.Commit, error) {
		v, err := decode[verificationRecord](r.of(key))
		if err != nil || v == nil || !judge(&v.Verification) {
			return nil, err
		}
		counters := countersOf(countVerifications, v.Principal, Quota{})
		if missing := r.missing(counters[0].stripe(v.Counted[0]), counters[1].stripe(v.Counted[1])); missing != nil {
			return nil, &needError{missing}
		}
		c := &store.Commit{Writes: []store.Write{r.write(key, nil)}}
		for i := range counters {
			c.Writes = l.subtract(&counters[i], c.Writes, r, v.Counted[i])
		}
		return c, nil
	})
	return revisions != nil, err
}

// CountVerifications returns how many verifications the principal has and how many there are.
func (l *Ledger) CountVerifications(ctx context.Context, principal string) (own, all int, err error) {
	return l.total(ctx, countVerifications, principal)
}

// SweepVerifications deletes up to limit verifications that have expired at a time and that no subscription of the same
// principal and URL needs, and returns how many it has deleted.
func (l *Ledger) SweepVerifications(ctx context.Context, now time.Time, limit int) (deleted int, err error) {
	expired := func(v *store.Verification) bool { return !v.Until.IsZero() && !now.Before(v.Until) }
	err = l.each(ctx, familyVerified+"/", func(r store.Record) error {
		if deleted >= limit {
			return errEnough
		}
		v, err := decode[verificationRecord](r)
		if err != nil || !expired(&v.Verification) {
			return err
		}
		uses, err := l.e.Scan(ctx, join(familyUse, hash(v.Principal), hash(v.URL))+"/", "", 1)
		if err != nil || len(uses) > 0 {
			return err
		}
		ok, err := l.deleteVerification(ctx, r.Key, expired)
		if ok {
			deleted++
		}
		return err
	})
	if err != nil && !errors.Is(err, errEnough) {
		return deleted, fmt.Errorf("deleting expired verifications: %w", err)
	}
	return deleted, nil
}
