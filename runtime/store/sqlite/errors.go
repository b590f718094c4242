package sqlite

import (
	"database/sql"
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/mcpe-gen/mcpe-gen/internal/filelock"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Errors that an operator can act on. Use [errors.Is] to test for them.
var (
	// ErrCorrupt indicates that the file is damaged or is not a store.
	ErrCorrupt = errors.New("sqlite: file is corrupt or not a store")
	// ErrFull indicates that the disk is full. The failed write has no effect.
	ErrFull = errors.New("sqlite: disk is full")
	// ErrBusy indicates that the file is in use. [Open] returns it if another process, or another Store in this
	// process, has the file open. A write returns it if it cannot begin because another connection has been writing for
	// too long.
	ErrBusy = errors.New("sqlite: file is in use")
	// ErrKey indicates that the key is missing, is wrong, or has an invalid length.
	ErrKey = errors.New("sqlite: wrong or missing encryption key")
	// ErrVersion indicates that the file was written by a newer release or by a build from before the first release.
	ErrVersion = errors.New("sqlite: the version of the file is not supported")
)

// classify wraps a driver error with the corresponding error of this package, if any.
func classify(err error) error {
	if err == nil || errors.Is(err, store.ErrConflict) {
		return err
	}
	if errors.Is(err, sql.ErrConnDone) {
		return store.ErrClosed
	}
	if errors.Is(err, sealed.ErrKey) {
		return fmt.Errorf("%w: %w", ErrKey, err)
	}
	if errors.Is(err, sealed.ErrForm) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if held := (*filelock.HeldError)(nil); errors.As(err, &held) {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	var e *driver.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff { // the primary code of an extended one
	case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	case codes.SQLITE_FULL:
		return fmt.Errorf("%w: %w", ErrFull, err)
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED:
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return err
}
