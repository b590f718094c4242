package inbox

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/internal/journal"
)

// These are the kinds of journal entries.
const (
	kindBatch        = "batch" // keyed by its sequence, as are marks and stones
	kindMark         = "mark"
	kindRead         = "read"
	kindLast         = "last" // the highest sequence, unless a batch or a stone has it
	kindSubscription = "subscription"
	kindReader       = "reader" // keyed by its name
)

// format is the file format of the journal.
var format = journal.Format{
	Header: journal.Header{Format: "mcpe-gen inbox", Version: 1},
	Check:  checkEntry,
	Effect: "an event may be missing or shown twice; a subscription of the agent may be missing or reappear",
}

// checkEntry returns an error for an entry that load cannot read.
func checkEntry(e journal.Entry) error {
	var err error
	switch e.Kind {
	case kindBatch:
		_, err = decode(e, new(Batch))
	case kindMark:
		_, err = decode(e, new(mark))
	case kindRead:
		_, err = decode(e, new(tombstone))
	case kindLast:
		_, err = decode(e, new(uint64))
	case kindReader:
		err = json.Unmarshal(e.Value, new(readerState))
	case kindSubscription: // the engine defines its form
	default:
		err = fmt.Errorf("%q is an unknown kind", e.Kind)
	}
	return err
}

// load reads the journal. If a crash interrupts a write, only its first entries remain. After such a crash, load does
// not restore a batch that is recorded as read, and ignores a mark without a batch.
func (b *Inbox) load() error {
	for _, e := range b.journal.All(kindReader) {
		var s readerState
		if err := json.Unmarshal(e.Value, &s); err != nil {
			return fmt.Errorf("%s %s: %w", e.Kind, e.Key, err)
		}
		b.readers[e.Key] = newReader(b, e.Key, s)
	}
	for _, e := range b.journal.All(kindRead) {
		var s tombstone
		n, err := decode(e, &s)
		if err != nil {
			return err
		}
		b.addTombstone(n, s)
	}
	var left []journal.Entry // of read batches
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
			b.forgetClosed(&u.mark)
		}
		b.addUnread(u)
	}
	for _, e := range b.journal.All(kindLast) {
		var n uint64
		if _, err := decode(e, &n); err != nil {
			return err
		}
		b.last = max(b.last, n)
	}
	for _, e := range b.journal.All(kindMark) {
		if n, err := strconv.ParseUint(e.Key, 10, 64); err != nil || b.find(n) == nil {
			left = append(left, journal.Entry{Kind: kindMark, Key: e.Key})
		}
	}
	// If a crash interrupted the closing of a reader, there may be batches that every other reader has read.
	return b.applyChange(change{first: left, gone: b.fullyRead("")})
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

// sequenceKey returns a journal key that sorts like the sequence number.
func sequenceKey(sequence uint64) string { return fmt.Sprintf("%020d", sequence) }

func put(kind string, sequence uint64, v any) (journal.Entry, error) {
	raw, err := json.Marshal(v)
	return journal.Entry{Kind: kind, Key: sequenceKey(sequence), Value: raw}, err
}
