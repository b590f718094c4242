package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// OpenLog implements [engine.Engine].
func (e *storeEngine) OpenLog(ctx context.Context, name string, o store.LogOptions) (engine.Log, error) {
	life := e.life.Load()
	opened, err := e.s.OpenLog(ctx, name, o)
	if err != nil {
		return nil, err
	}
	l := opened.(*Log)
	return &engineLog{e, l, life, l.Epoch()}, nil
}

// An engineLog implements [engine.Log]. It serves one life. One process has the file, so the head in memory is the one in
// the file.
type engineLog struct {
	e           *storeEngine
	log         *Log
	life, epoch uint64
}

// here returns an error if the store is closed, or is not in the life that l was opened in, or the process has not
// entered that.
func (l *engineLog) here(ctx context.Context) error {
	if err := l.e.here(ctx); err != nil {
		return err
	}
	if l.e.entered.Load() != l.life {
		return engine.ErrNewLife
	}
	return nil
}

// Append implements [engine.Log].
func (l *engineLog) Append(ctx context.Context, group ...engine.Append) ([]engine.Appended, error) {
	if err := l.here(ctx); err != nil {
		return nil, err
	}
	if err := engine.CheckGroup(group); err != nil {
		return nil, err
	}
	done, err := l.log.appendGroup(ctx, func(w *session) error { return l.e.judge(w, l.life) }, group...)
	if large := (*driver.Error)(nil); errors.As(err, &large) && large.Code() == codes.SQLITE_TOOBIG {
		err = fmt.Errorf("%w: %w", engine.ErrRefused, err)
	}
	return done, err
}

// Read implements [engine.Log].
func (l *engineLog) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	if err := l.here(ctx); err != nil {
		return store.Batch{}, err
	}
	return l.log.Read(ctx, after, limit)
}

// Bounds implements [engine.Log].
func (l *engineLog) Bounds(ctx context.Context) (oldest, head store.Position, err error) {
	if err := l.here(ctx); err != nil {
		return 0, 0, err
	}
	return l.log.Bounds(ctx)
}

// CatchUp implements [engine.Log].
func (l *engineLog) CatchUp(ctx context.Context, _ store.Position) (store.Position, error) {
	_, head, err := l.Bounds(ctx)
	return head, err
}

// Seen implements [engine.Log].
func (l *engineLog) Seen() time.Time { return time.Now() }

// Proof implements [engine.Log].
func (l *engineLog) Proof(ctx context.Context, p store.Position) (uint32, error) {
	if err := l.here(ctx); err != nil {
		return 0, err
	}
	return l.log.Proof(ctx, p)
}

// Epoch implements [engine.Log].
func (l *engineLog) Epoch() uint64 { return l.epoch }
