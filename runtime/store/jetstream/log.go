package jetstream

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/keylock"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/recent"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// maxName is the maximum length of a log's name.
	maxName = 1024
	// evictionDelay is how long the server retains an entry beyond MaxAge, so that the proof of the last evicted entry
	// remains available.
	evictionDelay = 10 * time.Minute
)

// Keys of a stream's metadata.
const (
	metaVersion = "mcpe.version" // streamVersion
	metaLog     = "mcpe.log"     // the whole name
	metaEpoch   = "mcpe.epoch"   // the token in its subjects
	metaGroup   = "mcpe.group"   // the raft group in which the epoch began; "" for a server without a cluster
	metaEarlier = "mcpe.earlier" // tokens of earlier epochs, each with its last position: token:position,…
	metaAge     = "mcpe.age"     // LogOptions.MaxAge when it was last opened
	metaCount   = "mcpe.count"   // LogOptions.MaxCount when it was last opened
)

// streamVersion is the format version of the streams that this release creates. A release that changes the format
// increments it and migrates older streams when it opens them.
const streamVersion = "1"

// A Log is the [engine.Log] implementation of a [Store].
type Log struct {
	s             *Store
	name          string
	short, stream string // the token of its name, and the name of its stream
	token         string // of its epoch
	epoch         uint64
	generation    uint64         // of the store
	earlier       []earlierEpoch // earlier epochs, the oldest first
	unanswered    chan struct{}
	ids           keylock.Locks[string] // held during an append of an id
	turn          chan struct{}         // capacity 1: its holder delivers entries
	looking       chan struct{}         // capacity 1: its holder polls

	mu      sync.Mutex
	options store.LogOptions
	head    store.Position // the last position that Appended has delivered
	stamp   time.Time      // of the head
	want    store.Position // the last position that is known to exist
	first   store.Position // the first position that the server has
	young   store.Position // the first position within MaxAge when last determined
	until   time.Time      // young stays correct until then, by the store's clock; zero if it must be determined
	tail    recent.Entries // the last entries up to head
	moved   chan struct{}  // closed when head moves, or the log ends
	seen    time.Time
	looked  time.Time // when the last poll ended
	proven  witness   // by the last poll
	// the last witness known to be in the state, and when recordWitness last read it
	testified witness
	asked     time.Time
	fault     error // from the last poll; nil if none
	ended     bool  // a later epoch has begun
}

// An earlierEpoch is an epoch that has ended. Its entries are still stored under its subjects.
type earlierEpoch struct {
	token string
	last  store.Position
}

// OpenLog implements [store.Store]. It creates the log's stream if necessary, which requires a permission, and applies
// the limits in o. It returns [ErrForeign], [ErrReplicas] or [ErrVersion] if the stream was not created by this package
// or was modified.
func (s *Store) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	switch {
	case name == "" || len(name) > maxName:
		return nil, fmt.Errorf("open log: the name has %[2]d bytes, must be 1 to %[1]d", maxName, len(name))
	case o.MaxBytes > 0:
		return nil, fmt.Errorf("open log %s: MaxBytes is %d, but only logs in memory have it", name, o.MaxBytes)
	}
	ctx, done, err := s.beginCall(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	l, err := s.openLog(ctx, name, o)
	if err != nil {
		s.mu.Lock()
		before := s.logs[name]
		s.mu.Unlock()
		if before != nil && ctx.Err() == nil {
			before.recordResult(err)
		}
		return nil, s.wrapClosed(fmt.Errorf("open log %s: %w", name, err))
	}
	return l, nil
}

