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

// The natures of failures that an operator acts upon.
var (
	// ErrCorrupt says that the file is damaged or is no store.
	ErrCorrupt = errors.New("sqlite: file is corrupt or not a store")
	// ErrFull says that the disk is full; what was being written is not stored.
	ErrFull = errors.New("sqlite: disk is full")
	// ErrBusy says that the file is somebody else's: from [Open], that another process (or another
	// Store of this one) has it open; from a write, that another connection wrote for too long.
	ErrBusy = errors.New("sqlite: file is in use")
	// ErrKey says that the key is missing, wrong, or of a bad length.
	ErrKey = errors.New("sqlite: wrong or missing encryption key")
	// ErrVersion says that a newer release, or a build before the first one, wrote the file.
	ErrVersion = errors.New("sqlite: the version of the file is not supported")
)

// classify adds the nature of a failure to the driver's error.
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
	case codes.SQLITE_READONLY:
		return fmt.Errorf("sqlite: file is read-only, make it and its directory writable: %w", err)
	}
	return err
}
