package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Subjects of the state, after the namespace and "s.". Every process follows the subjects under "c." (JS-20). The
// subjects under "o.<topic>.<number>." belong to a shard.
const (
	lifeSubject = "c.g" // the life of the store
	leases      = "c.l."
	topics      = "c.n."
	holds       = "c.h."
	proofs      = "c.b."
)

// metaKind is the metadata key that names the kind of a stream that is not a log.
const metaKind = "mcpe.kind"

// A life is the first record of the state. Its generation is greater than that of every earlier life, including those
// in backups that may be restored, because it follows the clock, in minutes.
type life struct {
	Generation uint64
	Group      string // the raft group of the stream
	Sealed     []byte `json:",omitempty"` // checks the key; nil for a store without one
}

// fenceBits is the number of low bits of a fence that count within a generation. The higher bits are the generation
// (JS-19).
const fenceBits = 40

func fence(generation, sequence uint64) uint64 { return generation<<fenceBits | sequence }

func generationOf(fence uint64) uint64 { return fence >> fenceBits }

// minutes returns the minimum generation of a life that begins now.
func (s *Store) minutes() uint64 {
	return uint64(s.clock.now().Sub(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).Minutes())
}

// keeping returns the configuration of a stream of records.
func (s *Store) keeping(c *records, kind string) jetstream.StreamConfig {
	config := jetstream.StreamConfig{
		Name: c.stream, Subjects: []string{c.prefix + ">"}, Storage: jetstream.FileStorage, Replicas: replicas, Discard: jetstream.DiscardOld,
		Retention: jetstream.LimitsPolicy, AllowDirect: true, AllowAtomicPublish: true, AllowMsgTTL: true, MaxMsgsPerSubject: 1,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1, Metadata: map[string]string{metaVersion: streamVersion, metaKind: kind},
	}
	if s.o.Single {
		config.Replicas = 1
	}
	return config
}

// ensure creates a stream of records if it does not exist, and refuses an existing one with another configuration.
func (s *Store) ensure(ctx context.Context, want jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	info, err := s.info(ctx, want.Name)
	if code(err) == codeNoStream {
		if err = s.api(ctx, "STREAM.CREATE."+want.Name, want, nil); err == nil || code(err) == codeNameInUse { // another process created it first
			info, err = s.info(ctx, want.Name)
		}
	}
	if err != nil {
		return nil, err
	}
	return info, keeps(&want, &info.Config)
}

// keeps refuses a stream whose configuration has changed.
func keeps(want, c *jetstream.StreamConfig) error {
	foreign := func(what string, v any) error {
		return fmt.Errorf("%w: %s has %s %v", ErrForeign, c.Name, what, v)
	}
	if err := checkVersion(c); err != nil {
		return err
	}
	switch {
	case c.Metadata[metaKind] != want.Metadata[metaKind]:
		return foreign("metadata", c.Metadata)
	case len(c.Subjects) != 1 || c.Subjects[0] != want.Subjects[0]:
		return foreign("the subjects", c.Subjects)
	case c.Storage != jetstream.FileStorage:
		return foreign("the storage", c.Storage)
	case c.Retention != jetstream.LimitsPolicy || c.Discard != jetstream.DiscardOld:
		return foreign("the retention", fmt.Sprint(c.Retention, " ", c.Discard))
	case c.Mirror != nil || len(c.Sources) > 0:
		return foreign("a mirror or sources", "")
	case c.MaxMsgsPerSubject != 1 || c.MaxMsgs != want.MaxMsgs || c.MaxAge != want.MaxAge || c.MaxBytes > 0 || c.MaxMsgSize > 0 || !c.AllowMsgTTL || !c.AllowAtomicPublish ||
		!c.AllowDirect || c.NoAck || c.Sealed || c.DenyDelete || c.DenyPurge || c.SubjectTransform != nil:
		return foreign("other settings", fmt.Sprintf("than it was made with: MaxMsgsPerSubject %d, MaxMsgs %d, MaxAge %v, MaxBytes %d, MaxMsgSize %d, AllowMsgTTL %v, "+
			"AllowAtomicPublish %v, AllowDirect %v, NoAck %v, Sealed %v, DenyDelete %v, DenyPurge %v", c.MaxMsgsPerSubject, c.MaxMsgs, c.MaxAge, c.MaxBytes,
			c.MaxMsgSize, c.AllowMsgTTL, c.AllowAtomicPublish, c.AllowDirect, c.NoAck, c.Sealed, c.DenyDelete, c.DenyPurge))
	case c.Replicas != want.Replicas:
		return fmt.Errorf("%w: %s is on %d servers, not on %d", ErrReplicas, c.Name, c.Replicas, want.Replicas)
	}
	return nil
}