func (s *Store) openLog(ctx context.Context, name string, o store.LogOptions) (*Log, error) {
	if o.MaxAge <= 0 && o.MaxCount <= 0 {
		s.log.Warn("jetstream: the log is unbounded; a server keeps about 180 bytes of memory per entry", "log", name)
	}
	short := logToken(name)
	stream := strings.ToUpper(s.o.Namespace) + "_L_" + short
	seen, _, err := s.readWitness(ctx, short, true)
	if err != nil {
		return nil, err
	}
	info, err := s.leaderInfo(ctx, stream)
	if apiErrorCode(err) == codeNoStream {
		if seen.Position > 0 {
			s.log.Error("jetstream: the stream is missing and its entries are lost; the log restarts empty", "log", name, "stream", stream, "position", seen.Position)
		}
		var token [8]byte
		rand.Read(token[:])
		err = s.callAPI(ctx, "STREAM.CREATE."+stream, s.logConfig(name, short, stream, hex.EncodeToString(token[:]), o), nil)
		if err == nil || apiErrorCode(err) == codeNameInUse { // another process created it first
			info, err = s.leaderInfo(ctx, stream)
		}
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	before := s.logs[name]
	s.mu.Unlock()
	// There are at most two updates, one for the raft group or the epoch that begins with it, and one for the limits.
	for range 3 {
		if err := s.checkLogStream(name, short, info); err != nil {
			return nil, err
		}
		lost, err := s.hasLostWitnessed(ctx, seen, info)
		if err != nil {
			return nil, err
		}
		if !lost && before != nil && before.token == info.Config.Metadata[metaEpoch] && before.hasLostEntries(info) {
			if info, err = s.provenInfo(ctx, stream); err != nil {
				return nil, err
			}
			lost = before.hasLostEntries(info)
		}
		want, change := s.adjustedConfig(info, o, lost)
		if !change {
			break
		}
		if err := s.callAPI(ctx, "STREAM.UPDATE."+stream, want, nil); err != nil {
			return nil, err
		}
		if info, err = s.leaderInfo(ctx, stream); err != nil {
			return nil, err
		}
	}
	began := time.Now() // only a proven response counts as a poll
	if info, err = s.provenInfo(ctx, stream); err != nil {
		return nil, err
	}
	l := &Log{s: s, name: name, short: short, stream: stream, token: info.Config.Metadata[metaEpoch], options: o,
		earlier: earlierOf(info), unanswered: make(chan struct{}, maxUnanswered), turn: make(chan struct{}, 1), looking: make(chan struct{}, 1),
		head: store.Position(info.State.LastSeq), want: store.Position(info.State.LastSeq), stamp: s.clock.appendTime(info.State.LastTime),
		first: max(store.Position(info.State.FirstSeq), 1), moved: make(chan struct{}), seen: began}
	sum := sha256.Sum256([]byte(l.token))
	l.generation = s.generation.Load()
	l.epoch = max(binary.BigEndian.Uint64(sum[:8])^l.generation, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	if before = s.logs[name]; before != nil {
		if before.token == l.token && before.generation == l.generation && before.setOptions(o) {
			return before, nil
		}
		before.end()
	}
	s.logs[name], s.named[short] = l, l
	return l, nil
}

// setOptions sets the options of an open log. It returns false if the log has ended.
func (l *Log) setOptions(o store.LogOptions) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.options, l.young, l.until = o, 0, time.Time{}
	return !l.ended
}

// streamConfig returns the settings that all new streams share.
func (s *Store) streamConfig(name string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: name, Storage: jetstream.FileStorage, Replicas: s.replicas(), Discard: jetstream.DiscardOld, Retention: jetstream.LimitsPolicy,
		AllowDirect: true, AllowAtomicPublish: true, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1, Metadata: map[string]string{metaVersion: streamVersion},
	}
}

// replicas returns the number of servers that store a stream.
func (s *Store) replicas() int {
	if s.o.Single {
		return 1
	}
	return replicaCount
}

// logConfig returns the configuration of a new stream.
func (s *Store) logConfig(name, short, stream, token string, o store.LogOptions) jetstream.StreamConfig {
	c := s.streamConfig(stream)
	c.DenyPurge, c.MaxMsgsPerSubject, c.Metadata[metaLog] = true, -1, name
	s.setEpoch(&c, short, token)
	setLimits(&c, o)
	return c
}

