// Package jetstream stores a server's state in NATS JetStream (nats-server 2.15 or later). The state consists of event
// logs, webhook subscriptions, and the leases and owned state that the replicas of a cluster share (engine.Shared). Start
// with [Open].
//
// The store requires three nats-servers on three disks with sync_interval: always. An append takes 2 to 3 ms, and
// writes stall for 5 to 10 s when a server crashes. An append cannot be part of the author's SQL transaction. Unlike
// PostgreSQL, the server can lose data in known ways. Unless sync_interval is always, it acknowledges a message before
// the message is on disk, and clients cannot read that setting. The docs recommend PostgreSQL.
//
// Each log has a separate stream that stores only entries. Positions are sequence numbers of that stream. The subject
// of an entry is derived from its id and audience, and every publish includes the expected sequence for its subject. A
// late duplicate is therefore rejected, and the lookup of an existing id does not slow down as the log grows. Subjects
// contain the log's epoch, so no stream accepts an append for an earlier epoch.
//
// Client state is stored in a separate stream. All other state is in one stream, <NAMESPACE>_S, as the last message of
// each subject. Any server can return stale data, so a write includes the expected sequences of the records that it
// depends on, and several writes form one atomic batch. A result that is returned to the caller comes from a server that
// has received a message written after the request. An owner's batch also includes the expected sequence of the shard's
// hold, so a claim is ordered either before or after the batch.
//
// Leases must survive the crash of a nats-server, so set replicas.Options.Lease to 30 s. The clocks of the
// nats-servers must agree. Adding a subscription writes its record, its progress, its use of a URL and two counters.
// The whole cluster shares these counters and adds subscriptions one at a time. To restore the streams from a backup,
// stop the replicas, restore all streams and call [Store.BeginEpochs] before you start the replicas. In a cluster, the
// store immediately detects if only one stream was restored. On a single server, the store detects this only if the
// restored stream lacks entries that were observed at least 10 s before the stream's former end.
//
// The package makes no compatibility promise.
package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/attemptlog"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/keylock"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

var (
	_ engine.Shared             = (*Store)(nil)
	_ engine.Attempts           = (*Store)(nil)
	_ store.Pinger              = (*Store)(nil)
	_ clientstore.CursorStore   = (*Store)(nil)
	_ clientstore.ReceivedStore = (*Store)(nil)
	_ clientstore.CallbackStore = (*Store)(nil)
	_ engine.Log                = (*Log)(nil)
)

// DefaultNamespace is the namespace that a store uses if Options.Namespace is empty.
const DefaultNamespace = "mcpe"

const (
	// replicaCount is the number of servers that store a stream, unless Options.Single is set.
	replicaCount = 3
	// callTimeout is how long a call waits for unresponsive servers, even if its context allows more time. An election
	// takes 5 to 10 s.
	callTimeout = 15 * time.Second
	// requestTimeout is the timeout of a single request within a call.
	requestTimeout = 2 * time.Second
)

// Options configure [Open]. The zero value is safe for production.
type Options struct {
	// Namespace is the prefix of the store's subjects and, in upper case, of its stream names. It consists of 1 to 32
	// lower-case letters and digits and begins with a letter. The default is [DefaultNamespace]. Clusters of replicas
	// that share an account need different namespaces.
	Namespace string
	// Single stores each stream on one server instead of three. It is intended for tests and development, and Open logs
	// a warning.
	Single bool
	// Poll is how often each log polls for entries of other processes; the default is 1 s. Polling finds entries whose
	// notifications were lost. A poll takes one round trip to the stream's servers and writes nothing. A process starts
	// at most 256 polls per second.
	Poll time.Duration
	// Key encrypts the secrets of webhook subscriptions and callbacks at rest with AES-GCM. It must have 16, 24 or 32
	// bytes, and the operator must store it elsewhere. Every process needs the same key. Without a key, secrets are
	// stored in plain text. A store created with a key can be opened only with that key, and a store created without a
	// key does not accept one.
	Key []byte
	// Monitors are the monitoring URLs of all nats-servers, such as http://nats-1:8222. Open uses them to check that
	// each server syncs messages to disk before it acknowledges them (sync_interval: always), because clients cannot
	// read that setting. It logs a warning for each server that does not sync or does not respond. Without Monitors, it
	// logs a warning that the setting is unknown.
	Monitors []string
	// RequireSync makes Open return [ErrServer] instead of logging these warnings.
	RequireSync bool
	// Connect contains connection options, such as TLS and credentials.
	Connect []nats.Option
	// Logger is used for messages to operators; the default is [slog.Default].
	Logger *slog.Logger
}

