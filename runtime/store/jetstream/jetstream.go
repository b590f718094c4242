// Package jetstream keeps a server's state in NATS JetStream, nats-server 2.15 or later. The state includes the logs
// of event types, webhook subscriptions, and the leases, owned state and actions that replicas of a cluster share
// (engine.Shared). Start with [Open].
//
// Trade-offs: it needs three nats-servers on three disks with sync_interval: always. An append takes 2 to 3 ms, and
// writes stall for 5 to 10 s when a server crashes. An append cannot join the author's SQL transaction. The server
// has known ways to lose data that PostgreSQL does not have: unless sync_interval says always, it acknowledges a
// message before the message is on disk, and clients cannot see that setting. The docs recommend PostgreSQL.
//
// Each log has a separate stream, which stores nothing but entries; a position is a sequence of that stream. The
// subject of an entry is derived from its id and audience, and every publish carries an expected sequence for its
// subject. A duplicate that arrives late is therefore refused, and an existing id is found in a time that does not
// grow with the log. The subjects name the log's epoch: no stream accepts an append under an earlier epoch.
//
// All other state is in one stream, <NAMESPACE>_S, as the last message of each subject; operators' actions and client
// state have a stream each. Any server may answer a read from an old state, so no decision rests on a read: a write
// carries the sequences of the records that it depends on, and several writes form one atomic batch. A read whose
// answer is final comes from a server that has shown a message written after the request. An owner's batch also
// expects the sequence of the shard's hold, so that a claim comes either before or after it.
//
// Leases must outlast the crash of a nats-server: set server.Options.Replica.Lease to 30 s. The clocks of the
// nats-servers must agree. A subscription takes four messages: its record, its progress, its use of a URL, and a
// share of two counters, which new subscriptions of the whole cluster update one at a time. To restore the streams
// from a backup, stop the replicas, restore all streams and call [Store.BeginEpochs] before you start the replicas.
// The store notices if only one stream was restored: in a cluster immediately, on a single server if the stream lacks
// entries that were seen in it 10 s before the end.
//
// The package makes no promise of compatibility.
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
	_ engine.Actions            = (*Store)(nil)
	_ store.Pinger              = (*Store)(nil)
	_ clientstore.CursorStore   = (*Store)(nil)
	_ clientstore.ReceivedStore = (*Store)(nil)
	_ clientstore.CallbackStore = (*Store)(nil)
	_ engine.Log                = (*Log)(nil)
)

// DefaultNamespace is the namespace of a store if Options.Namespace is empty.
const DefaultNamespace = "mcpe"

const (
	// replicas is the number of servers that keep a stream, unless Options.Single is set.
	replicas = 3
	// patience bounds how long a call waits for servers that do not answer, whatever its context allows. An election
	// takes 5 to 10 s.
	patience = 15 * time.Second
	// oneTry bounds one request of a call.
	oneTry = 2 * time.Second
)

// Options configure [Open]. The zero value is safe for production.
type Options struct {
	// Namespace is the prefix of the store's subjects and, in upper case, of its streams' names. It has 1 to 32
	// lower-case letters and digits, the first a letter; default [DefaultNamespace]. Clusters of replicas that share
	// an account need different namespaces.
	Namespace string
	// Single keeps each stream on one server and its disk instead of three. It is meant for tests and development;
	// Open logs a warning.
	Single bool
	// Poll is how often each log looks for entries of other processes; default 1 s. Looks find entries whose
	// notifications were lost. A look is one round trip to the stream's servers and writes nothing. A process starts
	// at most 256 looks per second.
	Poll time.Duration
	// Key encrypts the secrets of webhook subscriptions and callbacks at rest with AES-GCM. It has 16, 24 or 32
	// bytes, which the operator keeps elsewhere. Every process needs the same key. Without one, secrets are stored in
	// plain text. A store that was created with a key opens only with that key, and a store that was created without
	// one accepts none.
	Key []byte
	// Monitors are the monitoring URLs of all nats-servers, such as http://nats-1:8222. Open checks there that each
	// server syncs messages to disk before it acknowledges them (sync_interval: always), which clients cannot see,
	// and warns about each server that does not sync or does not answer. Without Monitors it warns that the setting
	// is unknown.
	Monitors []string
	// RequireSync makes Open return [ErrServer] instead of these warnings.
	RequireSync bool
	// Connect holds options of the connections, such as TLS and credentials.
	Connect []nats.Option
	// Logger receives messages meant for operators; default [slog.Default].
	Logger *slog.Logger
}

// A Store keeps its state in streams of one account. It is safe for concurrent use by multiple goroutines.
type Store struct {
	o     Options
	log   *slog.Logger
	write *nats.Conn // requests
	tail  *nats.Conn // republished messages; separate, so that a burst of them delays no answer
	clock clock
	box   sealed.Box
	me    string // a token of this process

	state, actions *records
	client         atomic.Pointer[records] // client state; nil until it is first used
	generation     atomic.Uint64           // of the store, as last seen
	expelled       atomic.Uint64           // the generation in which earlier holds were ended
	cluster        follower
	locks          keylock.Locks[string]
	warn           sync.Once // once, about short leases
	list           list      // guarded by the lock "list"
	trimmer        attemptlog.Trimmer

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
	fault   error // found by the last look at the state; nil for none

	lose func(*nats.Msg) bool // for tests: reports whether to drop the answer to a request; may be nil
	slow func()               // for tests: runs between the reads of a change and its writes; may be nil
	// for tests: reports whether the server that answers a direct read has no messages; may be nil
	behind func() bool
	// for tests: reports whether a server that has just started denies having the stream; may be nil
	absent func(stream string) bool
}