// setEpoch sets the epoch and the subjects of the stream.
func (s *Store) setEpoch(c *jetstream.StreamConfig, short, token string) {
	c.Metadata[metaEpoch] = token
	c.Subjects = []string{s.o.Namespace + ".l." + short + "." + token + ".*"}
	c.RePublish = &jetstream.RePublish{Source: c.Subjects[0], Destination: s.o.Namespace + ".t." + short + "." + token}
}

// setLimits sets the stream's limits to those of a log. Reads also check the limits, so a delayed deletion has no
// effect. The stream retains one more entry than MaxCount allows, for the proof of the last evicted position.
func setLimits(c *jetstream.StreamConfig, o store.LogOptions) {
	c.MaxAge, c.MaxMsgs = 0, -1
	c.Metadata[metaAge], c.Metadata[metaCount] = o.MaxAge.String(), strconv.Itoa(o.MaxCount)
	if o.MaxAge > 0 {
		c.MaxAge = o.MaxAge + evictionDelay
	}
	if o.MaxCount > 0 {
		c.MaxMsgs = int64(o.MaxCount) + 1
	}
}

// checkVersion returns an error if the stream has a different version.
func checkVersion(c *jetstream.StreamConfig) error {
	switch version := c.Metadata[metaVersion]; {
	case version == streamVersion:
		return nil
	case version != "":
		return fmt.Errorf("%w: a newer release made %s (version %s, this release knows %s); upgrade mcpe-gen", ErrVersion, c.Name, version, streamVersion)
	case c.Metadata["mcpe.form"] != "": // written by builds before the first release
		return fmt.Errorf("%w: %s was made by an unreleased build of mcpe-gen; delete it or use another Namespace", ErrVersion, c.Name)
	}
	return fmt.Errorf("%w: %s has metadata %v", ErrForeign, c.Name, c.Metadata)
}

// checkLogStream returns an error if the stream was not created by this package or was modified.
func (s *Store) checkLogStream(name, short string, info *jetstream.StreamInfo) error {
	c := &info.Config
	subject := s.o.Namespace + ".l." + short + "." + c.Metadata[metaEpoch] + ".*"
	if err := s.checkStream(c, subject); err != nil {
		return err
	}
	switch {
	case c.Metadata[metaLog] != name:
		return foreign(c, "the log", c.Metadata[metaLog])
	case c.Metadata[metaEpoch] == "":
		return foreign(c, "the subjects", c.Subjects)
	case c.MaxBytes > 0 || c.MaxMsgSize > 0 || c.MaxMsgsPerSubject > 0 || c.NoAck || c.Sealed || c.DenyDelete || !c.AllowDirect || !c.AllowAtomicPublish ||
		c.SubjectTransform != nil || c.RePublish == nil || c.RePublish.Source != subject || c.RePublish.HeadersOnly:
		return foreign(c, "other settings", fmt.Sprintf("than it was made with: MaxBytes %d, MaxMsgSize %d, MaxMsgsPerSubject %d, NoAck %v, Sealed %v, DenyDelete %v, "+
			"AllowDirect %v, AllowAtomicPublish %v, RePublish %+v", c.MaxBytes, c.MaxMsgSize, c.MaxMsgsPerSubject, c.NoAck, c.Sealed, c.DenyDelete, c.AllowDirect,
			c.AllowAtomicPublish, c.RePublish))
	}
	return nil
}

// checkStream returns an error if the settings that all streams share have changed.
func (s *Store) checkStream(c *jetstream.StreamConfig, subject string) error {
	if err := checkVersion(c); err != nil {
		return err
	}
	switch {
	case len(c.Subjects) != 1 || c.Subjects[0] != subject:
		return foreign(c, "the subjects", c.Subjects)
	case c.Storage != jetstream.FileStorage:
		return foreign(c, "the storage", c.Storage)
	case c.Retention != jetstream.LimitsPolicy || c.Discard != jetstream.DiscardOld:
		return foreign(c, "the retention", fmt.Sprint(c.Retention, " ", c.Discard))
	case c.Mirror != nil || len(c.Sources) > 0:
		return foreign(c, "a mirror or sources", "")
	case c.Replicas != s.replicas():
		return fmt.Errorf("%w: %s is on %d servers, not on %d", ErrReplicas, c.Name, c.Replicas, s.replicas())
	}
	return nil
}