// A Store keeps its state in the streams of a NATS account. It is safe for concurrent use by multiple goroutines.
type Store struct {
	o     Options
	log   *slog.Logger
	write *nats.Conn // requests
	tail  *nats.Conn // republished messages; separate, so that a burst of them delays no answer
	clock clock
	box   sealed.Box
	me    string // a token of this process

	state      *recordStream
	client     atomic.Pointer[recordStream] // client state; nil until it is first used
	generation atomic.Uint64                // of the store, as last seen
	expelled   atomic.Uint64                // the generation in which earlier holds were ended
	cluster    follower
	locks      keylock.Locks[string]
	warn       sync.Once // once, about short leases
	list       idList    // guarded by the lock "list"
	trimmer    attemptlog.Trimmer

	life  context.Context // ends with Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	mu     sync.Mutex
	closed bool
	logs   map[string]*Log      // by name
	named  map[string]*Log      // by the token in their subjects
	denied map[string]time.Time // by subject, when the server last denied a publish
	// the last subject that the user may not subscribe to; "" for none
	unheard string
	fault   error // from the last check of the state; nil if none

	lose func(*nats.Msg) bool // for tests: reports whether to drop the answer to a request; may be nil
	slow func()               // for tests: runs between the reads of a change and its writes; may be nil
	// for tests: reports whether the server that answers a direct read has no messages; may be nil
	behind func() bool
	// for tests: reports whether a server that has just started denies having the stream; may be nil
	absent func(stream string) bool
}

var namespace = regexp.MustCompile(`^[a-z][a-z0-9]{0,31}$`)

// Open connects to the servers at url, a comma-separated list of URLs. It returns [ErrConfig] for invalid
// options, [ErrUnreachable] if the servers or JetStream do not respond, and [ErrServer] if a server is older than 2.15.
// Unless Single is set, it returns [ErrReplicas] if the server is not in a cluster. See Options.RequireSync for the
// durability check.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	if err = ctx.Err(); err == nil {
		err = s.open(ctx, url)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	s.tasks.Go(s.poll)
	s.tasks.Go(s.watch)
	return s, nil
}

// newStore returns a store that is not yet connected.
func newStore(o Options) (*Store, error) {
	s := &Store{o: o, logs: map[string]*Log{}, named: map[string]*Log{}, denied: map[string]time.Time{}}
	s.o.Namespace = cmp.Or(s.o.Namespace, DefaultNamespace)
	s.o.Poll = cmp.Or(s.o.Poll, time.Second)
	s.log = cmp.Or(o.Logger, slog.Default())
	switch {
	case !namespace.MatchString(s.o.Namespace):
		return nil, fmt.Errorf("%w: Namespace %q is not 1 to 32 lower-case letters and digits, the first a letter", ErrConfig, s.o.Namespace)
	case s.o.Poll < 0:
		return nil, fmt.Errorf("%w: Poll is %v", ErrConfig, s.o.Poll)
	}
	var err error
	if s.box, err = sealed.New(o.Key); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	s.me = nonce()
	s.state = s.newRecordStream("s", proofs)
	s.life, s.end = context.WithCancel(context.Background())
	return s, nil
}

func (s *Store) open(ctx context.Context, url string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if s.write, err = s.connect(url); err != nil {
		return err
	}
	if s.tail, err = s.connect(url); err != nil {
		return err
	}
	if err := checkServerVersion(s.write.ConnectedServerVersion()); err != nil {
		return err
	}
	if s.o.Single {
		s.log.Warn("jetstream: each stream is on one server and its one disk", "namespace", s.o.Namespace)
	} else if s.write.ConnectedClusterName() == "" {
		return fmt.Errorf("%w: the server is not in a cluster; set Single to allow that", ErrReplicas)
	}
	if most := s.write.MaxPayload(); most < payloadWarn {
		s.log.Warn("jetstream: max_payload of the servers is small: an event that is larger with its headers is refused; set 1MB", "bytes", most)
	}
	if err := s.callAPI(ctx, "INFO", nil, nil); err != nil {
		return err
	}
	if err := s.checkDurability(ctx); err != nil {
		return err
	}
	if _, err := s.tail.Subscribe(s.o.Namespace+".t.*.*", s.handleRepublished); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if err := s.tail.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if subject, denied := deniedSubject(s.tail.LastError(), true); denied {
		return fmt.Errorf("%w: to subscribe to %s", ErrRights, subject)
	}
	return s.setUp(ctx)
}

