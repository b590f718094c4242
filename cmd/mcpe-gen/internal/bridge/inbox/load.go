package inbox

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/internal/journal"
)

// The kinds of entries of the journal.
const (
	kindBatch        = "batch" // by its sequence, as are marks and stones
	kindMark         = "mark"
	kindRead         = "read"
	kindLast         = "last" // the highest sequence, where no batch and no stone says it
	kindSubscription = "subscription"
)

// header begins the file.
var header = journal.Header{Format: "mcpe-gen inbox", Version: 1}

// load reads what the journal has. A write that a crash has cut short has left its first entries alone: a batch that is
// read already is no longer unread, and a mark of no batch means nothing.
func (b *Inbox) load() error {
	for _, e := range b.journal.All(kindRead) {
		var s stone
		n, err := decode(e, &s)
		if err != nil {
			return err
		}
		b.bury(n, s)
	}
	var left []journal.Entry // of what was read
	for _, e := range b.journal.All(kindBatch) {
		u := new(entry)
		var err error
		if u.Sequence, err = decode(e, &u.Batch); err != nil {
			return err
		}
		if _, read := b.stones[u.Sequence]; read {
			left = append(left, journal.Entry{Kind: kindBatch, Key: e.Key})
			continue
		}
		if text, ok := b.journal.Get(kindMark, e.Key); ok {
			if _, err := decode(journal.Entry{Kind: kindMark, Key: e.Key, Value: text}, &u.mark); err != nil {
				return err
			}
		}
		b.admit(u)
	}
	for _, e := range b.journal.All(kindLast) {
		var n uint64
		if err := json.Unmarshal(e.Value, &n); err != nil {
			return fmt.Errorf("%s %s: %w", e.Kind, e.Key, err)
		}
		b.last = max(b.last, n)
	}
	for _, e := range b.journal.All(kindMark) {
		if n, err := strconv.ParseUint(e.Key, 10, 64); err != nil || b.find(n) == nil {
			left = append(left, journal.Entry{Kind: kindMark, Key: e.Key})
		}
	}
	if len(left) == 0 {
		return nil
	}
	return b.journal.Put(left...)
}

func decode(e journal.Entry, v any) (uint64, error) {
	n, err := strconv.ParseUint(e.Key, 10, 64)
	if err == nil {
		err = json.Unmarshal(e.Value, v)
	}
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", e.Kind, e.Key, err)
	}
	return n, nil
}

// key orders the entries of the journal by their sequences.
func key(sequence uint64) string { return fmt.Sprintf("%020d", sequence) }

func put(kind string, sequence uint64, v any) (journal.Entry, error) {
	raw, err := json.Marshal(v)
	return journal.Entry{Kind: kind, Key: key(sequence), Value: raw}, err
}
