package ledger

import (
	"bytes"
	"context"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// The bodies of a client's key are
//
//	rcv/<key>/last                     the sequence of the latest one
//	rcv/<key>/body/<sequence>.<event>  a body
//	rcv/<key>/id/<event>               the sequence of the body with an event ID, which is hashed
//
// Every body and every index record is written in a commit with last, which is never deleted. A late copy of such a
// commit is therefore refused.

// A bodyRecord is the value of a body.
type bodyRecord struct {
	EventID []byte `json:"eventId"`
	Body    []byte `json:"body"`
}

// Bytes implements [store.Value].
func (b *bodyRecord) Bytes() []byte { return encode(b) }

// bodyKeys has the keys of the bodies of a client's key.
type bodyKeys struct{ prefix string }

func bodyKeysOf(key string) bodyKeys { return bodyKeys{join(familyReceived, hash(key))} }

func (b bodyKeys) last() string                       { return join(b.prefix, "last") }
func (b bodyKeys) bodies() string                     { return b.prefix + "/body/" }
func (b bodyKeys) body(n uint64, event string) string { return b.bodies() + ordinal(n) + "." + event }
func (b bodyKeys) id(event string) string             { return join(b.prefix, "id", event) }

// PutReceived implements [clientstore.ReceivedStore]. It returns an error that matches [ErrTooLarge] for a body that is
// larger than the store can hold.
func (c *Client) PutReceived(ctx context.Context, key string, e clientstore.Received) (fresh bool, err error) {
	record := &bodyRecord{[]byte(e.EventID), bytes.Clone(e.Body)}
	if err := fits("a webhook body with its event ID", len(e.EventID)+len(e.Body), record); err != nil {
		return false, err
	}
	b, event := bodyKeysOf(key), hash(e.EventID)
	unlock, err := c.bodies.Lock(ctx, b.prefix) // otherwise calls for one key would conflict in last
	if err != nil {
		return false, err
	}
	defer unlock()
	revisions, err := c.l.change(ctx, []string{cursorKey(key), b.last(), b.id(event)}, func(r reading) (*store.Commit, error) {
		cursor, err := decode[cursorRecord](r.of(cursorKey(key)))
		if err != nil {
			return nil, err
		}
		last, err := decode[sequence](r.of(b.last()))
		if err != nil {
			return nil, err
		}
		is, err := decode[sequence](r.of(b.id(event)))
		if err != nil && unreadable(err) == "" {
			return nil, err // a damaged index record is replaced
		}
		if is != nil && is.N > cursor.taken() {
			return nil, nil
		}
		n := last.next()
		return &store.Commit{Writes: []store.Write{
			r.write(b.last(), &sequence{n}),
			r.write(b.id(event), &sequence{n}),
			{Key: b.body(n, event), Value: record, Once: true},
		}}, nil
	})
	if err != nil {
		return false, fmt.Errorf("storing a webhook body of %q: %w", key, err)
	}
	return revisions != nil, nil
}

// Received implements [clientstore.ReceivedStore]. It returns an error for a body that cannot be read, because the answer
// to the server has promised the body to the application.
func (c *Client) Received(ctx context.Context, key string, after uint64, limit int) (bodies []clientstore.Received, err error) {
	cursor, err := c.cursor(ctx, key)
	if err == nil && limit > 0 {
		err = c.l.above(ctx, bodyKeysOf(key).bodies(), max(after, cursor.taken()), limit, func(n uint64, r store.Record) error {
			record, err := decode[bodyRecord](r)
			if err != nil {
				return err
			}
			bodies = append(bodies, clientstore.Received{Sequence: n, EventID: string(record.EventID), Body: bytes.Clone(record.Body)})
			if len(bodies) == limit {
				return errEnough
			}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("reading the webhook bodies of %q: %w", key, err)
	}
	return bodies, nil
}

// TakeReceived implements [clientstore.ReceivedStore]. The record of the cursor has the sequence up to which bodies were
// taken; the bodies are deleted after it is written.
func (c *Client) TakeReceived(ctx context.Context, key string, upTo uint64, s clientstore.Saved) error {
	b := bodyKeysOf(key)
	found, err := c.l.e.Get(ctx, store.Latest, b.last())
	if err != nil {
		return fmt.Errorf("reading the latest webhook body of %q: %w", key, err)
	}
	last, err := decode[sequence](found[0])
	if err != nil {
		return fmt.Errorf("reading the latest webhook body of %q: %w", key, err)
	}
	taken, err := c.saveCursor(ctx, key, s, min(upTo, last.next()-1))
	if err != nil {
		return err
	}
	if err := c.deleteTaken(ctx, b, taken); err != nil { // the next call deletes them
		c.l.log.Debug("mcp events: deleting webhook bodies that were taken failed", "key", key, "error", err)
	}
	return nil
}

// deleteTaken deletes the bodies up to a sequence, with their index records.
func (c *Client) deleteTaken(ctx context.Context, b bodyKeys, taken uint64) error {
	var deletions []store.Write
	var ids []string
	err := c.l.above(ctx, b.bodies(), 0, scanPage, func(n uint64, r store.Record) error {
		if n > taken {
			return errEnough
		}
		deletions = append(deletions, store.Write{Key: r.Key, On: r.Revision, Once: true})
		ids = append(ids, b.id(r.Key[len(b.body(n, "")):]))
		return nil
	})
	if err != nil {
		return err
	}
	index, err := c.l.get(ctx, store.Latest, ids)
	if err != nil {
		return err
	}
	for _, r := range index {
		// A later body can have the same event ID.
		if is, err := decode[sequence](r); err == nil && is != nil && is.N <= taken {
			deletions = append(deletions, store.Write{Key: r.Key, On: r.Revision})
		}
	}
	return c.l.deleteAll(ctx, deletions)
}
