package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/recent"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// decodeEntry decodes an entry from the body of a message.
func (s *Store) decodeEntry(stream string, sequence uint64, at time.Time, body []byte) (storedEntry, error) {
	e, err := decode(body)
	if err != nil {
		return e, fmt.Errorf("%w: message %d of %s: %w", ErrCorrupt, sequence, stream, err)
	}
	e.Position, e.stamp = store.Position(sequence), s.clock.appendTime(at)
	return e, nil
}

// fetchConsecutive reads up to n consecutive entries, but at least one. The first is at position from, and none is
// after position to. If the first entries were evicted, fetchConsecutive returns no entries and the first position in
// the stream. An incomplete page may come from a server that lags, so fetchConsecutive reads from the leader before it
// reports an entry as missing.
func (l *Log) fetchConsecutive(ctx context.Context, from, to store.Position, n int) (found []storedEntry, first store.Position, err error) {
	err = retry(ctx, func() (bool, error) {
		found, err = l.s.fetchPage(ctx, l.stream, map[string]any{"seq": uint64(from)}, int(min(store.Position(min(n, pageMax)), to-from+1)))
		return errors.Is(err, ErrUnreachable), err
	})
	if err != nil {
		return nil, 0, err
	}
	for i := range found {
		if found[i].Position != from+store.Position(i) {
			found = found[:i]
			break
		}
	}
	if len(found) > 0 {
		return found, 0, nil
	}
	one, there, err := l.s.fetchEntry(ctx, l.stream, map[string]any{"seq": uint64(from)})
	if err != nil {
		return nil, 0, err
	}
	if there {
		return []storedEntry{one}, 0, nil
	}
	info, err := l.s.leaderInfo(ctx, l.stream)
	switch {
	case err != nil:
		return nil, 0, err
	case store.Position(info.State.FirstSeq) > from:
		return nil, store.Position(info.State.FirstSeq), nil
	}
	if err := l.checkHead(ctx, true); err != nil { // the stream may have lost more
		return nil, 0, err
	}
	return nil, 0, fmt.Errorf("%w: %s has no message %d between %d and %d", ErrCorrupt, l.stream, from, info.State.FirstSeq, info.State.LastSeq)
}

// bounds returns the first retained position and the last delivered position.
func (l *Log) bounds(ctx context.Context) (oldest, head store.Position, err error) {
	now := l.s.clock.now()
	l.mu.Lock()
	o, stamp, young, until := l.options, l.stamp, l.young, l.until
	oldest, head = l.first, l.head
	l.mu.Unlock()
	if o.MaxCount > 0 && head > store.Position(o.MaxCount) {
		oldest = max(oldest, head-store.Position(o.MaxCount)+1)
	}
	oldest = min(oldest, head+1)
	switch {
	case o.MaxAge <= 0 || oldest > head:
		return oldest, head, nil
	case !stamp.IsZero() && now.Sub(stamp) > o.MaxAge:
		return head + 1, head, nil
	case !until.IsZero() && !now.After(until):
		return max(oldest, young), head, nil
	}
	cutoff := now.Add(-o.MaxAge)
	found, err := l.readSince(ctx, cutoff, !stamp.IsZero())
	if err != nil {
		return 0, 0, err
	}
	if len(found) == 0 { // all known entries were evicted
		return head + 1, head, nil
	}
	l.mu.Lock()
	if l.options.MaxAge == o.MaxAge {
		l.young, l.until = found[0].Position, found[0].stamp.Add(o.MaxAge)
	}
	l.mu.Unlock()
	return min(max(oldest, found[0].Position), head+1), head, nil
}

// readSince reads entries from any server, starting at the first entry that is not before the cutoff. A server that
// lags may return no entries. If mustExist is set, readSince retries until it finds an entry.
func (l *Log) readSince(ctx context.Context, cutoff time.Time, mustExist bool) (found []storedEntry, err error) {
	from := map[string]any{"start_time": cutoff.UTC()}
	for n := 1; ; n = pageMax {
		err = retry(ctx, func() (bool, error) {
			found, err = l.s.fetchPage(ctx, l.stream, from, n)
			switch {
			case err != nil:
				return errors.Is(err, ErrUnreachable), err
			case len(found) == 0 && mustExist:
				return true, fmt.Errorf("%w: a server of %s is behind", ErrUnreachable, l.stream)
			}
			return false, nil
		})
		if err != nil || len(found) == 0 {
			return nil, err
		}
		if i := slices.IndexFunc(found, func(e storedEntry) bool { return !e.stamp.Before(cutoff) }); i >= 0 {
			return found[i:], nil
		}
		from = map[string]any{"seq": uint64(found[len(found)-1].Position) + 1}
	}
}

// Bounds implements [store.EventLog].
func (l *Log) Bounds(ctx context.Context) (oldest, head store.Position, err error) {
	ctx, done, err := l.beginCall(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer done()
	oldest, head, err = l.bounds(ctx)
	return oldest, head, l.s.wrapClosed(err)
}

// Read implements [store.EventLog].
func (l *Log) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	ctx, done, err := l.beginCall(ctx)
	if err != nil {
		return store.Batch{}, err
	}
	defer done()
	b, err := l.read(ctx, after, limit)
	if err != nil {
		return store.Batch{}, l.s.wrapClosed(fmt.Errorf("log %s: %w", l.name, err))
	}
	return b, nil
}

func (l *Log) read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	for {
		oldest, head, err := l.bounds(ctx)
		if err != nil {
			return store.Batch{}, err
		}
		b := store.Batch{Oldest: oldest, Head: head}
		if after >= head {
			return b, nil
		}
		from := max(after+1, oldest)
		b.Gap = from > after+1
		if from > head || limit <= 0 {
			return b, nil
		}
		l.mu.Lock()
		held := l.tail.All()
		l.mu.Unlock()
		if len(held) > 0 && held[0].Position <= from && held[len(held)-1].Position >= from {
			held = held[from-held[0].Position:]
			bytes, n := 0, 0
			for ; n < min(len(held), limit) && held[n].Position <= head; n++ {
				if bytes += recent.Size(&held[n]); n > 0 && bytes > recent.Bytes {
					break
				}
			}
			b.Entries = slices.Clip(held[:n])
			return b, nil
		}
		found, first, err := l.fetchConsecutive(ctx, from, head, limit)
		if err != nil {
			return store.Batch{}, err
		}
		if len(found) == 0 { // evicted meanwhile
			l.mu.Lock()
			l.first = max(l.first, first)
			l.mu.Unlock()
			continue
		}
		b.Entries = make([]store.Entry, len(found))
		for i := range found {
			b.Entries[i] = found[i].Entry
		}
		return b, nil
	}
}

// Proof implements [store.EventLog].
func (l *Log) Proof(ctx context.Context, p store.Position) (uint32, error) {
	ctx, done, err := l.beginCall(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	oldest, head, err := l.bounds(ctx)
	if err != nil {
		return 0, l.s.wrapClosed(err)
	}
	if p == 0 || p > head || p+1 < oldest {
		return 0, nil
	}
	l.mu.Lock()
	held := l.tail.All()
	l.mu.Unlock()
	if len(held) > 0 && held[0].Position <= p && held[len(held)-1].Position >= p {
		return held[p-held[0].Position].Proof(), nil
	}
	found, _, err := l.fetchConsecutive(ctx, p, p, 1)
	if err != nil || len(found) == 0 {
		return 0, l.s.wrapClosed(err)
	}
	return found[0].Proof(), nil
}
