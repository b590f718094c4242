package jetstream

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// maxHeaders is the maximum size in bytes of an entry's message, excluding its body.
	maxHeaders = 4 << 10
	// maxUnanswered is the maximum number of unacknowledged appends per log and process.
	maxUnanswered = 256
)

// Append implements [store.EventLog]. It returns [events.ErrTooLarge] if the servers do not accept an entry of that
// size.
func (l *Log) Append(ctx context.Context, e store.Entry) (store.Position, error) {
	p, _, err := l.appendUnlessExists(ctx, &e, nil)
	return p, err
}

// AppendOnce implements [store.EventLog]. The cost does not grow with the log.
func (l *Log) AppendOnce(ctx context.Context, e store.Entry, above store.Position) (store.Position, bool, error) {
	return l.appendUnlessExists(ctx, &e, func(ctx context.Context, stands *storedEntry) (bool, error) { return l.isRetained(ctx, stands, above) })
}

// appendUnlessExists appends e unless isDuplicate returns true for an existing entry with the same id. In that case, it
// returns the existing position and the error of [store.Repeats]. If isDuplicate is nil, existing entries are ignored.
func (l *Log) appendUnlessExists(ctx context.Context, e *store.Entry, isDuplicate func(context.Context, *storedEntry) (bool, error)) (p store.Position, fresh bool, err error) {
	ctx, done, err := l.beginCall(ctx)
	if err != nil {
		return 0, false, err
	}
	defer done()
	call := mathrand.Uint64()
	body := encode(e, call)
	if limit := l.s.write.MaxPayload() - maxHeaders; int64(len(body)) > limit {
		return 0, false, fmt.Errorf("log %s: %w: it has %d bytes, the servers' max_payload leaves %d", l.name, events.ErrTooLarge, len(body), limit)
	}
	id := subjectID(e)
	unlock, err := l.ids.Lock(ctx, id)
	if err != nil {
		return 0, false, l.s.wrapClosed(err)
	}
	defer unlock()
	select {
	case l.unanswered <- struct{}{}:
		defer func() { <-l.unanswered }()
	case <-ctx.Done():
		return 0, false, l.s.wrapClosed(ctx.Err())
	}
	if isDuplicate != nil {
		for i := len(l.earlier) - 1; i >= 0; i-- { // no entries are added to earlier epochs: looking first is exact
			old, found, err := l.s.fetchEntry(ctx, l.stream, map[string]any{"last_by_subj": l.subjectUnder(l.earlier[i].token, id)})
			if err != nil {
				return 0, false, l.s.wrapClosed(err)
			}
			if !found {
				continue
			}
			if is, err := isDuplicate(ctx, &old); err != nil {
				return 0, false, l.s.wrapClosed(err)
			} else if is {
				// An entry of the current epoch is newer and takes precedence.
				_, newer, err := l.s.fetchEntry(ctx, l.stream, map[string]any{"last_by_subj": l.subjectUnder(l.token, id)})
				if err != nil {
					return 0, false, l.s.wrapClosed(err)
				}
				if !newer {
					return l.existingResult(&old, e)
				}
			}
			break
		}
	}
	w := appendCall{l: l, subject: l.subjectUnder(l.token, id), body: body, call: call, isDuplicate: isDuplicate}
	err = retry(ctx, func() (bool, error) { return w.step(ctx) })
	switch {
	case err != nil && w.unsure:
		return 0, false, l.s.wrapClosed(fmt.Errorf("log %s: %w: %w", l.name, store.ErrUncertain, err))
	case err != nil:
		return 0, false, l.s.wrapClosed(fmt.Errorf("log %s: %w", l.name, err))
	case w.other != nil:
		if err := l.waitFor(ctx, w.other.Position); err != nil {
			return 0, false, l.s.wrapClosed(err)
		}
		return l.existingResult(w.other, e)
	}
	if err := l.waitFor(ctx, w.at); err != nil {
		return 0, false, l.s.wrapClosed(fmt.Errorf("log %s: %w: %w", l.name, store.ErrUncertain, err))
	}
	return w.at, true, nil
}

