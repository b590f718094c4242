// Package letters implements a list of dead letters for the in-memory and file stores.
package letters

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// A List contains dead letters, ordered by sequence number. The zero value is empty.
type List struct {
	// Last is the last assigned sequence number.
	Last uint64
	// Letters contains the letters. The contents of their slices are never modified.
	Letters []clientstore.DeadLetter
}

// Put implements [clientstore.DeadLetterStore].PutDeadLetter. It returns the letter's sequence number, or 0 if the
// letter to replace was deleted.
func (l *List) Put(d clientstore.DeadLetter, limit int) (sequence uint64, err error) {
	d.Data, d.Meta = bytes.Clone(d.Data), bytes.Clone(d.Meta)
	if d.Sequence != 0 {
		i, ok := l.find(d.Sequence)
		if !ok {
			return 0, nil
		}
		l.Letters[i] = d
		return d.Sequence, nil
	}
	of := 0
	for i, o := range l.Letters {
		if o.Key != d.Key {
			continue
		}
		of++
		if d.EventID != "" && o.EventID == d.EventID {
			d.Sequence = o.Sequence
			l.Letters[i] = d
			return d.Sequence, nil
		}
	}
	if of >= limit {
		return 0, clientstore.ErrDeadLettersFull
	}
	l.Last++
	d.Sequence = l.Last
	l.Letters = append(l.Letters, d)
	return d.Sequence, nil
}

// Get returns the letter with the given sequence number.
func (l *List) Get(sequence uint64) (d clientstore.DeadLetter, ok bool) {
	i, ok := l.find(sequence)
	if ok {
		d = l.Letters[i]
	}
	return d, ok
}

// After returns up to limit matching letters with sequence numbers greater than after.
func (l *List) After(after uint64, limit int, match func(clientstore.DeadLetter) bool) (found []clientstore.DeadLetter) {
	for _, d := range l.Letters {
		if len(found) >= limit {
			break
		}
		if d.Sequence > after && match(d) {
			d.Data, d.Meta = bytes.Clone(d.Data), bytes.Clone(d.Meta)
			found = append(found, d)
		}
	}
	return found
}

// Retry implements [clientstore.DeadLetterStore].RetryDeadLetter.
func (l *List) Retry(sequence uint64) bool {
	i, ok := l.find(sequence)
	if ok {
		l.Letters[i].Due = true
	}
	return ok
}

// Delete implements [clientstore.DeadLetterStore].DeleteDeadLetter.
func (l *List) Delete(sequence uint64) bool {
	i, ok := l.find(sequence)
	if ok {
		l.Letters = slices.Delete(l.Letters, i, i+1)
	}
	return ok
}

// Clone returns an independent copy of the list.
func (l *List) Clone() List { return List{Last: l.Last, Letters: slices.Clone(l.Letters)} }

func (l *List) find(sequence uint64) (int, bool) {
	return slices.BinarySearchFunc(l.Letters, sequence, func(d clientstore.DeadLetter, sequence uint64) int { return cmp.Compare(d.Sequence, sequence) })
}