var namespace = regexp.MustCompile(`^[a-z][a-z0-9]{0,31}$`)

// Open connects to the servers at url, a list of URLs separated by commas. It returns [ErrConfig] for invalid
// options, [ErrUnreachable] if no server or no JetStream answers, [ErrServer] for a server older than 2.15 and,
// unless Single is set, [ErrReplicas] for a server that is not in a cluster. See Options.RequireSync for the check of
// disks.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	s, err := blank(o)
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

// blank returns a store without connections.
func blank(o Options) (*Store, error) {
	s := &Store{o: o, logs: map[string]*Log{}, named: map[string]*Log{}, denied: map[string]time.Time{}}
	s.o.Namespace = cmp.Or(s.o.Namespace, DefaultNamespace)
	s.o.Poll = cmp.Or(s.o.Poll, time.Second)
	if s.log = o.Logger; s.log == nil {
		s.log = slog.Default()
	}
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
	s.state, s.actions = s.records("s", proofs), s.records("a", "")
	s.life, s.end = context.WithCancel(context.Background())
	return s, nil
}

func (s *Store) open(ctx context.Context, url string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if s.write, err = s.connect(url); err != nil {
		return err
	}
	if s.tail, err = s.connect(url); err != nil {
		return err
	}
	if err := fits(s.write.ConnectedServerVersion()); err != nil {
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
	if err := s.api(ctx, "INFO", nil, nil); err != nil {
		return err
	}
	if err := s.durable(ctx); err != nil {
		return err
	}
	if _, err := s.tail.Subscribe(s.o.Namespace+".t.*.*", s.told); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if err := s.tail.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if subject, denied := deniedSubject(s.tail.LastError(), true); denied {
		return fmt.Errorf("%w: to subscribe to %s", ErrRights, subject)
	}
	return s.enter(ctx)
}

func (s *Store) connect(url string) (*nats.Conn, error) {
	conn, err := nats.Connect(url, append([]nats.Option{
		nats.Name("mcpe"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectBufSize(-1), // a message is either sent or known to be unsent
		nats.ErrorHandler(s.failed),
		nats.ReconnectHandler(func(*nats.Conn) { s.again() }),
	}, s.o.Connect...)...)
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired):
		return nil, fmt.Errorf("%w: %w", ErrRights, err)
	}
	return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// fits refuses a server older than 2.15: the store relies on behavior that was verified from that version on.
func fits(version string) error {
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

// failed handles an asynchronous error of a connection.
func (s *Store) failed(_ *nats.Conn, sub *nats.Subscription, err error) {
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
		s.again() // a slow consumer has lost messages
	}
}

// again makes every log and the state look for changes whose notifications were lost.
func (s *Store) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.unheard = "" // the server repeats a denial that still holds
	for _, l := range s.logs {
		s.tasks.Go(func() { l.lookAlone() })
	}
	s.tasks.Go(s.watchLife)
}

// goes starts f as a task that Close waits for. It returns false if the store is closed.
func (s *Store) goes(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.tasks.Go(f)
	}
	return !s.closed
}

// Durable implements [store.Store].
func (s *Store) Durable() bool { return true }

// Ping implements [store.Pinger]. It proves that the state takes writes, and returns the faults that the last looks
// at the state and at the open logs have found.
func (s *Store) Ping(ctx context.Context) error {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := s.deaf(); err != nil {
		return err
	}
	s.mu.Lock()
	err = s.fault
	for _, l := range s.logs {
		if err == nil {
			err = l.wrong()
		}
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.because(s.barrier(ctx, s.state.stream))
}

// Close implements [store.Store]. It returns once all goroutines of the store have ended.
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

// begin starts a call: the context that it returns also ends when the store is closed.
func (s *Store) begin(ctx context.Context) (_ context.Context, done func(), err error) {
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

// because returns the error of a call; if Close interrupted the call, the error matches ErrClosed.
func (s *Store) because(err error) error {
	if err != nil && s.life.Err() != nil {
		return fmt.Errorf("%w: %w", store.ErrClosed, err)
	}
	return err
}

// A clock follows the servers' clocks. It takes the latest time that a leader reported, advances by this process's
// monotonic clock, and never goes back.
type clock struct {
	mu    sync.Mutex
	base  time.Time // the latest time that a leader reported
	at    time.Time // when base was reported, by this process's clock
	asked time.Time // when a leader last reported a time

	older func(stamp time.Time) time.Duration // for tests: by how much to age a stamp; nil if none
}

// stamped returns when a message was appended, by its leader's clock.
func (c *clock) stamped(at time.Time) time.Time {
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

// heard reports whether a leader has reported a time within the given duration.
func (c *clock) heard(within time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.asked) < within
}

// hear takes a time that a leader reported and returns how far it is ahead of the clock; 0 for the first.
func (c *clock) hear(t time.Time) (ahead time.Duration) {
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
