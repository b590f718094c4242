// Package jetstream keeps the logs of event types in NATS JetStream, nats-server 2.15 or later. Start with [Open].
//
// The trade: three nats-servers on three disks with sync_interval: always, 2 to 3 ms an append, writes that stand
// still for 5 to 10 s when a server crashes, and losses known of the server that PostgreSQL does not have: it
// acknowledges before the disk has the data unless sync_interval says always, which clients are not told.
// PostgreSQL stays what the docs recommend.
//
// A log is a stream of its own; a position is a sequence of it, and nothing but entries is ever stored there. Each
// entry has a subject of its own by its id and audience, and every publish carries an expectation on it, so that a
// copy that comes late is refused and an id that stands is found, in a time that does not grow with the log. The
// subjects name the log's epoch: an append under an epoch that is over meets no stream.
//
// Several processes may append to a log and follow it: a [Log] is an [engine.Log]. The store has no leases,
// subscriptions, cursors or outbox yet, so it is no engine.Shared, and a server treats it as its own alone: for
// webhooks and for replicas take package postgres. The package makes no promise of compatibility.
package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

var (
	_ store.Pinger = (*Store)(nil)
	_ store.Store  = (*Store)(nil)
	_ engine.Log   = (*Log)(nil)
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
	// Connect are options of the connections, such as TLS and credentials.
	Connect []nats.Option
	// Logger is told of what an operator should know; default [slog.Default].
	Logger *slog.Logger
}

// A Store keeps logs in streams of one account. It is safe for concurrent use.
type Store struct {
	o     Options
	log   *slog.Logger
	write *nats.Conn // requests
	tail  *nats.Conn // what was republished, so that a burst of it delays no answer
	clock clock

	life  context.Context // ends with Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	mu     sync.Mutex
	closed bool
	logs   map[string]*Log      // by name
	named  map[string]*Log      // by the token of their subjects
	denied map[string]time.Time // by subject, when a right was last missing
}

var namespace = regexp.MustCompile(`^[a-z][a-z0-9]{0,31}$`)

// Open connects to the servers at url, which are several with commas between them. It returns [ErrConfig] for bad
// options, [ErrUnreachable] where no server or no JetStream answers, [ErrServer] for a server older than 2.15 and
// [ErrReplicas] for one that is in no cluster, unless Single is set.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	s := &Store{o: o, logs: map[string]*Log{}, named: map[string]*Log{}, denied: map[string]time.Time{}}
	if s.o.Namespace == "" {
		s.o.Namespace = DefaultNamespace
	}
	if s.o.Poll == 0 {
		s.o.Poll = time.Second
	}
	if s.log = o.Logger; s.log == nil {
		s.log = slog.Default()
	}
	switch {
	case !namespace.MatchString(s.o.Namespace):
		return nil, fmt.Errorf("%w: Namespace %q is not 1 to 32 lower-case letters and digits, the first a letter", ErrConfig, s.o.Namespace)
	case s.o.Poll < 0:
		return nil, fmt.Errorf("%w: Poll is %v", ErrConfig, s.o.Poll)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.life, s.end = context.WithCancel(context.Background())
	if err := s.open(ctx, url); err != nil {
		s.Close()
		return nil, err
	}
	s.tasks.Go(s.poll)
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
	if err := s.api(ctx, "INFO", nil, nil); err != nil {
		return err
	}
	if _, err := s.tail.Subscribe(s.o.Namespace+".t.*.*", s.told); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if err := s.tail.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return nil
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
	if subject, ok := deniedSubject(err); ok {
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
	for _, l := range s.logs {
		s.tasks.Go(func() { l.lookAlone() })
	}
}

// Durable implements [store.Store].
func (s *Store) Durable() bool { return true }

// Ping implements [store.Pinger]: it proves that the streams of the open logs take writes, by one of them, and returns
// what the last look at any of them has found wrong.
func (s *Store) Ping(ctx context.Context) error {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	var one *Log
	s.mu.Lock()
	for _, l := range s.logs {
		one = l
		if err = l.wrong(); err != nil {
			break
		}
	}
	s.mu.Unlock()
	switch {
	case err != nil:
		return err
	case one != nil:
		return s.because(s.barrier(ctx, one.stream))
	}
	return s.because(s.api(ctx, "INFO", nil, nil))
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
	mu   sync.Mutex
	base time.Time // as a leader said
	at   time.Time // when, by this process's clock

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

// hear takes a leader's time and returns by how much it is ahead of what was known, 0 of the first.
func (c *clock) hear(t time.Time) (ahead time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.base.IsZero() {
		c.base, c.at = t, time.Now()
		return 0
	}
	if ahead = t.Sub(c.is()); ahead > 0 {
		c.base, c.at = t, time.Now()
	}
	return max(ahead, 0)
}