// existingResult returns the result of appending e if its id already exists.
func (l *Log) existingResult(old *storedEntry, e *store.Entry) (store.Position, bool, error) {
	return old.Position, false, store.Repeats(old.Position, old.Data, e.Data)
}

func (l *Log) subjectUnder(token, id string) string {
	return l.s.o.Namespace + ".l." + l.short + "." + token + "." + id
}

// isRetained reports whether an existing entry follows the position above and is still retained.
func (l *Log) isRetained(ctx context.Context, m *storedEntry, above store.Position) (bool, error) {
	if m.Position <= above {
		return false, nil
	}
	l.mu.Lock()
	o := l.options
	l.mu.Unlock()
	if o.MaxAge > 0 && l.s.clock.now().Sub(m.stamp) > o.MaxAge {
		return false, nil
	}
	if o.MaxCount > 0 {
		info, err := l.s.leaderInfo(ctx, l.stream) // other processes append as well
		if err != nil {
			return false, err
		}
		if info.State.LastSeq-uint64(m.Position) >= uint64(o.MaxCount) {
			return false, nil
		}
	}
	return true, nil
}

// An appendCall is the state of one append, which can require several publishes.
type appendCall struct {
	l           *Log
	subject     string
	body        []byte
	call        uint64
	isDuplicate func(context.Context, *storedEntry) (bool, error)

	expect uint64
	unsure bool // a publish was sent and not answered

	at    store.Position // the position of the entry
	other *storedEntry   // or the existing entry
}

// step publishes the entry once. If the response to a publish is lost, the next step repeats it with the same expected
// sequence. The server rejects one of the two publishes, and the stored message contains the call that wrote it.
func (w *appendCall) step(ctx context.Context) (again bool, err error) {
	s := w.l.s
	n, err := s.publish(ctx, w.subject, w.body, w.expect)
	var wrong *wrongSequence
	switch {
	case err == nil:
		w.at = store.Position(n)
		return false, nil
	case errors.As(err, &wrong):
		return w.resolveConflict(ctx, wrong)
	case errors.Is(err, errUndecided):
		return true, err
	case errors.Is(err, errUnanswered):
		w.unsure = true
		return ctx.Err() == nil, err
	case errors.Is(err, ErrUnreachable):
		// A stream without a leader and a stream of another epoch return the same error. Only the leader can
		// distinguish them.
		if !s.write.IsConnected() || ctx.Err() != nil {
			return ctx.Err() == nil && !s.write.IsClosed() && w.unsure, err
		}
		if over := w.l.checkHead(ctx, false); errors.Is(over, engine.ErrNewEpoch) {
			return false, over
		}
		return true, err
	}
	return false, err
}

// resolveConflict handles a publish that was rejected because the subject's last message has an unexpected sequence.
func (w *appendCall) resolveConflict(ctx context.Context, wrong *wrongSequence) (again bool, err error) {
	if wrong.stands == 0 || w.isDuplicate == nil && !w.unsure { // the message was evicted, or any existing one is ignored
		w.expect = wrong.stands
		return true, wrong
	}
	m, found, err := w.l.s.fetchEntry(ctx, w.l.stream, map[string]any{"seq": wrong.stands})
	switch {
	case err != nil:
		return false, err
	case !found: // it was evicted meanwhile
		w.expect = 0
		return true, wrong
	case w.unsure && m.call == w.call:
		w.at = m.Position
		return false, nil
	}
	if w.isDuplicate != nil {
		switch is, err := w.isDuplicate(ctx, &m); {
		case err != nil:
			return false, err
		case is:
			w.other, w.unsure = &m, false
			return false, nil
		}
	}
	w.expect = wrong.stands
	return true, wrong
}
