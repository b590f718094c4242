package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// The dead letters of a client are
//
//	dl/last                             the latest sequence
//	dl/letter/<sequence>.<key>.<event>  a letter; the key of its subscription and its event ID are hashed
//	dl/count/<key>                      the number of letters of a subscription
//	dl/id/<key>/<event>                 the sequence of the letter with an event ID, if it is not ""
//	dl/due/<key>/<sequence>.<event>     an index of the letters that are due
//
// A new letter is written in a commit with last, which is never deleted. A late copy of such a commit is therefore refused.

// A letterRecord is the value of a dead letter. See [clientstore.DeadLetter].
type letterRecord struct {
	Key       []byte      `json:"key"`
	Event     string      `json:"event"`
	EventID   []byte      `json:"eventId,omitempty"`
	Timestamp events.Time `json:"timestamp,omitzero"`
	Data      []byte      `json:"data,omitempty"`
	Meta      []byte      `json:"meta,omitempty"`
	Error     string      `json:"error"`
	Tries     int         `json:"tries"`
	First     time.Time   `json:"first,omitzero"`
	Last      time.Time   `json:"last,omitzero"`
	Due       bool        `json:"due,omitempty"`
}

// Bytes implements [store.Value].
func (d *letterRecord) Bytes() []byte { return encode(d) }

// newLetter returns the record of a dead letter, or an error if the store cannot hold it.
func newLetter(d *clientstore.DeadLetter) (*letterRecord, error) {
	record := &letterRecord{Key: []byte(d.Key), Event: d.Event, EventID: []byte(d.EventID), Timestamp: d.Timestamp,
		Data: bytes.Clone(d.Data), Meta: bytes.Clone(d.Meta), Error: d.Error, Tries: d.Tries, First: d.First, Last: d.Last, Due: d.Due}
	// Not every time can be encoded.
	if _, err := json.Marshal(&letterRecord{Timestamp: d.Timestamp, First: d.First, Last: d.Last}); err != nil {
		return nil, err
	}
	raw := len(d.Key) + len(d.Event) + len(d.EventID) + len(d.Data) + len(d.Meta) + len(d.Error)
	return record, fits("a dead letter", raw, record)
}

// letter returns the dead letter of a record.
func (d *letterRecord) letter(sequence uint64) clientstore.DeadLetter {
	return clientstore.DeadLetter{Sequence: sequence, Key: string(d.Key), Event: d.Event, EventID: string(d.EventID), Timestamp: d.Timestamp,
		Data: bytes.Clone(d.Data), Meta: bytes.Clone(d.Meta), Error: d.Error, Tries: d.Tries, First: d.First, Last: d.Last, Due: d.Due}
}

const (
	lastLetter   = familyLetter + "/last"
	letterPrefix = familyLetter + "/letter/"
)

// A letterPlace identifies a dead letter. A letter never changes its place.
type letterPlace struct {
	sequence  uint64
	of, event string // hashes of the subscription's key and of the event ID
}

func placeOf(sequence uint64, key, eventID string) letterPlace {
	return letterPlace{sequence, hash(key), hash(eventID)}
}

// parsePlace returns the place of a letter by its key.
func parsePlace(key string) (p letterPlace, ok bool) {
	parts := strings.Split(strings.TrimPrefix(key, letterPrefix), ".")
	if len(parts) != 3 {
		return p, false
	}
	n, ok := parseOrdinal(parts[0])
	return letterPlace{n, parts[1], parts[2]}, ok
}

func duePrefix(of string) string { return join(familyLetter, "due", of) + "/" }

func (p letterPlace) key() string {
	return letterPrefix + ordinal(p.sequence) + "." + p.of + "." + p.event
}
func (p letterPlace) due() string   { return duePrefix(p.of) + ordinal(p.sequence) + "." + p.event }
func (p letterPlace) id() string    { return join(familyLetter, "id", p.of, p.event) }
func (p letterPlace) count() string { return join(familyLetter, "count", p.of) }

