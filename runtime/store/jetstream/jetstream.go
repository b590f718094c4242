// Package jetstream keeps a server's state in NATS JetStream, nats-server 2.15 or later: logs of event types, webhook
// subscriptions, and what the replicas of a cluster owe each other (engine.Shared). Start with [Open].
//
// The trade: three nats-servers on three disks with sync_interval: always, 2 to 3 ms an append, writes that stand
// still for 5 to 10 s when a server crashes, no place in the author's SQL transaction, and losses known of the server
// that PostgreSQL does not have: it acknowledges before the disk has the data unless sync_interval says always, which
// clients are not told. PostgreSQL stays what the docs recommend.
//
// A log is a stream of its own; a position is a sequence of it, and nothing but entries is ever stored there. Each
// entry has a subject of its own by its id and audience, and every publish carries an expectation on it, so that a
// copy that comes late is refused and an id that stands is found, in a time that does not grow with the log. The
// subjects name the log's epoch: an append under an epoch that is over meets no stream.
//
// Everything else lies in one stream, <NAMESPACE>_S, as the last messages of subjects; operators' actions and what
// clients keep have one each. Nothing there is decided by what was read, which any server may answer from an older
// state: a write carries the sequence of what it rests on, and several are one atomic batch. An answer that is final by
// itself comes from a server that has shown a message that was written after the question. An owner's batch rests on
// its hold besides, so that a claim comes before it or after it.
//
// Leases have to outlast the crash of a server, so Options.Replica.Lease of a server should be 30 s. The servers'
// clocks have to agree. A subscription takes four messages: its record, its progress, its use of a URL, and a part of
// two counters, which new subscriptions of a whole cluster take turns at. To put back an older copy of the streams, stop
// the replicas, put it back and call [Store.BeginEpochs] before you start them. The store notices if only one stream was
// put back: in a cluster immediately, on one server if it lacks what was seen of it 10 s before the end.
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

// DefaultNamespace is the namespace of a store whose options name none.
const DefaultNamespace = "mcpe"

const (
	// replicas is how many servers keep a stream that is not Single.
	replicas = 3
	// patience bounds how long a call waits for servers that do not answer, whatever its context allows: an
	// election takes 5 to 10 s.
	patience = 15 * time.Second
	// oneTry bounds one request of it.
	oneTry = 2 * time.Second
)

// Options configure [Open]. The zero value is the safe one.
type Options struct {
	// Namespace begins the store's subjects, and in upper case the names of its streams: 1 to 32 lower-case
	// letters and digits, the first a letter; default [DefaultNamespace]. Clusters of replicas that share an
	// account differ by it.
	Namespace string
	// Single keeps each stream on one server and its one disk instead of three. It is for tests and for
	// development; Open warns of it.
	Single bool
	// Poll is how often each log looks for what others have appended, whatever it was told of; default 1 s. A look is
	// a round of the stream's servers that writes nothing; at most 256 begin in a second.
	Poll time.Duration
	// Key encrypts the secrets of webhook subscriptions and callbacks at rest with AES-GCM: 16, 24 or 32 bytes that the
	// operator keeps elsewhere. Every process needs the same. Without it secrets lie in the streams as they are. A store
	// that was made with a key opens only with that key, and one that was made without takes none.
	Key []byte
	// Monitors are the URLs of all nats-servers' monitoring, such as http://nats-1:8222. Open asks them whether what a server
	// acknowledges is on its disk (sync_interval: always), which clients are not told, and warns of each that says no or
	// does not answer. Without them it warns that this is not known.
	Monitors []string
	// RequireSync has Open return [ErrServer] in place of that warning.
	RequireSync bool
	// Connect are options of the connections, such as TLS and credentials.
	Connect []nats.Option
	// Logger is told of what an operator should know; default [slog.Default].
	Logger *slog.Logger
}

// A Store keeps its state in streams of one account. It is safe for concurrent use.
type Store struct {
	o     Options
	log   *slog.Logger
	write *nats.Conn // requests
	tail  *nats.Conn // what was republished, so that a burst of it delays no answer
	clock clock
	box   sealed.Box
	me    string // a token of this process

	state, actions *records
	client         atomic.Pointer[records] // what clients keep; nil until something is
	generation     atomic.Uint64           // of the life that is known
	expelled       atomic.Uint64           // the generation in which holds of before were ended
	cluster        follower
	locks          keylock.Locks[string]
	warn           sync.Once // of short leases
	list           list      // guarded by the lock "list"
	trimmer        attemptlog.Trimmer

	life  context.Context // ends with Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	mu     sync.Mutex
	closed bool
	logs   map[string]*Log      // by name
	named  map[string]*Log      // by the token of their subjects
	denied map[string]time.Time // by subject, when a right was last missing
	// the last subject that the user may not subscribe to; "" for none
	unheard string
	fault   error // what the last look at the state found wrong

	lose func(*nats.Msg) bool // for tests: tells that the answer to it does not come; nil for none
	slow func()               // for tests: between what a change has read and its writes; nil for none
	// for tests: tells that the server that answers a direct read has nothing yet; nil for never
	behind func() bool
	// for tests: tells that a server that has just started answers that it has no such stream; nil for never
	absent func(stream string) bool
}

var namespace = regexp.MustCompile(`^[a-z][a-z0-9]{0,31}$`)

// Open connects to the servers at url, which are several with commas between them. It returns [ErrConfig] for bad
// options, [ErrUnreachable] where no server or no JetStream answers, [ErrServer] for a server older than 2.15 and
// [ErrReplicas] for one that is in no cluster, unless Single is set. See RequireSync for what it says of disks.
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

// blank is a store without connections.
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
		nats.ReconnectBufSize(-1), // what is not sent is known to be not sent
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

// fits refuses a server older than 2.15, below which the facts that this package rests on are not shown.
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

// failed is told by a connection of what belongs to no call.
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

// again lets every log look for what it was not told.
func (s *Store) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.unheard = "" // what is still denied is said again
	for _, l := range s.logs {
		s.tasks.Go(func() { l.lookAlone() })
	}
	s.tasks.Go(s.watchLife)
}

// goes runs f until Close waits for it; false when the store is closed.
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

// Ping implements [store.Pinger]: it proves that the state takes writes, and returns what the last looks at it and at the
// open logs have found wrong.
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

// Close implements [store.Store]. It returns once nothing of the store runs any more.
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

// begin is the beginning of a call: its context ends with the store.
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

// because is the error of a call: of one that Close has ended, ErrClosed.
func (s *Store) because(err error) error {
	if err != nil && s.life.Err() != nil {
		return fmt.Errorf("%w: %w", store.ErrClosed, err)
	}
	return err
}

// A clock is the servers': it stands on what a leader said and goes on by this process's, never back.
type clock struct {
	mu    sync.Mutex
	base  time.Time // as a leader said
	at    time.Time // when, by this process's clock
	asked time.Time // when a leader last said a time

	older func(stamp time.Time) time.Duration // for tests: by how much what was stamped then has been made older; nil for none
}

// stamped is when something was appended, by its leader's stamp.
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

// heard tells that a leader said a time within that long.
func (c *clock) heard(within time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.asked) < within
}

// hear takes a leader's time and returns by how much it is ahead of what was known, 0 of the first.
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
