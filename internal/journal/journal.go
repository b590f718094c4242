// Package journal keeps values under keys in a file: a line of JSON for each change, appended and synced. The file is
// written anew when the lines that others have superseded outweigh the rest, so that a change costs the same however
// many keys there are. Writers that come at the same time share one sync. One process at a time has the file, which a
// lock beside it ensures. Start with [Open] and [Journal.Put].
package journal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/atomicfile"
	"github.com/mcpe-gen/mcpe-gen/internal/filelock"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// An Entry is what is kept under a key of its kind. An entry without a value takes the key away.
type Entry struct {
	Kind  string          `json:"kind"`
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value,omitempty"`
}

// A Header is the first line of a file: the name and the version of its format. A release that changes the format raises
// the version and reads files of lower ones.
type Header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
}

// Accept returns an error unless found is the header h.
func (h Header) Accept(found Header) error {
	switch {
	case found == h:
		return nil
	case found.Format == "" && found.Version > 0:
		return fmt.Errorf("it was made by an unreleased build of mcpe-gen (version %d); use a new file", found.Version)
	case found.Format != h.Format:
		return fmt.Errorf("it is not a file of %s", h.Format)
	case found.Version > h.Version:
		return fmt.Errorf("a newer release wrote it (version %d, this release knows %d); upgrade mcpe-gen", found.Version, h.Version)
	}
	return fmt.Errorf("corrupted: version %d", found.Version)
}

// A Format is the form of a program's files.
type Format struct {
	// Header is the first line.
	Header Header
	// Check refuses an entry that was read; nil refuses none.
	Check func(Entry) error
}

// slack is how many bytes of superseded lines a small file may have.
const slack = 64 << 10

// A Journal is an open file. Its methods can be called at the same time.
type Journal struct {
	path   string
	header []byte
	lock   *filelock.Lock

	writing sync.Mutex // held by who writes; it guards what follows
	file    *os.File   // nil before the first write, and when the file is to be written anew
	size    int64      // of the file
	closed  bool

	mu     sync.Mutex // held for moments; it guards what follows
	values map[id]line
	live   int64 // bytes of the lines in values
	next   *batch
}

type id struct{ kind, key string }

// A line is what stands in the file under an id.
type line struct {
	value json.RawMessage
	size  int64
}

// A batch is what is written with one sync.
type batch struct {
	entries []Entry
	lines   [][]byte
	done    bool
	err     error
}

// Open reads the file at path, which need not exist yet; its directory must. It waits up to 10 s for another process to
// give it up, then the error is a [*filelock.HeldError]. A file that cannot be read is an error, and stays as it is.
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
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err == nil {
		err = j.read(content, f)
	}
	if err != nil {
		return nil, errors.Join(err, j.lock.Release())
	}
	return j, nil
}

// read takes the entries of a file. The first change rewrites a file whose last line was cut off: the process that wrote
// the line was killed before its Put returned.
func (j *Journal) read(content []byte, f Format) error {
	var h Header
	if err := json.NewDecoder(bytes.NewReader(content)).Decode(&h); err != nil {
		return fmt.Errorf("corrupted in line 1: %w", err)
	}
	if err := f.Header.Accept(h); err != nil {
		return err
	}
	rest, ok := bytes.CutPrefix(content, j.header)
	if !ok {
		return errors.New("corrupted in line 1")
	}
	j.size = int64(len(content))
	for n := 2; len(rest) > 0; n++ {
		text, after, whole := bytes.Cut(rest, []byte("\n"))
		if !whole {
			return nil
		}
		var e Entry
		err := json.Unmarshal(text, &e)
		if err == nil {
			err = j.take(e, f)
		}
		if err != nil {
			return fmt.Errorf("corrupted in line %d: %w", n, err)
		}
		rest = after
	}
	file, err := os.OpenFile(j.path, os.O_WRONLY, 0)
	if err == nil {
		j.file = file
	}
	return err
}

func (j *Journal) take(e Entry, f Format) error {
	if f.Check != nil && e.Value != nil {
		if err := f.Check(e); err != nil {
			return err
		}
	}
	text, err := encode(e)
	if err != nil {
		return err
	}
	j.set(e, int64(len(text)))
	return nil
}

// set changes the values.
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

// Get returns the value under a key. It must not be changed.
func (j *Journal) Get(kind, key string) (json.RawMessage, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l, ok := j.values[id{kind, key}]
	return l.value, ok
}

// All returns the entries of a kind by their keys.
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

// Put keeps entries, in their order, and returns when they are on the disk. On an error what Get returns is as before,
// and so is the file once the next change is written. After [Journal.Close] the error is [store.ErrClosed].
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
	if b.done { // by who came at the same time
		return b.err
	}
	j.mu.Lock()
	j.next = nil
	j.mu.Unlock()
	b.done, b.err = true, j.write(b)
	return b.err
}

// write writes a batch; j.writing is held.
func (j *Journal) write(b *batch) error {
	if j.closed {
		return store.ErrClosed
	}
	added := bytes.Join(b.lines, nil)
	j.mu.Lock()
	live := j.live
	j.mu.Unlock()
	var err error
	if j.file == nil || j.moved() || j.size+int64(len(added)) > 2*live+slack {
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

// moved says whether another file, or none, is where the open one was.
func (j *Journal) moved() bool {
	there, err := os.Stat(j.path)
	if err != nil {
		return true
	}
	mine, err := j.file.Stat()
	return err != nil || !os.SameFile(there, mine)
}

// append writes behind what is there. If that fails the file is written anew next time.
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

// rewrite replaces the file by one that has the values and the batch.
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
		j.file = nil // what is written is there; the next change opens it, or says why it cannot
	}
	return nil
}

// Close gives the file up. Later changes fail.
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

// encode returns v as a line.
func encode(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}