// replace returns a commit that replaces the letter that was read, with its index record.
func (p letterPlace) replace(r reading, d *letterRecord) *store.Commit {
	w := r.write(p.key(), d)
	w.Once = true
	return &store.Commit{Writes: p.index([]store.Write{w}, r, d.Due)}
}

// index adds the write that makes the letter due or not due in the index, if one is needed.
func (p letterPlace) index(writes []store.Write, r reading, due bool) []store.Write {
	switch is := r.of(p.due()).Value != nil; {
	case due && !is:
		writes = append(writes, r.write(p.due(), used))
	case !due && is:
		writes = append(writes, r.write(p.due(), nil))
	}
	return writes
}

// PutDeadLetter implements [clientstore.DeadLetterStore]. It returns an error that matches [ErrTooLarge] for a letter that
// is larger than the store can hold. A letter with a Sequence must have the Key and the EventID that it had.
func (c *Client) PutDeadLetter(ctx context.Context, d clientstore.DeadLetter, limit int) error {
	record, err := newLetter(&d)
	if err == nil {
		err = c.putLetter(ctx, &d, record, limit)
	}
	if err != nil {
		return fmt.Errorf("storing a dead letter of %q: %w", d.Key, err)
	}
	return nil
}

func (c *Client) putLetter(ctx context.Context, d *clientstore.DeadLetter, record *letterRecord, limit int) error {
	if d.Sequence != 0 {
		p := placeOf(d.Sequence, d.Key, d.EventID)
		_, err := c.l.change(ctx, []string{p.key(), p.due()}, func(r reading) (*store.Commit, error) {
			if r.of(p.key()).Value == nil {
				return nil, nil
			}
			return p.replace(r, record), nil
		})
		return err
	}
	if err := c.letters.take(ctx); err != nil { // otherwise calls would conflict in last
		return err
	}
	defer c.letters.give()
	p := placeOf(0, d.Key, d.EventID)
	_, err := c.l.change(ctx, []string{lastLetter, p.count(), p.id()}, func(r reading) (*store.Commit, error) {
		is, err := decode[sequence](r.of(p.id()))
		if err != nil {
			return nil, err
		}
		if is != nil {
			p := letterPlace{is.N, p.of, p.event}
			if missing := r.missing(p.key(), p.due()); missing != nil {
				return nil, &needError{missing}
			}
			return p.replace(r, record), nil
		}
		return p.add(r, record, limit)
	})
	return err
}

// add returns a commit that stores a letter under the next sequence.
func (p letterPlace) add(r reading, d *letterRecord, limit int) (*store.Commit, error) {
	n, err := decode[count](r.of(p.count()))
	if err != nil {
		return nil, err
	}
	next := count{1}
	if n != nil {
		next.Used += n.Used
	}
	if next.Used > limit {
		return nil, clientstore.ErrDeadLettersFull
	}
	last, err := decode[sequence](r.of(lastLetter))
	if err != nil {
		return nil, err
	}
	p.sequence = last.next()
	writes := []store.Write{
		r.write(lastLetter, &sequence{p.sequence}),
		r.write(p.count(), &next),
		{Key: p.key(), Value: d, Once: true},
	}
	if len(d.EventID) > 0 {
		writes = append(writes, r.write(p.id(), &sequence{p.sequence}))
	}
	if d.Due {
		writes = append(writes, store.Write{Key: p.due(), Value: used})
	}
	return &store.Commit{Writes: writes}, nil
}

