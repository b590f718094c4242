package file

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/internal/journal"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/letters"
)

// A deadLetter encodes Data and Meta as bytes, because embedded JSON would not be preserved exactly.
type deadLetter struct {
	clientstore.DeadLetter
	Data []byte `json:"data,omitempty"`
	Meta []byte `json:"meta,omitempty"`
}

// decodeLetter decodes a dead letter from a journal entry.
func decodeLetter(e journal.Entry) (clientstore.DeadLetter, error) {
	var d deadLetter
	if err := json.Unmarshal(e.Value, &d); err != nil {
		return clientstore.DeadLetter{}, err
	}
	if strconv.FormatUint(d.Sequence, 10) != e.Key {
		return clientstore.DeadLetter{}, fmt.Errorf("sequence %d", d.Sequence)
	}
	d.DeadLetter.Data, d.DeadLetter.Meta = d.Data, d.Meta
	return d.DeadLetter, nil
}

// readLetters reads the dead letters from the journal.
func (c *Cursors) readLetters() error {
	if value, ok := c.journal.Get(kindLast, ""); ok {
		if err := json.Unmarshal(value, &c.letters.Last); err != nil {
			return err
		}
	}
	for _, e := range c.journal.All(kindLetter) {
		d, err := decodeLetter(e)
		if err != nil {
			return err
		}
		c.letters.Letters = append(c.letters.Letters, d)
		c.letters.Last = max(c.letters.Last, d.Sequence)
	}
	slices.SortFunc(c.letters.Letters, func(a, b clientstore.DeadLetter) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return nil
}

// changeLetters applies a change and writes it to the journal. If the write fails, the letters do not change.
func (c *Cursors) changeLetters(ctx context.Context, change func(*letters.List) (sequence uint64, err error)) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.letters.Clone()
	sequence, err := change(&next)
	if sequence == 0 || err != nil {
		return false, err
	}
	e := journal.Entry{Kind: kindLetter, Key: strconv.FormatUint(sequence, 10)}
	entries := []journal.Entry{e}
	if d, ok := next.Get(sequence); ok {
		if entries[0].Value, err = json.Marshal(deadLetter{d, d.Data, d.Meta}); err != nil {
			return false, err
		}
	} else { // so that no sequence is assigned twice
		entries = []journal.Entry{{Kind: kindLast, Value: strconv.AppendUint(nil, next.Last, 10)}, e}
	}
	if err := c.journal.Put(entries...); err != nil {
		return false, fmt.Errorf("saving dead letters: %w", err)
	}
	c.letters = next
	return true, nil
}

// PutDeadLetter implements [clientstore.DeadLetterStore].
func (c *Cursors) PutDeadLetter(ctx context.Context, d clientstore.DeadLetter, limit int) error {
	_, err := c.changeLetters(ctx, func(l *letters.List) (uint64, error) { return l.Put(d, limit) })
	return err
}

// DeadLetters implements [clientstore.DeadLetterStore].
func (c *Cursors) DeadLetters(ctx context.Context, after uint64, limit int) ([]clientstore.DeadLetter, error) {
	return c.findLetters(ctx, after, limit, func(clientstore.DeadLetter) bool { return true })
}

// DueDeadLetters implements [clientstore.DeadLetterStore].
func (c *Cursors) DueDeadLetters(ctx context.Context, key string, after uint64, limit int) ([]clientstore.DeadLetter, error) {
	return c.findLetters(ctx, after, limit, func(d clientstore.DeadLetter) bool { return d.Due && d.Key == key })
}

func (c *Cursors) findLetters(ctx context.Context, after uint64, limit int, match func(clientstore.DeadLetter) bool) ([]clientstore.DeadLetter, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.letters.After(after, limit, match), nil
}

// RetryDeadLetter implements [clientstore.DeadLetterStore].
func (c *Cursors) RetryDeadLetter(ctx context.Context, sequence uint64) (found bool, err error) {
	return c.changeLetter(ctx, sequence, (*letters.List).Retry)
}

// DeleteDeadLetter implements [clientstore.DeadLetterStore].
func (c *Cursors) DeleteDeadLetter(ctx context.Context, sequence uint64) (found bool, err error) {
	return c.changeLetter(ctx, sequence, (*letters.List).Delete)
}

func (c *Cursors) changeLetter(ctx context.Context, sequence uint64, change func(l *letters.List, sequence uint64) bool) (found bool, err error) {
	return c.changeLetters(ctx, func(l *letters.List) (uint64, error) {
		if !change(l, sequence) {
			return 0, nil
		}
		return sequence, nil
	})
}
