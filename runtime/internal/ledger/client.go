package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/keylock"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// ErrTooLarge is returned for a value that records cannot hold.
var ErrTooLarge = errors.New("ledger: the value is too large")

// A Client stores the state of MCP clients: cursors, callbacks, webhook bodies that the application has not taken so far,
// and dead letters. It is a [clientstore.CursorStore], [clientstore.CallbackStore], [clientstore.ReceivedStore] and
// [clientstore.DeadLetterStore]. It needs only the [store.Records] of the engine.
type Client struct {
	l       *Ledger
	letters turn
	bodies  keylock.Locks[string] // by the hash of the key
}

var (
	_ clientstore.ConsumerStore = (*Client)(nil)
	_ clientstore.CallbackStore = (*Client)(nil)
	_ clientstore.ReceivedStore = (*Client)(nil)
)

// Client returns the state of the clients. A process calls it once.
func (l *Ledger) Client() *Client { return &Client{l: l, letters: newTurn()} }

// maxRaw is the length of texts and bodies that fit in a value however they are encoded: a byte takes up to six, and the
// rest of the value 4 KiB.
const maxRaw = (store.MaxValue - 4<<10) / 6

// fits returns an error that matches [ErrTooLarge] unless v, with raw bytes of the caller, can be stored.
func fits(what string, raw int, v store.Value) error {
	if raw <= maxRaw {
		return nil
	}
	if n := len(v.Bytes()); n > store.MaxValue {
		return fmt.Errorf("%w: %s takes %d bytes in the store; shorten it to %d", ErrTooLarge, what, n, store.MaxValue)
	}
	return nil
}

// listed is the number of bytes that an element of a list takes next to its text.
const listed = 8

// blobs returns texts as bytes, because JSON strings cannot hold all texts, and the number of bytes for fits.
func blobs(texts []string) (b [][]byte, raw int) {
	for _, t := range texts {
		b, raw = append(b, []byte(t)), raw+len(t)+listed
	}
	return b, raw
}

func texts(blobs [][]byte) (t []string) {
	for _, b := range blobs {
		t = append(t, string(b))
	}
	return t
}

// A cursorRecord is the value of cur.
type cursorRecord struct {
	// Cursor is empty if none was saved.
	Cursor   []byte   `json:"cursor,omitempty"`
	EventIDs [][]byte `json:"eventIds,omitempty"`
	// Taken is the sequence up to which the application has taken webhook bodies.
	Taken uint64 `json:"taken,omitempty"`
}

// Bytes implements [store.Value].
func (c *cursorRecord) Bytes() []byte { return encode(c) }

func (c *cursorRecord) taken() uint64 {
	if c == nil {
		return 0
	}
	return c.Taken
}

func (c *cursorRecord) saved() (s clientstore.Saved, ok bool) {
	if c == nil || len(c.Cursor) == 0 {
		return s, false
	}
	return clientstore.Saved{Cursor: string(c.Cursor), EventIDs: texts(c.EventIDs)}, true
}

// newCursor returns the record of a cursor.
func newCursor(s clientstore.Saved) (*cursorRecord, error) {
	c := &cursorRecord{Cursor: []byte(s.Cursor)}
	var raw int
	c.EventIDs, raw = blobs(s.EventIDs)
	return c, fits("a cursor with its event IDs", raw+len(s.Cursor), c)
}

func cursorKey(key string) string { return join(familyCursor, hash(key)) }

// Load implements [clientstore.CursorStore].
func (c *Client) Load(ctx context.Context, key string) (s clientstore.Saved, ok bool, err error) {
	record, err := c.cursor(ctx, key)
	if err != nil {
		return s, false, fmt.Errorf("reading cursor %q: %w", key, err)
	}
	s, ok = record.saved()
	return s, ok, nil
}

func (c *Client) cursor(ctx context.Context, key string) (*cursorRecord, error) {
	found, err := c.l.e.Get(ctx, store.Latest, cursorKey(key))
	if err != nil {
		return nil, err
	}
	return decode[cursorRecord](found[0])
}

// Save implements [clientstore.CursorStore].
func (c *Client) Save(ctx context.Context, key string, s clientstore.Saved) error {
	_, err := c.saveCursor(ctx, key, s, 0)
	return err
}

