package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// MaxCommit bounds the guards and writes of a [Commit], counted together.
	MaxCommit = 999
	// MaxKey bounds a key, in bytes.
	MaxKey = 400
	// MaxGet bounds the keys of one [Records.Get].
	MaxGet = 400
	// MaxValue bounds the Bytes of a value.
	MaxValue = 480 << 10
	// TombstoneAge is the minimum time for which a store remembers the revision of a deletion. A commit whose answer
	// was lost can be applied within 30 s, so a delayed copy of a commit cannot create a record again that was deleted
	// since.
	TombstoneAge = 5 * time.Minute
)

// A Value is the content of a [Record].
//
// A store that keeps records in memory may keep the Value itself and return it; any other one keeps its Bytes and
// returns them as a [Bytes]. A Value never changes.
type Value interface {
	// Bytes returns the encoded value, up to [MaxValue] bytes. The caller must not change them.
	Bytes() []byte
}

// Bytes is an encoded [Value].
type Bytes []byte

// Bytes implements [Value].
func (b Bytes) Bytes() []byte { return b }

// A Damaged is the [Value] of a record that the store cannot read, such as after a fault of the disk. It has no Bytes, so
// nothing decodes it by mistake. The record can be replaced and deleted by its revision, as any other one.
type Damaged struct{ Err error }

// Bytes implements [Value]. It returns nil.
func (d Damaged) Bytes() []byte { return nil }

// A Record is a key with its value.
type Record struct {
	// Key has 1 to [MaxKey] bytes: segments of ASCII letters, digits and "-_.=", joined by "/".
	Key string
	// Value is nil if the record does not exist.
	Value Value
	// Revision changes with each write and is never reused; compare it only for equality. A deletion has a revision,
	// too, which the store remembers for [TombstoneAge]. It is 0 if the record never existed, or if its deletion is
	// older than that or was of a record written with [Write.Once].
	Revision uint64
	// Call is the [Commit.Call] of the commit that wrote the record.
	Call uint64
}

// A Guard requires that a record, or its deletion, has the given revision. The commit does not write the record.
type Guard struct {
	Key string
	// Revision is not 0: a store cannot lock a record that never existed.
	Revision uint64
}

// A Write creates, replaces or deletes a record. It names the revision that it replaces, so a copy of a commit that
// arrives late is refused.
type Write struct {
	Key string
	// On is the revision to replace, as [Records.Get] returned it.
	On uint64
	// Value is the new value. If it is nil, the write deletes the record; On is not 0 then.
	Value Value
	// Once promises that the key is never written again after its deletion. The store then does not remember the
	// deletion.
	Once bool
	// Until is when the store may delete the record without a commit; the zero time means never. The store deletes it
	// within a minute after that, unless it was replaced. That is a deletion like any other: without Once, the store
	// remembers it.
	Until time.Time
}

// A Commit is a set of writes that a store applies completely or not at all.
type Commit struct {
	// Call identifies the commit: a random number, not 0. A caller that sends a commit again uses the same Call.
	Call uint64
	// Guards and Writes name each key once, and [MaxCommit] keys together at most.
	Guards []Guard
	Writes []Write
	// Tell lists names that the store reports to each process after the commit is applied, by convention keys: up to
	// [MaxCommit] names of 1 to [MaxKey] bytes. A store for one process may ignore them.
	Tell []string
}

// Validate returns an error that names the first part of the commit that breaks a rule of this package, such as a
// malformed key or a key that occurs twice.
func (c *Commit) Validate() error {
	if c.Call == 0 {
		return errors.New("store: the commit has no Call")
	}
	if n := len(c.Guards) + len(c.Writes); n == 0 || n > MaxCommit {
		return fmt.Errorf("store: the commit has %d guards and writes; it needs 1 to %d", n, MaxCommit)
	}
	keys := make(map[string]struct{}, len(c.Guards)+len(c.Writes))
	for _, g := range c.Guards {
		if err := addKey(keys, g.Key); err != nil {
			return err
		}
		if g.Revision == 0 {
			return fmt.Errorf("store: the guard of %q has no revision", g.Key)
		}
	}
	for _, w := range c.Writes {
		if err := addKey(keys, w.Key); err != nil {
			return err
		}
		if w.Value == nil && w.On == 0 {
			return fmt.Errorf("store: the deletion of %q names no revision", w.Key)
		}
	}
	if len(c.Tell) > MaxCommit {
		return fmt.Errorf("store: the commit tells %d names; %d are the most", len(c.Tell), MaxCommit)
	}
	for i, name := range c.Tell {
		if len(name) == 0 || len(name) > MaxKey {
			return fmt.Errorf("store: name %d that the commit tells has %d bytes; a name has 1 to %d", i, len(name), MaxKey)
		}
	}
	return nil
}

func addKey(keys map[string]struct{}, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if _, twice := keys[key]; twice {
		return fmt.Errorf("store: the commit names %q twice", key)
	}
	keys[key] = struct{}{}
	return nil
}

// checkKey returns an error if key is malformed; see [Record.Key].
func checkKey(key string) error {
	if len(key) == 0 || len(key) > MaxKey {
		return fmt.Errorf("store: a key has 1 to %d bytes, this one has %d", MaxKey, len(key))
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" {
			return fmt.Errorf("store: the key %q has an empty segment", key)
		}
	}
	for i := range len(key) {
		if !keyByte(key[i]) {
			return fmt.Errorf("store: the key %q has the character %q at byte %d", key, key[i], i)
		}
	}
	return nil
}

func keyByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.=/", c) >= 0
}

// A ConflictError lists the keys whose revision is not the expected one. The store has written nothing.
type ConflictError struct {
	Keys []string
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%v: %s", ErrConflict, strings.Join(e.Keys, ", "))
}

// Is makes errors.Is(err, [ErrConflict]) true.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// A Consistency bounds the age of what [Records.Get] returns.
type Consistency int

const (
	// Latest includes each commit that was answered before the call began.
	Latest Consistency = iota
	// Stale may miss recent commits and may cost less. Use it before a commit that names the revisions read: the store
	// refuses the commit if they were old. Read Latest before you give a final answer such as "not found".
	Stale
)

// Records is a key-value store with compare-and-set. Implementations are safe for concurrent use. The runtime does not use
// the Records of a store of your own so far: such a store needs a [SubscriptionStore] for webhooks.
type Records interface {
	// Get returns a record for each of up to [MaxGet] keys, in their order, without a Value if the record does not
	// exist; a malformed key has no record. The records are from one moment.
	Get(ctx context.Context, c Consistency, keys ...string) ([]Record, error)
	// Scan returns the existing records whose keys begin with prefix and are greater than after, in byte order of keys,
	// up to limit: fewer if they are large or many, but at least one if there is one. It includes each commit that was
	// answered before the call began. The records of a call are from one moment.
	Scan(ctx context.Context, prefix, after string, limit int) ([]Record, error)
	// Commit applies c if all its guards and writes name the current revisions, and returns the new revision of each
	// write; otherwise it returns a [*ConflictError]. Commits are linearizable, and durable when they are answered.
	// After an error that matches [ErrUncertain], the store may have applied c, or may apply it within 30 s if those
	// revisions are current then; [Record.Call] shows later whether it has.
	Commit(ctx context.Context, c *Commit) (revisions []uint64, err error)
}
