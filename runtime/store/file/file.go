// Package file keeps a client's cursors and callbacks in one JSON file, replaced as a whole by writing a
// temporary file beside it, syncing it and renaming it over the old one. Start with [OpenCursors].
package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/atomicfile"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// version is the format of the file; another one is refused rather than guessed at.
const version = 1

type content struct {
	Version int                    `json:"version"`
	Cursors map[string]store.Saved `json:"cursors"`
	// Callbacks are written only when there are any.
	Callbacks map[string]store.Callback `json:"callbacks,omitempty"`
}

// Cursors is a [store.CursorStore] and a [store.CallbackStore] in a file. One process at a time may
// have the file open.
type Cursors struct {
	path string

	mu        sync.Mutex
	keys      map[string]store.Saved
	callbacks map[string]store.Callback
}

// OpenCursors reads the file at path, which need not exist yet; its directory must. A file that
// cannot be decoded is an error that names it: cursors are never thrown away silently.
func OpenCursors(path string) (*Cursors, error) {
	c := &Cursors{path: path, keys: map[string]store.Saved{}, callbacks: map[string]store.Callback{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return nil, fmt.Errorf("opening cursor file: %w", err)
		}
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening cursor file: %w", err)
	}
	var f content
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("cursor file %s is corrupted: %w", path, err)
	}
	if f.Version != version {
		return nil, fmt.Errorf("cursor file %s has version %d, want %d", path, f.Version, version)
	}
	for key, s := range f.Cursors {
		if s.Cursor == "" {
			return nil, fmt.Errorf("cursor file %s is corrupted: key %q has no cursor", path, key)
		}
		c.keys[key] = s
	}
	maps.Copy(c.callbacks, f.Callbacks)
	return c, nil
}

// Load implements [store.CursorStore].
func (c *Cursors) Load(ctx context.Context, key string) (store.Saved, bool, error) {
	if err := ctx.Err(); err != nil {
		return store.Saved{}, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.keys[key]
	s.EventIDs = slices.Clone(s.EventIDs)
	return s, ok, nil
}

// Save implements [store.CursorStore]. On an error the file and what Load returns are as before.
func (c *Cursors) Save(ctx context.Context, key string, s store.Saved) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.EventIDs = slices.Clone(s.EventIDs)
	c.mu.Lock()
	defer c.mu.Unlock()
	old, had := c.keys[key]
	c.keys[key] = s
	if err := c.write(); err != nil {
		if had {
			c.keys[key] = old
		} else {
			delete(c.keys, key)
		}
		return fmt.Errorf("saving cursor %q: %w", key, err)
	}
	return nil
}

// Delete implements [store.CursorStore].
func (c *Cursors) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old, had := c.keys[key]
	if !had {
		return nil
	}
	delete(c.keys, key)
	if err := c.write(); err != nil {
		c.keys[key] = old
		return fmt.Errorf("deleting cursor %q: %w", key, err)
	}
	return nil
}

// write replaces the file; c.mu is held.
func (c *Cursors) write() error {
	data, err := json.MarshalIndent(content{Version: version, Cursors: c.keys, Callbacks: c.callbacks}, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(c.path, append(data, '\n'))
}
