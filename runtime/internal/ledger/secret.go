package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A subscriptionRecord is the value of sub. In a store with a key, Sealed has the Secrets.
type subscriptionRecord struct {
	Subscription
	Sealed []byte `json:"sealed,omitempty"`
}

// Bytes implements [store.Value].
func (s *subscriptionRecord) Bytes() []byte { return encode(s) }

// seal returns the record of a subscription.
func (l *Ledger) seal(s Subscription) (*subscriptionRecord, error) {
	record := &subscriptionRecord{Subscription: s}
	record.Revision = 0
	if !l.box.Keyed() {
		return record, nil
	}
	var err error
	record.Sealed, err = l.box.Seal(s.ID, s.Secrets)
	record.Secrets = nil
	return record, err
}

// open returns the subscription of a record with its secrets, or one whose Revision is 0 if the record does not exist. If
// only the secrets cannot be opened, the rest is returned with the error.
func (l *Ledger) open(r store.Record) (Subscription, error) {
	record, err := decode[subscriptionRecord](r)
	if err != nil || record == nil {
		return Subscription{}, err
	}
	s := record.Subscription
	s.Revision = r.Revision
	switch {
	case record.Sealed != nil:
		s.Secrets, err = l.box.Open(s.ID, record.Sealed)
	case l.box.Keyed():
		s.Secrets, err = nil, fmt.Errorf("%w: the secrets of %s were written without the key of the store", sealed.ErrForm, s.ID)
	}
	return s, err
}

// A keyCheck is the value of key/check.
type keyCheck struct {
	// Sealed was made by [sealed.Box.SealCheck] with the key that seals secrets.
	Sealed []byte `json:"sealed"`
	// Adopting means that the store has got its first key and may still have secrets in plain text.
	Adopting bool `json:"adopting,omitempty"`
}

// Bytes implements [store.Value].
func (k *keyCheck) Bytes() []byte { return encode(k) }

// checkKey compares the keys with the check of the store. A store without a check takes the first key, and all secrets
// in plain text are then sealed. After that the ledger accepts none in plain text. The check names the key that seals; a
// store that is opened with it as an old key takes the new one.
func (l *Ledger) checkKey(ctx context.Context) error {
	adopting := false
	_, err := l.change(ctx, []string{checkKey}, func(r reading) (*store.Commit, error) {
		check, err := decode[keyCheck](r.of(checkKey))
		if err != nil || check == nil && !l.box.Keyed() {
			return nil, err
		}
		next := &keyCheck{Adopting: true}
		if check != nil {
			if err := l.box.Check(check.Sealed); err != nil {
				return nil, err
			}
			if adopting = check.Adopting; bytes.HasPrefix(check.Sealed, l.box.Prefix()) {
				return nil, nil
			}
			next.Adopting = check.Adopting
		}
		adopting, next.Sealed = next.Adopting, l.box.SealCheck()
		return &store.Commit{Writes: []store.Write{r.write(checkKey, next)}}, nil
	})
	if err != nil || !adopting {
		return err
	}
	if _, err := l.reseal(ctx, true); err != nil {
		return err
	}
	_, err = l.change(ctx, []string{checkKey}, func(r reading) (*store.Commit, error) {
		check, err := decode[keyCheck](r.of(checkKey))
		if err != nil || check == nil || !check.Adopting {
			return nil, err
		}
		return &store.Commit{Writes: []store.Write{r.write(checkKey, &keyCheck{Sealed: check.Sealed})}}, nil
	})
	return err
}

// Reseal encrypts with the current key the secrets that old keys have encrypted, and returns how many it had to leave
// because no key opens them. It does nothing if the ledger has no key, or if the check of the store names another one: a
// process with a newer key has opened the store. A process calls it from time to time, because a process that has not
// got a new key yet uses the old one.
func (l *Ledger) Reseal(ctx context.Context) (left int, err error) {
	if !l.box.Keyed() {
		return 0, nil
	}
	found, err := l.e.Get(ctx, store.Latest, checkKey)
	if err != nil {
		return 0, err
	}
	check, err := decode[keyCheck](found[0])
	if err != nil || check == nil || !bytes.HasPrefix(check.Sealed, l.box.Prefix()) {
		return 0, err
	}
	return l.reseal(ctx, false)
}

// reseal seals all secrets with the current key, including those in plain text if plain is set.
func (l *Ledger) reseal(ctx context.Context, plain bool) (left int, err error) {
	for _, of := range [...]struct {
		family string
		renew  func(r store.Record, plain bool) (store.Value, error)
	}{{familySub, l.resealed}, {familyCallback, l.resealedCallback}} {
		err := l.pages(ctx, of.family+"/", func(page []store.Record) error {
			for _, r := range page {
				next, err := of.renew(r, plain)
				switch {
				case err != nil && l.passOver(r.Key, err):
					left++
					continue
				case err != nil:
					return err
				case next == nil:
					continue
				}
				// The process that changes a record at this moment seals it.
				_, err = l.commit(ctx, &store.Commit{Writes: []store.Write{{Key: r.Key, On: r.Revision, Value: next}}})
				if err != nil && !errors.Is(err, store.ErrConflict) {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return left, err
		}
	}
	return left, nil
}

// resealed returns a record with its secrets sealed by the current key, or nil if that is how they are.
func (l *Ledger) resealed(r store.Record, plain bool) (store.Value, error) {
	record, err := decode[subscriptionRecord](r)
	if err != nil {
		return nil, err
	}
	if record.Sealed == nil {
		if !plain {
			return nil, fmt.Errorf("%w: the secrets of %s were written without the key of the store", sealed.ErrForm, record.ID)
		}
		return l.seal(record.Subscription)
	}
	text, err := l.box.Renew(record.ID, record.Sealed, false)
	if err != nil || text == nil {
		return nil, err
	}
	next := *record
	next.Sealed = text
	return &next, nil
}