func (s *Store) connect(url string) (*nats.Conn, error) {
	conn, err := nats.Connect(url, append([]nats.Option{
		nats.Name("mcpe"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectBufSize(-1), // a message is either sent or known to be unsent
		nats.ErrorHandler(s.handleError),
		nats.ReconnectHandler(func(*nats.Conn) { s.pollAll() }),
	}, s.o.Connect...)...)
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired):
		return nil, fmt.Errorf("%w: %w", ErrRights, err)
	}
	return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// checkServerVersion returns an error for a server older than 2.15. The store relies on behavior that was verified only
// for 2.15 and later.
func checkServerVersion(version string) error {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) == 3 {
		major, err1 := strconv.Atoi(parts[0])
		minor, err2 := strconv.Atoi(parts[1])
		if err1 == nil && err2 == nil && (major > 2 || major == 2 && minor >= 15) {
			return nil
		}
	}
	return fmt.Errorf("%w: nats-server is %q, but 2.15 or later is required", ErrServer, version)
}

// handleError handles an asynchronous connection error.
func (s *Store) handleError(_ *nats.Conn, sub *nats.Subscription, err error) {
	if subject, ok := deniedSubject(err, true); ok {
		s.mu.Lock()
		s.unheard = subject
		s.mu.Unlock()
	}
	if subject, ok := deniedSubject(err, false); ok {
		s.mu.Lock()
		if len(s.denied) > 1000 {
			clear(s.denied)
		}
		s.denied[subject] = time.Now()
		s.mu.Unlock()
	}
	s.log.Warn("jetstream: the connection failed", "error", err)
	if sub != nil {
		s.pollAll() // a slow consumer has lost messages
	}
}

// pollAll polls every log and the state for changes whose notifications were lost.
func (s *Store) pollAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.unheard = "" // the server repeats a denial that still holds
	for _, l := range s.logs {
		s.tasks.Go(func() { l.pollInBackground() })
	}
	s.tasks.Go(s.watchGeneration)
}

// startTask runs f in a goroutine that Close waits for. It returns false if the store is closed.
func (s *Store) startTask(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.tasks.Go(f)
	}
	return !s.closed
}

// Durable implements [store.Store].
func (s *Store) Durable() bool { return true }

// Ping implements [store.Pinger]. It checks that the state stream accepts writes. If the latest poll of the state or of
// an open log failed, it returns that error.
func (s *Store) Ping(ctx context.Context) error {
	ctx, done, err := s.beginCall(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := s.subscribeError(); err != nil {
		return err
	}
	s.mu.Lock()
	err = s.fault
	for _, l := range s.logs {
		if err == nil {
			err = l.lastFault()
		}
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.wrapClosed(s.checkQuorum(ctx, s.state.stream))
}

// Close implements [store.Store]. It waits until all goroutines of the store have ended.
func (s *Store) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	if again {
		return nil
	}
	s.end()
	for _, c := range []*nats.Conn{s.write, s.tail} {
		if c != nil {
			c.Close()
		}
	}
	s.tasks.Wait()
	return nil
}

// beginCall starts a call. It returns a context that is also canceled when the store is closed.
func (s *Store) beginCall(ctx context.Context) (_ context.Context, done func(), err error) {
	if s.life.Err() != nil {
		return nil, nil, store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.life, cancel)
	return ctx, func() { stop(); cancel() }, nil
}

// wrapClosed returns the error of a failed call. If Close interrupted the call, the error also matches ErrClosed.
func (s *Store) wrapClosed(err error) error {
	if err != nil && s.life.Err() != nil {
		return fmt.Errorf("%w: %w", store.ErrClosed, err)
	}
	return err
}

// A clock estimates the servers' time. It starts from the latest time reported by a leader, advances with this
// process's monotonic clock, and never goes backwards.
type clock struct {
	mu    sync.Mutex
	base  time.Time // the latest time that a leader reported
	at    time.Time // when base was reported, by this process's clock
	asked time.Time // when a leader last reported a time

	older func(stamp time.Time) time.Duration // for tests: by how much to age a stamp; nil if none
}

// appendTime returns the time at which a message was appended, by its leader's clock.
func (c *clock) appendTime(at time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.older != nil && !at.IsZero() {
		return at.Add(-c.older(at))
	}
	return at
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.is()
}

func (c *clock) is() time.Time { return c.base.Add(time.Since(c.at)) }

// heardWithin reports whether a leader has reported its time within the given duration.
func (c *clock) heardWithin(within time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.asked) < within
}

// observe updates the clock with a time reported by a leader. It returns how far that time was ahead of the clock, or 0
// for the first report.
func (c *clock) observe(t time.Time) (ahead time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = time.Now()
	if c.base.IsZero() {
		c.base, c.at = t, time.Now()
		return 0
	}
	if ahead = t.Sub(c.is()); ahead > 0 {
		c.base, c.at = t, time.Now()
	}
	return max(ahead, 0)
}
