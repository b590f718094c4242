// Package journal stores key-value pairs in a file. Each change appends a line of JSON with a checksum and syncs the
// file. When most of the file consists of superseded lines, the journal rewrites the file without them, so the cost of
// a change does not depend on the number of keys. Concurrent writers share a sync. A lock file excludes other
// processes. Start with [Open] and [Journal.Put].
package journal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/atomicfile"
	"github.com/mcpe-gen/mcpe-gen/internal/filelock"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// An Entry is a value with its kind and key. An entry without a value deletes the key.
type Entry struct {
	Kind  string          `json:"kind"`
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value,omitempty"`
}

// A Format describes a program's journal files.
type Format struct {
	// Header is the first line.
	Header Header
	// Check validates an entry after it was read. If Check is nil, all entries are valid. A line with an invalid entry
	// is treated as damaged.
	Check func(Entry) error
	// Effect describes the consequence of losing a line, for the log.
	Effect string
}

// maxSlack is the maximum size of superseded lines in a small file, in bytes.
const maxSlack = 64 << 10

// A Journal is an open journal file. It is safe for concurrent use.
type Journal struct {
	path   string
	header []byte
	lock   *filelock.Lock

	writing sync.Mutex // held by the writer; guards the following fields
	file    *os.File   // nil before the first write, and when the file must be rewritten
	size    int64      // of the file
	closed  bool

	mu     sync.Mutex // held briefly; guards the following fields
	values map[id]line
	live   int64 // bytes of the lines in values
	next   *batch
}

type id struct{ kind, key string }

// A line is a stored value with the size of its line in the file.
type line struct {
	value json.RawMessage
	size  int64
}

// A batch is a set of lines written with one sync.
type batch struct {
	entries []Entry
	lines   [][]byte
	done    bool
	err     error
}

// Open opens the journal at path. The file need not exist, but its directory must. Open waits up to 10 s for another
// process to release the file. If the wait expires, it returns a [*filelock.HeldError].
//
// Open moves damaged lines to a new file, PATH.damaged or PATH.damaged.2 to 9, and keeps the others. It then logs an
// error to [slog.Default] with the line numbers, both file names and the keys. If the file has another format or
// version, or a damaged first line, Open returns an error and does not change the file. Open also does so if it cannot
// move the damaged lines.
func Open(ctx context.Context, path string, f Format) (_ *Journal, err error) {
	if path, err = filelock.Resolve(path); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, err
	}
	j := &Journal{path: path, values: map[id]line{}}
	if j.header, err = encode(f.Header); err != nil {
		return nil, err
	}
	if j.lock, err = filelock.Acquire(ctx, path, filelock.DefaultWait); err != nil {
		return nil, err
	}
	if err := j.load(ctx, f); err != nil {
		return nil, errors.Join(err, j.lock.Release())
	}
	return j, nil
}

// set updates the values.
func (j *Journal) set(e Entry, size int64) {
	at := id{e.Kind, e.Key}
	j.live -= j.values[at].size
	if e.Value == nil {
		delete(j.values, at)
		return
	}
	j.values[at] = line{e.Value, size}
	j.live += size
}

// Get returns the value of a key. The caller must not modify it.
func (j *Journal) Get(kind, key string) (json.RawMessage, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l, ok := j.values[id{kind, key}]
	return l.value, ok
}

// All returns the entries of a kind, by key.
func (j *Journal) All(kind string) (all []Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for at, l := range j.values {
		if at.kind == kind {
			all = append(all, Entry{kind, at.key, l.value})
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(a.Key, b.Key) })
	return all
}

// Put stores entries in order and returns after they are written to disk. If an error occurs, the values are unchanged.
// The next change restores the file. After [Journal.Close], it returns [store.ErrClosed].
func (j *Journal) Put(entries ...Entry) error {
	lines := make([][]byte, len(entries))
	for i, e := range entries {
		var err error
		if lines[i], err = encode(e); err != nil {
			return err
		}
	}
	j.mu.Lock()
	if j.next == nil {
		j.next = &batch{}
	}
	b := j.next
	b.entries, b.lines = append(b.entries, entries...), append(b.lines, lines...)
	j.mu.Unlock()

	j.writing.Lock()
	defer j.writing.Unlock()
	if b.done { // another caller wrote the batch
		return b.err
	}
	j.mu.Lock()
	j.next = nil
	j.mu.Unlock()
	b.done, b.err = true, j.write(b)
	return b.err
}

// write writes a batch. The caller holds j.writing.
func (j *Journal) write(b *batch) error {
	if j.closed {
		return store.ErrClosed
	}
	added := bytes.Join(b.lines, nil)
	j.mu.Lock()
	live := j.live
	j.mu.Unlock()
	var err error
	if j.file == nil || j.isReplaced() || j.size+int64(len(added)) > 2*live+maxSlack {
		err = j.rewrite(b)
	} else {
		err = j.append(added)
	}
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, e := range b.entries {
		j.set(e, int64(len(b.lines[i])))
	}
	return nil
}

// isReplaced reports whether path no longer refers to the open file.
func (j *Journal) isReplaced() bool {
	there, err := os.Stat(j.path)
	if err != nil {
		return true
	}
	mine, err := j.file.Stat()
	return err != nil || !os.SameFile(there, mine)
}

// append appends to the file. If it fails, the next write rewrites the file.
func (j *Journal) append(added []byte) error {
	_, err := j.file.WriteAt(added, j.size)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		err = errors.Join(err, j.file.Truncate(j.size), j.file.Close())
		j.file = nil
		return err
	}
	j.size += int64(len(added))
	return nil
}

// rewrite replaces the file with the values and the batch.
func (j *Journal) rewrite(b *batch) error {
	j.mu.Lock()
	kept := make([]Entry, 0, len(j.values)+len(b.entries))
	for at, l := range j.values {
		kept = append(kept, Entry{at.kind, at.key, l.value})
	}
	j.mu.Unlock()
	slices.SortFunc(kept, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key)) })
	content := slices.Clone(j.header)
	for _, e := range kept {
		text, err := encode(e)
		if err != nil {
			return err
		}
		content = append(content, text...)
	}
	for _, text := range b.lines {
		content = append(content, text...)
	}
	if err := atomicfile.Write(j.path, content); err != nil {
		return err
	}
	if j.file != nil {
		j.file.Close()
	}
	var err error
	j.size = int64(len(content))
	j.file, err = os.OpenFile(j.path, os.O_WRONLY, 0)
	if err != nil {
		j.file = nil // the file is complete; the next change opens it or reports the error
	}
	return nil
}

// Close closes the file and releases the lock. Later changes fail.
func (j *Journal) Close() error {
	j.writing.Lock()
	defer j.writing.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	var err error
	if j.file != nil {
		err = j.file.Close()
	}
	return errors.Join(err, j.lock.Release())
}
