package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
)

// Subjects of the state, without the namespace and "s.". Every process follows the subjects with the prefix "c."
// (JS-20). Subjects with the prefix "o.<topic>.<number>." belong to a shard.
const (
	generationSubject = "c.g" // the generation of the store
	leases            = "c.l."
	topics            = "c.n."
	holds             = "c.h."
	proofs            = "c.b."
)

// metaKind is the metadata key for the kind of a stream that is not a log.
const metaKind = "mcpe.kind"

// A generationRecord is the first record of the state. Its generation is derived from the time in minutes. It is
// therefore greater than every earlier generation, including those in backups that may be restored.
type generationRecord struct {
	Generation uint64
	Group      string // the raft group of the stream
	Sealed     []byte `json:",omitempty"` // checks the key; nil for a store without one
}

// fenceBits is the number of low bits of a fence that are used within a generation. The higher bits contain the
// generation (JS-19).
const fenceBits = 40

func fence(generation, sequence uint64) uint64 { return generation<<fenceBits | sequence }

func generationOf(fence uint64) uint64 { return fence >> fenceBits }

// minGeneration returns the minimum number of a generation that begins now.
func (s *Store) minGeneration() uint64 {
	return uint64(s.clock.now().Sub(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).Minutes())
}

// recordStreamConfig returns the configuration of a record stream.
func (s *Store) recordStreamConfig(c *recordStream, kind string) jetstream.StreamConfig {
	config := s.streamConfig(c.stream)
	config.Subjects, config.AllowMsgTTL, config.MaxMsgsPerSubject, config.MaxMsgs = []string{c.prefix + ">"}, true, 1, -1
	config.Metadata[metaKind] = kind
	return config
}

// ensureStream creates a record stream if it does not exist. It returns an error if an existing stream has a different
// configuration.
func (s *Store) ensureStream(ctx context.Context, want jetstream.StreamConfig) error {
	info, err := s.leaderInfo(ctx, want.Name)
	if apiErrorCode(err) == codeNoStream {
		if err = s.callAPI(ctx, "STREAM.CREATE."+want.Name, want, nil); err == nil || apiErrorCode(err) == codeNameInUse { // another process created it first
			info, err = s.leaderInfo(ctx, want.Name)
		}
	}
	if err != nil {
		return err
	}
	return s.checkRecordStream(&want, &info.Config)
}

// checkRecordStream returns an error if the stream's configuration has changed.
func (s *Store) checkRecordStream(want, c *jetstream.StreamConfig) error {
	if err := s.checkStream(c, want.Subjects[0]); err != nil {
		return err
	}
	switch {
	case c.Metadata[metaKind] != want.Metadata[metaKind]:
		return foreign(c, "metadata", c.Metadata)
	case c.MaxMsgsPerSubject != 1 || c.MaxMsgs != want.MaxMsgs || c.MaxAge != want.MaxAge || c.MaxBytes > 0 || c.MaxMsgSize > 0 || !c.AllowMsgTTL || !c.AllowAtomicPublish ||
		!c.AllowDirect || c.NoAck || c.Sealed || c.DenyDelete || c.DenyPurge || c.SubjectTransform != nil:
		return foreign(c, "other settings", fmt.Sprintf("than it was made with: MaxMsgsPerSubject %d, MaxMsgs %d, MaxAge %v, MaxBytes %d, MaxMsgSize %d, AllowMsgTTL %v, "+
			"AllowAtomicPublish %v, AllowDirect %v, NoAck %v, Sealed %v, DenyDelete %v, DenyPurge %v", c.MaxMsgsPerSubject, c.MaxMsgs, c.MaxAge, c.MaxBytes,
			c.MaxMsgSize, c.AllowMsgTTL, c.AllowAtomicPublish, c.AllowDirect, c.NoAck, c.Sealed, c.DenyDelete, c.DenyPurge))
	}
	return nil
}

// setUp creates the stream of the state if it does not exist, and begins or joins the store's generation.
func (s *Store) setUp(ctx context.Context) error {
	if err := s.ensureStream(ctx, s.recordStreamConfig(s.state, "state")); err != nil {
		return err
	}
	return s.checkGeneration(ctx)
}

// checkGeneration compares the state stream with the known state. It begins a new generation if the stream was replaced
// or has lost acknowledged messages (JS-13).
func (s *Store) checkGeneration(ctx context.Context) error {
	info, err := s.leaderInfo(ctx, s.state.stream)
	if err != nil {
		return err
	}
	want := s.recordStreamConfig(s.state, "state")
	if err := s.checkRecordStream(&want, &info.Config); err != nil {
		return err
	}
	r, err := s.state.read(ctx, true, generationSubject)
	if err != nil {
		return err
	}
	s.state.mu.Lock()
	lost := s.state.lost
	s.state.mu.Unlock()
	is := r.of(generationSubject)
	l, err := s.decodeGeneration(&is)
	if err != nil {
		return err
	}
	key, err := s.checkKey(l)
	switch {
	case err != nil:
		return err
	case l == nil, l.Group != raftGroup(info), lost, key:
		over := uint64(0)
		if l != nil && (l.Group != raftGroup(info) || lost) {
			over = l.Generation
		}
		return s.beginGeneration(ctx, raftGroup(info), over)
	}
	s.setGeneration(l.Generation)
	return s.endOldHolds(ctx)
}