// DeadLetters implements [clientstore.DeadLetterStore]. It leaves out and logs letters that cannot be read.
func (c *Client) DeadLetters(ctx context.Context, after uint64, limit int) (all []clientstore.DeadLetter, err error) {
	if limit <= 0 {
		return nil, ctx.Err()
	}
	err = c.l.above(ctx, letterPrefix, after, limit, func(n uint64, r store.Record) error {
		if err := c.appendLetter(&all, n, r); err != nil {
			return err
		}
		if len(all) == limit {
			return errEnough
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading dead letters: %w", err)
	}
	return all, nil
}

// appendLetter appends the letter of a record, if it exists and can be read.
func (c *Client) appendLetter(all *[]clientstore.DeadLetter, n uint64, r store.Record) error {
	record, err := decode[letterRecord](r)
	switch {
	case err != nil && c.l.passOver(r.Key, err):
		return nil
	case err != nil:
		return err
	case record != nil:
		*all = append(*all, record.letter(n))
	}
	return nil
}

// DueDeadLetters implements [clientstore.DeadLetterStore]. It leaves out and logs letters that cannot be read.
func (c *Client) DueDeadLetters(ctx context.Context, key string, after uint64, limit int) (all []clientstore.DeadLetter, err error) {
	due := duePrefix(hash(key))
	for more := limit > 0; more && len(all) < limit; {
		var places []letterPlace
		var keys []string
		most := min(limit-len(all), scanPage)
		err = c.l.above(ctx, due, after, most, func(n uint64, r store.Record) error {
			p := letterPlace{n, hash(key), lastSegment(r.Key)[len(ordinal(n))+1:]}
			places, keys = append(places, p), append(keys, p.key())
			if after = n; len(keys) == most {
				return errEnough
			}
			return nil
		})
		var found []store.Record
		if err == nil {
			found, err = c.l.get(ctx, store.Latest, keys)
		}
		for i, r := range found {
			if err == nil {
				err = c.appendLetter(&all, places[i].sequence, r)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("reading the dead letters of %q that are due: %w", key, err)
		}
		more = len(keys) == most
	}
	return all, nil
}

// find returns the place of the letter with a sequence, if there is one.
func (c *Client) find(ctx context.Context, sequence uint64) (p letterPlace, ok bool, err error) {
	found, err := c.l.e.Scan(ctx, letterPrefix+ordinal(sequence)+".", "", 1)
	if err != nil || len(found) == 0 {
		return p, false, err
	}
	p, ok = parsePlace(found[0].Key)
	return p, ok, nil
}

// RetryDeadLetter implements [clientstore.DeadLetterStore].
func (c *Client) RetryDeadLetter(ctx context.Context, sequence uint64) (found bool, err error) {
	p, ok, err := c.find(ctx, sequence)
	if err == nil && ok {
		_, err = c.l.change(ctx, []string{p.key(), p.due()}, func(r reading) (*store.Commit, error) {
			record, err := decode[letterRecord](r.of(p.key()))
			if found = record != nil; err != nil || !found || record.Due {
				return nil, err
			}
			next := *record
			next.Due = true
			return p.replace(r, &next), nil
		})
	}
	if err != nil {
		return false, fmt.Errorf("making dead letter %d due: %w", sequence, err)
	}
	return found, nil
}

// DeleteDeadLetter implements [clientstore.DeadLetterStore]. It also deletes a letter that cannot be read.
func (c *Client) DeleteDeadLetter(ctx context.Context, sequence uint64) (found bool, err error) {
	p, ok, err := c.find(ctx, sequence)
	if err == nil && ok {
		var revisions []uint64
		revisions, err = c.l.change(ctx, []string{p.key(), p.due(), p.id(), p.count()}, p.remove)
		found = revisions != nil
	}
	if err != nil {
		return false, fmt.Errorf("deleting dead letter %d: %w", sequence, err)
	}
	return found, nil
}

// remove returns a commit that deletes the letter, or nil if it does not exist.
func (p letterPlace) remove(r reading) (*store.Commit, error) {
	if r.of(p.key()).Value == nil {
		return nil, nil
	}
	n, err := decode[count](r.of(p.count()))
	if err != nil {
		return nil, err
	}
	is, err := decode[sequence](r.of(p.id()))
	if err != nil {
		return nil, err
	}
	w := r.write(p.key(), nil)
	w.Once = true
	writes := p.index([]store.Write{w}, r, false)
	switch {
	case n != nil && n.Used > 1:
		writes = append(writes, r.write(p.count(), &count{n.Used - 1}))
	case n != nil:
		writes = append(writes, r.write(p.count(), nil))
	}
	if is != nil && is.N == p.sequence {
		writes = append(writes, r.write(p.id(), nil))
	}
	return &store.Commit{Writes: writes}, nil
}
