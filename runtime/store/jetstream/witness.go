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

// witnessPrefix is the subject prefix for witnesses in the state.
const witnessPrefix = "w."

// witnessInterval is the minimum time between two witnesses of a log by the same process.
const witnessInterval = 10 * time.Second

// A witness records the last position of a log that a poll has proven, and the timestamp of that entry. Processes that
// start later compare the log's stream with the witness. This is the only way to detect that a single server or a
// cluster has lost the end of a stream (JS-13).
type witness struct {
	Epoch    string // the token
	Position store.Position
	Stamp    time.Time
}

// recordWitness writes the witness of the latest poll, at most once per witnessInterval. It does nothing if another
// process has recorded the same or a later position.
func (l *Log) recordWitness(ctx context.Context, now time.Time) error {
	l.mu.Lock()
	w := l.proven
	due := !l.ended && w.Position > l.testified.Position && now.Sub(l.asked) >= witnessInterval
	if due {
		l.asked = now
	}
	l.mu.Unlock()
	if !due {
		return nil
	}
	is, r, err := l.s.readWitness(ctx, l.short, false)
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
		if errors.As(err, &moved) || errors.Is(err, errUndecided) { // another process is writing; a later poll records the new position
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

// readWitness returns the witness of a log and its record. If the log has no witness, it returns the zero witness.
func (s *Store) readWitness(ctx context.Context, short string, proven bool) (w witness, is record, err error) {
	subject := witnessPrefix + short
	r, err := s.state.read(ctx, proven, subject)
	if err != nil {
		return w, is, err
	}
	_, err = decodeRecord(r.of(subject), &w)
	return w, r.of(subject), err
}

// hasLostWitnessed reports whether a stream has lost an entry that the witness recorded in the current epoch. It relies
// on the stream's proven leader.
func (s *Store) hasLostWitnessed(ctx context.Context, w witness, info *jetstream.StreamInfo) (bool, error) {
	stream := info.Config.Name
	switch {
	case w.Epoch != info.Config.Metadata[metaEpoch] || w.Position == 0:
		return false, nil
	case store.Position(info.State.LastSeq) < w.Position: // or the server that answered lags
		again, err := s.provenInfo(ctx, stream)
		return err == nil && store.Position(again.State.LastSeq) < w.Position, err
	}
	var stands time.Time // zero if the entry was evicted, or a server lags
	_, err := s.pull(ctx, stream, map[string]any{"seq": uint64(w.Position), "batch": 1}, func(m *nats.Msg) error {
		at, stamp, err := messagePosition(stream, m)
		if store.Position(at) == w.Position {
			stands = stamp
		}
		return err
	})
	return !stands.IsZero() && !stands.Equal(w.Stamp), err
}
