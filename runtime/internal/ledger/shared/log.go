package shared

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	domain "github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

func logKey(log string) string { return "shared/log/" + name(log) }

// A retention is the value of shared/log: the options of the latest opening.
type retention struct {
	MaxAge   time.Duration `json:"maxAge"`
	MaxCount int           `json:"maxCount"`
	MaxBytes int           `json:"maxBytes"`
}

// OpenLog implements [store.Store].
func (s *Store) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	leave, err := s.enterOpening(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	l, err := s.e.OpenLog(ctx, name, o)
	if err != nil {
		return nil, err
	}
	if err := s.saveRetention(ctx, name, retention{o.MaxAge, o.MaxCount, o.MaxBytes}); err != nil {
		return nil, err
	}
	s.logs[name] = l
	return &log{l}, nil
}

// enterOpening waits until no other log is being opened.
func (s *Store) enterOpening(ctx context.Context) (leave func(), err error) {
	select {
	case s.opening <- struct{}{}:
		return func() { <-s.opening }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Store) saveRetention(ctx context.Context, name string, of retention) error {
	value, err := json.Marshal(of)
	if err != nil {
		return err
	}
	for {
		r, err := s.get(ctx, logKey(name))
		if err != nil {
			return err
		}
		if r.Value != nil && string(r.Value.Bytes()) == string(value) {
			return nil
		}
		_, err = s.write(ctx, store.Write{Key: r.Key, On: r.Revision, Value: store.Bytes(value)})
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// opened returns a log that this process or another one has opened.
func (s *Store) opened(ctx context.Context, name string, over engine.Log) (engine.Log, error) {
	leave, err := s.enterOpening(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if l := s.logs[name]; l != nil && l != over {
		return l, nil
	}
	r, err := s.get(ctx, logKey(name))
	if err != nil {
		return nil, err
	}
	if r.Value == nil {
		return nil, fmt.Errorf("log %q: %w", name, domain.ErrNoLog)
	}
	var of retention
	if err := json.Unmarshal(r.Value.Bytes(), &of); err != nil {
		return nil, err
	}
	l, err := s.e.OpenLog(ctx, name, store.LogOptions{MaxAge: of.MaxAge, MaxCount: of.MaxCount, MaxBytes: of.MaxBytes})
	if err == nil {
		s.logs[name] = l
	}
	return l, err
}

// AppendGroup implements [domain.Shared].
func (s *Store) AppendGroup(ctx context.Context, name string, group []store.Outgoing) ([]domain.Appended, error) {
	appends := make([]engine.Append, len(group))
	for i, o := range group {
		appends[i] = engine.Append{Entry: o.Entry, Once: o.Once, Above: o.Above}
	}
	for over := engine.Log(nil); ; {
		l, err := s.opened(ctx, name, over)
		if err != nil {
			return nil, err
		}
		done, err := l.Append(ctx, appends...)
		if errors.Is(err, engine.ErrNewLife) {
			over = l
			continue
		}
		if errors.Is(err, engine.ErrRefused) {
			err = fmt.Errorf("%w: %w", domain.ErrRefused, err)
		}
		if err != nil {
			return nil, err
		}
		appended := make([]domain.Appended, len(done))
		for i, a := range done {
			appended[i] = domain.Appended(a)
		}
		return appended, nil
	}
}

// A log is a log of the engine as today's stores offer it.
type log struct{ l engine.Log }

var _ domain.Log = (*log)(nil)

// newEpoch returns [domain.ErrNewEpoch] for a log of an earlier life, and other errors as they are.
func newEpoch(err error) error {
	if errors.Is(err, engine.ErrNewLife) {
		return fmt.Errorf("%w: %w", domain.ErrNewEpoch, err)
	}
	return err
}

// Append implements [store.EventLog].
func (l *log) Append(ctx context.Context, e store.Entry) (store.Position, error) {
	a, err := l.append(ctx, engine.Append{Entry: e})
	return a.Position, err
}

// AppendOnce implements [store.EventLog].
func (l *log) AppendOnce(ctx context.Context, e store.Entry, above store.Position) (p store.Position, fresh bool, err error) {
	a, err := l.append(ctx, engine.Append{Entry: e, Once: true, Above: above})
	if err == nil {
		err = a.Err
	}
	return a.Position, a.Fresh, err
}

func (l *log) append(ctx context.Context, a engine.Append) (engine.Appended, error) {
	done, err := l.l.Append(ctx, a)
	if err != nil {
		return engine.Appended{}, newEpoch(err)
	}
	return done[0], nil
}

// Read implements [store.EventLog].
func (l *log) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	b, err := l.l.Read(ctx, after, limit)
	return b, newEpoch(err)
}

// Bounds implements [store.EventLog].
func (l *log) Bounds(ctx context.Context) (oldest, head store.Position, err error) {
	oldest, head, err = l.l.Bounds(ctx)
	return oldest, head, newEpoch(err)
}

// CatchUp implements [domain.Log].
func (l *log) CatchUp(ctx context.Context, p store.Position) (store.Position, error) {
	head, err := l.l.CatchUp(ctx, p)
	return head, newEpoch(err)
}

// Seen implements [domain.Log].
func (l *log) Seen() time.Time { return l.l.Seen() }

// Proof implements [store.EventLog].
func (l *log) Proof(ctx context.Context, p store.Position) (uint32, error) {
	proof, err := l.l.Proof(ctx, p)
	return proof, newEpoch(err)
}

// Epoch implements [store.EventLog].
func (l *log) Epoch() uint64 { return l.l.Epoch() }
