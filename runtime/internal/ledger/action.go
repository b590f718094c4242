package ledger

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	domain "github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// An actionRecord is the value of act.
type actionRecord struct {
	Request []byte `json:"request"`
	// Outcome is nil while the action is in progress.
	Outcome []byte    `json:"outcome"`
	At      time.Time `json:"at"`
}

// Bytes implements [store.Value].
func (a *actionRecord) Bytes() []byte { return encode(a) }

func (a *actionRecord) current(now time.Time) bool {
	return a != nil && now.Before(a.At.Add(domain.ActionAge))
}

func actionKey(key string) string { return join(familyAction, hash(key)) }

// ClaimAction remembers an action for ten minutes, unless one with its key is remembered. It then returns that one, with a
// nil Outcome if it is in progress. Of concurrent calls with one key one is fresh: its caller carries out the action.
func (l *Ledger) ClaimAction(ctx context.Context, a Action) (stands Action, fresh bool, err error) {
	if err := a.Check(); err != nil {
		return Action{}, false, err
	}
	now, err := l.e.Clock(ctx)
	if err != nil {
		return Action{}, false, err
	}
	key := actionKey(a.Key)
	record := &actionRecord{Request: bytes.Clone(a.Request), At: now}
	revisions, err := l.change(ctx, []string{key}, func(r reading) (*store.Commit, error) {
		old, err := decode[actionRecord](r.of(key))
		if err != nil {
			return nil, err
		}
		if old.current(now) {
			stands = Action{Key: a.Key, Request: old.Request, Outcome: old.Outcome}
			return nil, nil
		}
		return writeAction(r, key, record), nil
	})
	if err != nil {
		return Action{}, false, fmt.Errorf("claiming an action: %w", err)
	}
	if revisions != nil {
		return Action{}, true, nil
	}
	return stands, false, nil
}

// writeAction returns a commit that stores an action until its time is over. Its key may be used again after
// [Ledger.ForgetAction], so the store remembers the deletion.
func writeAction(r reading, key string, a *actionRecord) *store.Commit {
	w := r.write(key, a)
	w.Until = a.At.Add(domain.ActionAge)
	return &store.Commit{Writes: []store.Write{w}}
}

// FinishAction stores the outcome of a claimed action, or returns [ErrActionGone].
func (l *Ledger) FinishAction(ctx context.Context, key string, outcome []byte) error {
	if err := (&Action{Key: key, Outcome: outcome}).Check(); err != nil {
		return err
	}
	now, err := l.e.Clock(ctx)
	if err != nil {
		return err
	}
	k := actionKey(key)
	_, err = l.change(ctx, []string{k}, func(r reading) (*store.Commit, error) {
		old, err := decode[actionRecord](r.of(k))
		if err != nil {
			return nil, err
		}
		if !old.current(now) {
			return nil, ErrActionGone
		}
		next := *old
		next.Outcome = append([]byte{}, outcome...)
		return writeAction(r, k, &next), nil
	})
	return err
}

// ForgetAction forgets an action that was not carried out. It can then be claimed a second time.
func (l *Ledger) ForgetAction(ctx context.Context, key string) error {
	k := actionKey(key)
	_, err := l.change(ctx, []string{k}, deletion(k))
	return err
}