// foreign returns the error for a stream that has an unexpected setting.
func foreign(c *jetstream.StreamConfig, what string, v any) error {
	return fmt.Errorf("%w: %s has %s %v", ErrForeign, c.Name, what, v)
}

// raftGroup returns the raft group of a stream, or "" without a cluster. A recreated or restored stream has a different
// group.
func raftGroup(info *jetstream.StreamInfo) string {
	if info.Cluster == nil {
		return ""
	}
	return info.Cluster.RaftGroup
}

// adjustedConfig returns the configuration that the stream should have, and whether it differs from the current one. It
// records the raft group of a new stream and sets the limits in o. It begins a new epoch if the raft group has changed
// or the stream has lost delivered entries.
func (s *Store) adjustedConfig(info *jetstream.StreamInfo, o store.LogOptions, lost bool) (want jetstream.StreamConfig, change bool) {
	want = info.Config
	if lost {
		s.beginEpoch(&want, info)
		change = true
	} else if was := want.Metadata[metaGroup]; was != raftGroup(info) {
		if was == "" {
			want.Metadata[metaGroup] = raftGroup(info)
		} else {
			s.beginEpoch(&want, info)
		}
		change = true
	}
	age, count, said := want.MaxAge, want.MaxMsgs, maps.Clone(want.Metadata)
	setLimits(&want, o)
	return want, change || want.MaxAge != age || want.MaxMsgs != count || want.Metadata[metaAge] != said[metaAge] || want.Metadata[metaCount] != said[metaCount]
}

// beginEpoch begins a new epoch of the stream. The epoch's token is derived from the previous token and the raft group,
// so concurrent processes compute the same token.
func (s *Store) beginEpoch(c *jetstream.StreamConfig, info *jetstream.StreamInfo) {
	before := c.Metadata[metaEpoch]
	sum := sha256.Sum256([]byte(before + " " + raftGroup(info)))
	kept := earlierOf(info)
	var list []string
	for _, e := range append(kept, earlierEpoch{before, store.Position(info.State.LastSeq)}) {
		if uint64(e.last) >= info.State.FirstSeq && e.last > 0 {
			list = append(list, e.token+":"+strconv.FormatUint(uint64(e.last), 10))
		}
	}
	c.Metadata[metaEarlier], c.Metadata[metaGroup] = strings.Join(list, ","), raftGroup(info)
	s.setEpoch(c, logToken(c.Metadata[metaLog]), hex.EncodeToString(sum[:8]))
	s.log.Error("jetstream: the stream was replaced; its log begins a new epoch", "log", c.Metadata[metaLog], "stream", c.Name)
}

func earlierOf(info *jetstream.StreamInfo) (found []earlierEpoch) {
	for part := range strings.SplitSeq(info.Config.Metadata[metaEarlier], ",") {
		token, last, _ := strings.Cut(part, ":")
		if n, err := strconv.ParseUint(last, 10, 64); err == nil && n >= info.State.FirstSeq {
			found = append(found, earlierEpoch{token, store.Position(n)})
		}
	}
	return found
}

// end makes all later calls on the log return engine.ErrNewEpoch.
func (l *Log) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended = true
		close(l.moved)
	}
}

// lastFault returns the error of the latest poll.
func (l *Log) lastFault() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault
}

// beginCall starts a call on the log.
func (l *Log) beginCall(ctx context.Context) (context.Context, func(), error) {
	ctx, done, err := l.s.beginCall(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := l.current(); err != nil {
		done()
		return nil, nil, err
	}
	return ctx, done, nil
}

func (l *Log) current() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return fmt.Errorf("log %s: %w", l.name, engine.ErrNewEpoch)
	}
	return nil
}

// Epoch implements [store.EventLog].
func (l *Log) Epoch() uint64 { return l.epoch }
