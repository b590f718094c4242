package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/scalar"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A storedAction is the encoding of an action in the stream. Claimed is in Unix nanoseconds by the nats-servers' clock.
type storedAction struct {
	Request, Outcome []byte
	Done             bool
	Claimed          int64
}

// decodeAction decodes the action with the given subject. It returns a nil *storedAction if the action does not exist
// or is older than ActionAge.
func (s *Store) decodeAction(r *reading, subject string) (record, *storedAction, error) {
	x := r.of(subject)
	if !x.exists() {
		return x, nil, nil
	}
	var a storedAction
	if err := json.Unmarshal(x.body, &a); err != nil {
		return x, nil, fmt.Errorf("%w: action %s: %w", ErrCorrupt, subject, err)
	}
	if s.clock.now().Sub(s.clock.appendTime(scalar.Time(a.Claimed))) >= engine.ActionAge {
		return x, nil, nil
	}
	return x, &a, nil
}

func actionAt(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

// ClaimAction implements [engine.Actions].
func (s *Store) ClaimAction(ctx context.Context, a engine.Action) (found engine.Action, fresh bool, err error) {
	if err := a.Check(); err != nil {
		return engine.Action{}, false, err
	}
	subject := actionAt(a.Key)
	err = s.withLock(ctx, "action "+subject, func(ctx context.Context) error {
		first, err := s.actions.change(ctx, []string{subject}, func(r *reading) ([]write, error) {
			x, is, err := s.decodeAction(r, subject)
			if err != nil {
				return nil, err
			}
			if is != nil {
				found = engine.Action{Key: a.Key, Request: scalar.Bytes(is.Request)}
				if is.Done {
					found.Outcome = scalar.Bytes(is.Outcome)
				}
				return nil, nil
			}
			b, err := json.Marshal(storedAction{Request: a.Request, Claimed: s.clock.now().UnixNano()})
			return []write{put(x, b)}, err
		})
		fresh = first > 0
		return err
	})
	if err != nil {
		return engine.Action{}, false, fmt.Errorf("claiming an action: %w", err)
	}
	if fresh {
		return engine.Action{}, true, nil
	}
	return found, false, nil
}

// FinishAction implements [engine.Actions].
func (s *Store) FinishAction(ctx context.Context, key string, outcome []byte) error {
	a := engine.Action{Key: key, Outcome: outcome}
	if err := a.Check(); err != nil {
		return err
	}
	subject := actionAt(key)
	return s.withLock(ctx, "action "+subject, func(ctx context.Context) error {
		_, err := s.actions.change(ctx, []string{subject}, func(r *reading) ([]write, error) {
			x, is, err := s.decodeAction(r, subject)
			switch {
			case err != nil:
				return nil, err
			case is == nil:
				return nil, engine.ErrActionGone
			}
			is.Outcome, is.Done = outcome, true
			b, err := json.Marshal(is)
			return []write{put(x, b)}, err
		})
		return err
	})
}

// ForgetAction implements [engine.Actions].
func (s *Store) ForgetAction(ctx context.Context, key string) error {
	subject := actionAt(key)
	return s.withLock(ctx, "action "+subject, func(ctx context.Context) error {
		r, err := s.actions.read(ctx, true, subject)
		if err != nil {
			return err
		}
		x := r.of(subject)
		if x.sequence == 0 {
			return nil
		}
		err = s.callAPI(ctx, "STREAM.MSG.DELETE."+s.actions.stream, map[string]any{"seq": x.sequence, "no_erase": true}, nil)
		if apiErrorCode(err) == codeDeleteNothing { // the answer to an earlier attempt was lost
			return nil
		}
		return err
	})
}