// saveCursor stores a cursor, unless it is "", and that bodies were taken up to a sequence. It returns up to where they
// are taken now.
func (c *Client) saveCursor(ctx context.Context, key string, s clientstore.Saved, upTo uint64) (taken uint64, err error) {
	record, err := newCursor(s)
	if err != nil {
		return 0, fmt.Errorf("saving cursor %q: %w", key, err)
	}
	at := cursorKey(key)
	_, err = c.l.change(ctx, []string{at}, func(r reading) (*store.Commit, error) {
		old, err := decode[cursorRecord](r.of(at))
		if err != nil {
			return nil, err
		}
		taken = max(old.taken(), upTo)
		if s.Cursor == "" && taken == old.taken() {
			return nil, nil
		}
		next := *record
		if next.Taken = taken; s.Cursor == "" && old != nil {
			next.Cursor, next.EventIDs = old.Cursor, old.EventIDs
		}
		return &store.Commit{Writes: []store.Write{r.write(at, &next)}}, nil
	})
	if err != nil {
		return 0, fmt.Errorf("saving cursor %q: %w", key, err)
	}
	return taken, nil
}

// Delete implements [clientstore.CursorStore]. It also deletes a cursor that cannot be read.
func (c *Client) Delete(ctx context.Context, key string) error {
	at := cursorKey(key)
	_, err := c.l.change(ctx, []string{at}, func(r reading) (*store.Commit, error) {
		old, err := decode[cursorRecord](r.of(at))
		if err != nil && unreadable(err) == "" {
			return nil, err
		}
		var next store.Value
		switch _, saved := old.saved(); {
		case err == nil && !saved:
			return nil, nil
		case old.taken() > 0:
			next = &cursorRecord{Taken: old.Taken}
		}
		return &store.Commit{Writes: []store.Write{r.write(at, next)}}, nil
	})
	if err != nil {
		return fmt.Errorf("deleting cursor %q: %w", key, err)
	}
	return nil
}

// A sequence is the value of a record that counts, or that refers to another one by its sequence.
type sequence struct {
	N uint64 `json:"n"`
}

// Bytes implements [store.Value].
func (s *sequence) Bytes() []byte { return encode(s) }

// next returns the sequence after s, which may not exist.
func (s *sequence) next() uint64 {
	if s == nil {
		return 1
	}
	return s.N + 1
}

// ordinal returns a sequence as a part of a key. The order of the texts is that of the sequences.
func ordinal(n uint64) string { return fmt.Sprintf("%016x", n) }

// parseOrdinal parses a text that begins with an ordinal.
func parseOrdinal(text string) (n uint64, ok bool) {
	if len(text) < 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(text[:16], 16, 64)
	return n, err == nil
}

// above calls f for the records under a prefix whose keys go on with a sequence above after, page at a time, until f
// returns [errEnough].
func (l *Ledger) above(ctx context.Context, prefix string, after uint64, page int, f func(sequence uint64, r store.Record) error) error {
	for at := prefix + ordinal(after); ; {
		found, err := l.e.Scan(ctx, prefix, at, max(1, min(page, scanPage)))
		if err != nil || len(found) == 0 {
			return err
		}
		for _, r := range found {
			n, ok := parseOrdinal(r.Key[len(prefix):])
			if !ok {
				l.passOver(r.Key, fmt.Errorf("%w: %s has no sequence in its key", ErrDamaged, r.Key))
				continue
			}
			if n <= after {
				continue // its key goes on after the ordinal
			}
			if err := f(n, r); errors.Is(err, errEnough) {
				return nil
			} else if err != nil {
				return err
			}
		}
		at = found[len(found)-1].Key
	}
}

// deleteAll makes the writes, which delete records, and passes over records that have changed.
func (l *Ledger) deleteAll(ctx context.Context, deletions []store.Write) error {
	for some := range slices.Chunk(deletions, store.MaxCommit) {
		for writes := slices.Clone(some); len(writes) > 0; {
			_, err := l.commit(ctx, &store.Commit{Writes: writes})
			var conflict *store.ConflictError
			if !errors.As(err, &conflict) {
				if err != nil {
					return err
				}
				break
			}
			writes = slices.DeleteFunc(writes, func(w store.Write) bool { return slices.Contains(conflict.Keys, w.Key) })
		}
	}
	return nil
}