// BeginEpochs implements [engine.Shared].
func (s *Store) BeginEpochs(ctx context.Context) error {
	return s.withLock(ctx, "life", func(ctx context.Context) error {
		if err := s.checkGeneration(ctx); err != nil {
			return err
		}
		info, err := s.leaderInfo(ctx, s.state.stream)
		if err != nil {
			return err
		}
		return s.beginGeneration(ctx, raftGroup(info), s.generation.Load())
	})
}

// decodeGeneration decodes a generationRecord. It returns nil if no generation has begun.
func (s *Store) decodeGeneration(r *record) (*generationRecord, error) {
	if !r.exists() {
		return nil, nil
	}
	var l generationRecord
	if err := json.Unmarshal(r.body, &l); err != nil {
		return nil, fmt.Errorf("%w: the life of %s: %w", ErrCorrupt, s.state.stream, err)
	}
	return &l, nil
}

// checkKey checks the key against the generation's record. The result write reports whether the record needs a new
// check value.
func (s *Store) checkKey(l *generationRecord) (write bool, err error) {
	switch {
	case l == nil:
		return false, nil
	case l.Sealed == nil && s.box.Keyed():
		return false, fmt.Errorf("%w: the store was created without a key", ErrKey)
	case l.Sealed == nil:
		return false, nil
	}
	if err := s.box.Check(l.Sealed); err != nil {
		return false, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return string(l.Sealed[:sealed.PrefixSize]) != string(s.box.Prefix()), nil
}

// beginGeneration begins the generation after over, or the first generation if over is 0. Earlier leases and holds end,
// and every log begins a new epoch. Only one of several concurrent calls begins the generation.
func (s *Store) beginGeneration(ctx context.Context, group string, over uint64) error {
	var now generationRecord
	begun := false
	_, err := s.state.change(ctx, []string{generationSubject}, func(r *reading) ([]write, error) {
		is := r.of(generationSubject)
		l, err := s.decodeGeneration(&is)
		if err != nil {
			return nil, err
		}
		now = generationRecord{Generation: max(s.minGeneration(), s.generation.Load()+1), Group: group} // greater than that of a lost stream
		if begun = l == nil || l.Generation == over; l != nil {
			now.Generation = max(now.Generation, l.Generation+1)
		}
		if !begun {
			now.Generation = l.Generation
		}
		if s.box.Keyed() {
			now.Sealed = s.box.SealCheck()
		}
		b, err := json.Marshal(now)
		return []write{put(is, b)}, err
	})
	if err != nil {
		return err
	}
	s.state.mu.Lock()
	s.state.lost = false
	s.state.mu.Unlock()
	switch {
	case begun && over == 0:
		s.log.Warn("jetstream: the account had no store in this namespace; created an empty one", "stream", s.state.stream)
	case begun:
		s.log.Warn("jetstream: a new generation has begun: logs begin new epochs, and all leases have ended", "stream", s.state.stream, "generation", now.Generation)
	}
	s.setGeneration(now.Generation)
	return s.endOldHolds(ctx)
}

// setGeneration sets the generation and ends the logs of earlier generations.
func (s *Store) setGeneration(generation uint64) {
	if before := s.generation.Swap(generation); before == generation || before == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.logs {
		l.end()
	}
}

// endOldHolds ends the holds of earlier generations, so their owners can no longer write (REP-19). It does so once per
// generation.
func (s *Store) endOldHolds(ctx context.Context) error {
	now := s.generation.Load()
	if s.expelled.Load() == now {
		return nil
	}
	v, err := s.currentView(ctx)
	if err != nil {
		return err
	}
	for _, h := range v.holds {
		if h.Fence == 0 || generationOf(h.Fence) >= now {
			continue
		}
		_, err := s.state.change(ctx, []string{h.subject}, func(r *reading) ([]write, error) {
			is, err := holdOf(r.of(h.subject))
			if err != nil || is.Fence != h.Fence {
				return nil, err
			}
			is.Fence = 0
			return is.put()
		})
		if err != nil {
			return err
		}
	}
	s.expelled.Store(now)
	return nil
}

// watchGeneration checks the generation and records a fault for Ping.
func (s *Store) watchGeneration() {
	stream := s.state.stream
	err := s.checkGeneration(s.life)
	if c := s.client.Load(); err == nil && c != nil {
		want := s.recordStreamConfig(c, "client")
		stream = want.Name
		var info *jetstream.StreamInfo
		if info, err = s.leaderInfo(s.life, stream); err == nil {
			err = s.checkRecordStream(&want, &info.Config)
		}
	}
	if apiErrorCode(err) == codeNoStream {
		err = fmt.Errorf("%w: stream %s does not exist any more and its data are lost; restart a server to create an empty one, or restore a backup", ErrForeign, stream)
	}
	if s.life.Err() != nil {
		return
	}
	s.mu.Lock()
	known := s.fault != nil
	s.fault = err
	s.mu.Unlock()
	if err != nil && !known && !errors.Is(err, context.Canceled) {
		s.log.Error("jetstream: the state cannot be used", "stream", stream, "error", err)
	}
}

// Generation implements [engine.Shared].
func (s *Store) Generation() uint64 { return s.generation.Load() }

// Now implements [engine.Shared]. It returns the time of the nats-servers. Their clocks must agree (JS-33).
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	ctx, done, err := s.beginCall(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer done()
	if !s.clock.heardWithin(time.Second) {
		if _, err := s.leaderInfo(ctx, s.state.stream); err != nil {
			return time.Time{}, s.wrapClosed(err)
		}
	}
	return s.clock.now(), nil
}
