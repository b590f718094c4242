// Package file stores a client's cursors, callbacks and dead letters in a single file. Each change appends a line.
// Start with [OpenCursors].
package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/filelock"
	"github.com/mcpe-gen/mcpe-gen/internal/journal"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/letters"
)

// ErrBusy is returned if another process, or another [Cursors] in this process, has the file open. The error names
// both.
var ErrBusy = errors.New("file is in use")

// Kinds of entries.
const (
	kindCursor   = "cursor"
	kindCallback = "callback"
	kindLetter   = "deadLetter" // by its sequence
	kindLast     = "lastDeadLetter"
)

// Cursors is a [clientstore.ConsumerStore] and a [clientstore.CallbackStore] in a file. Only one process at a time can
// open the file. A change is on disk when its method returns. Concurrent changes share an fsync, and the cost of a
// change does not depend on the number of keys.
type Cursors struct {
	journal *journal.Journal

	mu      sync.Mutex // for changes of the dead letters, one after the other
	letters letters.List
}

// OpenCursors opens the file at path, creating it if necessary. The directory must exist. If another process has the
// file open, OpenCursors waits up to 10 s and then returns an error that matches [ErrBusy]. Call Close after use.
//
// OpenCursors never drops data silently. It moves damaged lines to a new file with the suffix ".damaged" and keeps the
// other lines. It then uses [slog.Default] to log an error with the line numbers, both files and the keys. If the file
// has a different format or version, or its first line is damaged, OpenCursors returns an error and does not change the
// file.
func OpenCursors(path string) (*Cursors, error) {
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	j, err := journal.Open(context.Background(), path, format)
	if err != nil {
		if held := (*filelock.HeldError)(nil); errors.As(err, &held) {
			err = fmt.Errorf("%w: %w", ErrBusy, err)
		}
		return nil, fmt.Errorf("opening cursor file %s: %w", path, err)
	}
	c := &Cursors{journal: j}
	if err := c.readLetters(); err != nil {
		return nil, fmt.Errorf("opening cursor file %s: %w", path, errors.Join(err, j.Close()))
	}
	return c, nil
}

// Close closes the file. Later changes fail with [store.ErrClosed].
func (c *Cursors) Close() error { return c.journal.Close() }

// format describes the file format. A file with a different header is rejected.
var format = journal.Format{
	Header: journal.Header{Format: "mcpe-gen cursors", Version: 1},
	Check:  checkEntry,
	Effect: "a subscription may begin now or get events twice; a dead letter may be missing or reappear",
}

// checkEntry rejects entries that Load, Callback and DeadLetters could not return.
func checkEntry(e journal.Entry) error {
	var err error
	switch e.Kind {
	case kindCursor:
		var s clientstore.Saved
		if err = json.Unmarshal(e.Value, &s); err == nil && s.Cursor == "" {
			err = errors.New("no cursor")
		}
	case kindCallback:
		err = json.Unmarshal(e.Value, new(clientstore.Callback))
	case kindLetter:
		_, err = decodeLetter(e)
	case kindLast:
		err = json.Unmarshal(e.Value, new(uint64))
	default:
		err = errors.New("unknown kind")
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", e.Kind, e.Key, err)
	}
	return nil
}

// get decodes the value under a key into v and reports whether it exists.
func (c *Cursors) get(ctx context.Context, kind, key string, v any) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	value, ok := c.journal.Get(kind, key)
	if !ok {
		return false, nil
	}
	return true, json.Unmarshal(value, v)
}

// put stores v under a key.
func (c *Cursors) put(ctx context.Context, kind, key string, v any) error {
	value, err := json.Marshal(v)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = c.journal.Put(journal.Entry{Kind: kind, Key: key, Value: value})
	}
	if err != nil {
		return fmt.Errorf("saving %s %q: %w", kind, key, err)
	}
	return nil
}

// remove deletes a key. An unknown key is not an error.
func (c *Cursors) remove(ctx context.Context, kind, key string) error {
	err := ctx.Err()
	if _, ok := c.journal.Get(kind, key); ok && err == nil {
		err = c.journal.Put(journal.Entry{Kind: kind, Key: key})
	}
	if err != nil {
		return fmt.Errorf("deleting %s %q: %w", kind, key, err)
	}
	return nil
}

// Load implements [clientstore.CursorStore].
func (c *Cursors) Load(ctx context.Context, key string) (s clientstore.Saved, ok bool, err error) {
	ok, err = c.get(ctx, kindCursor, key, &s)
	return s, ok, err
}

// Save implements [clientstore.CursorStore]. If Save fails, Load still returns the old value.
func (c *Cursors) Save(ctx context.Context, key string, s clientstore.Saved) error {
	return c.put(ctx, kindCursor, key, s)
}

// Delete implements [clientstore.CursorStore].
func (c *Cursors) Delete(ctx context.Context, key string) error {
	return c.remove(ctx, kindCursor, key)
}

// Callback implements [clientstore.CallbackStore].
func (c *Cursors) Callback(ctx context.Context, key string) (cb clientstore.Callback, ok bool, err error) {
	ok, err = c.get(ctx, kindCallback, key, &cb)
	return cb, ok, err
}

// PutCallback implements [clientstore.CallbackStore]. The secrets are stored in plain text, but only the file's owner
// can read the file.
func (c *Cursors) PutCallback(ctx context.Context, key string, cb clientstore.Callback) error {
	return c.put(ctx, kindCallback, key, cb)
}

// DeleteCallback implements [clientstore.CallbackStore].
func (c *Cursors) DeleteCallback(ctx context.Context, key string) error {
	return c.remove(ctx, kindCallback, key)
}