// acting returns the configuration of the stream of operators' actions.
func (s *Store) acting() jetstream.StreamConfig {
	c := s.keeping(s.actions, "actions")
	c.MaxMsgs, c.MaxAge = engine.MaxActions, engine.ActionAge+time.Minute
	return c
}

// enter creates the streams of the state and begins the life of the store, or joins it.
func (s *Store) enter(ctx context.Context) error {
	if _, err := s.ensure(ctx, s.acting()); err != nil {
		return err
	}
	if _, err := s.ensure(ctx, s.keeping(s.state, "state")); err != nil {
		return err
	}
	return s.lookAtLife(ctx)
}

// lookAtLife compares the state's stream with the known state, and begins a new generation if the stream was replaced
// or has lost acknowledged messages (JS-13).
func (s *Store) lookAtLife(ctx context.Context) error {
	info, err := s.info(ctx, s.state.stream)
	if err != nil {
		return err
	}
	want := s.keeping(s.state, "state")
	if err := keeps(&want, &info.Config); err != nil {
		return err
	}
	r, err := s.state.read(ctx, true, lifeSubject)
	if err != nil {
		return err
	}
	s.state.mu.Lock()
	lost := s.state.lost
	s.state.mu.Unlock()
	is := r.of(lifeSubject)
	l, err := s.lifeOf(&is)
	if err != nil {
		return err
	}
	key, err := s.keyFits(l)
	switch {
	case err != nil:
		return err
	case l == nil, l.Group != group(info), lost, key:
		over := uint64(0)
		if l != nil && (l.Group != group(info) || lost) {
			over = l.Generation
		}
		return s.beginLife(ctx, group(info), over)
	}
	s.lives(l.Generation)
	return s.expel(ctx)
}

// BeginEpochs implements [engine.Shared].
func (s *Store) BeginEpochs(ctx context.Context) error {
	return s.one(ctx, "life", func(ctx context.Context) error {
		if err := s.lookAtLife(ctx); err != nil {
			return err
		}
		info, err := s.info(ctx, s.state.stream)
		if err != nil {
			return err
		}
		return s.beginLife(ctx, group(info), s.generation.Load())
	})
}

// lifeOf decodes a life; nil if none has begun.
func (s *Store) lifeOf(r *record) (*life, error) {
	if !r.there() {
		return nil, nil
	}
	var l life
	if err := json.Unmarshal(r.body, &l); err != nil {
		return nil, fmt.Errorf("%w: the life of %s: %w", ErrCorrupt, s.state.stream, err)
	}
	return &l, nil
}

// keyFits compares the key with the life's check. write reports that the check must be written.
func (s *Store) keyFits(l *life) (write bool, err error) {
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

// beginLife begins the first life if over is 0, or the life that follows generation over. Earlier leases and holds
// end, and every log begins a new epoch. Of several concurrent calls, one begins the life.
func (s *Store) beginLife(ctx context.Context, group string, over uint64) error {
	var now life
	begun := false
	_, err := s.state.change(ctx, []string{lifeSubject}, func(r *reading) ([]write, error) {
		is := r.of(lifeSubject)
		l, err := s.lifeOf(&is)
		if err != nil {
			return nil, err
		}
		now = life{Generation: max(s.minutes(), s.generation.Load()+1), Group: group} // greater than that of a lost stream
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
	s.lives(now.Generation)
	return s.expel(ctx)
}

// lives sets the generation and ends the logs of earlier ones.
func (s *Store) lives(generation uint64) {
	if before := s.generation.Swap(generation); before == generation || before == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.logs {
		l.over()
	}
}

// expel ends the holds of earlier generations, once per generation: their owners cannot write any more (REP-19).
func (s *Store) expel(ctx context.Context) error {
	now := s.generation.Load()
	if s.expelled.Load() == now {
		return nil
	}
	v, err := s.view(ctx)
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

// watchLife looks at the life in the background and notes a fault for Ping.
func (s *Store) watchLife() {
	stream := s.state.stream
	err := s.lookAtLife(s.life)
	beside := []jetstream.StreamConfig{s.acting()}
	if s.client.Load() != nil {
		beside = append(beside, s.keeping(s.client.Load(), "client"))
	}
	for i := 0; err == nil && i < len(beside); i++ {
		stream = beside[i].Name
		var info *jetstream.StreamInfo
		if info, err = s.info(s.life, stream); err == nil {
			err = keeps(&beside[i], &info.Config)
		}
	}
	if code(err) == codeNoStream {
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

// Now implements [engine.Shared]. It returns the time of the nats-servers, whose clocks must agree (JS-33).
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer done()
	if !s.clock.heard(time.Second) {
		if _, err := s.info(ctx, s.state.stream); err != nil {
			return time.Time{}, s.because(err)
		}
	}
	return s.clock.now(), nil
}
