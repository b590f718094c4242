package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	mathrand "math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// witnesses is the prefix of the subjects of witnesses in the state.
const witnesses = "w."

// testifies is how often a process that looks at a log records its progress in the state.
const testifies = 10 * time.Second

// A witness records what a look has proven about a log: its last position, and when that entry was stamped. Processes
// that start later check the log's stream against it. Nothing else reveals that a server without a cluster, or a
// cluster, has lost the end of a stream (JS-13).
type witness struct {
	Epoch    string // the token
	Position store.Position
	Stamp    time.Time
}

// testify writes the witness of the last look, at most once per testifies, unless another process has recorded at
// least the same position.
func (l *Log) testify(ctx context.Context, now time.Time) error {
	l.mu.Lock()
	w := l.proven
	due := !l.ended && w.Position > l.testified.Position && now.Sub(l.asked) >= testifies
	if due {
		l.asked = now
	}
	l.mu.Unlock()
	if !due {
		return nil
	}
	is, r, err := l.s.witness(ctx, l.short, false)
	if err != nil {
		return err
	}
	if is.Epoch != w.Epoch || is.Position < w.Position {
		body, err := json.Marshal(w)
		if err != nil {
			return err
		}
		_, err = l.s.state.commit(ctx, time.Now(), mathrand.Uint64(), []write{put(r, body)})
		var moved *wrongSequence
		if errors.As(err, &moved) || errors.Is(err, errUndecided) { // another process writes; a later look records the rest
			return nil
		}
		if err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.testified = w
	return nil
}

// witness returns the witness of a log and its record; the zero value if it has none.
func (s *Store) witness(ctx context.Context, short string, proven bool) (w witness, is record, err error) {
	subject := witnesses + short
	r, err := s.state.read(ctx, proven, subject)
	if err != nil {
		return w, is, err
	}
	_, err = found(r.of(subject), &w)
	return w, r.of(subject), err
}

// contradicts reports whether a stream has lost an entry that the witness saw in its epoch, according to the stream's
// proven leader.
func (s *Store) contradicts(ctx context.Context, w witness, info *jetstream.StreamInfo) (bool, error) {
	stream := info.Config.Name
	switch {
	case w.Epoch != info.Config.Metadata[metaEpoch] || w.Position == 0:
		return false, nil
	case store.Position(info.State.LastSeq) < w.Position: // or the server that answered lags
		again, err := s.proven(ctx, stream)
		return err == nil && store.Position(again.State.LastSeq) < w.Position, err
	}
	var stands time.Time // zero if the entry was evicted, or a server lags
	_, err := s.pull(ctx, stream, map[string]any{"seq": uint64(w.Position), "batch": 1}, func(m *nats.Msg) error {
		at, stamp, err := place(stream, m)
		if store.Position(at) == w.Position {
			stands = stamp
		}
		return err
	})
	return !stands.IsZero() && !stands.Equal(w.Stamp), err
}
