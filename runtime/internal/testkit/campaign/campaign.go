package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

const (
	// principal is the bearer token and user ID of all consumers.
	principal = "alice"
	// answerTime is the timeout of a request.
	answerTime = 4 * time.Second
	// settleTime is the maximum time after the last fault within which everything must arrive.
	settleTime = time.Minute
)

// Settings configure a campaign.
type Settings struct {
	// Start starts the database at the beginning of the campaign. dir is the directory for its logs.
	Start func(ctx context.Context, dir string) (Database, error)

	Time                               time.Duration
	Late                               time.Duration // how much longer than planned the faults may take
	Kills, Stops                       int           // of replicas
	Lease                              time.Duration // of a replica
	Deploy                             bool          // with a rolling deploy and a rollback
	Pollers, Streams, Typed, Receivers int
	Guests                             int           // with temporary webhook subscriptions, if there are receivers
	Emitters                           int           // every second one emits in transactions, if the engine supports them
	Transactions                       bool          // the engine has an outbox
	Pause                              time.Duration // of an emitter
	Restores                           int           // rounds, each with an older backup, instead of faults
	First                              bool          // stop at the first finding
	Dir                                string        // for the replicas' logs
	Program                            string        // of the replicas
	Env                                []string      // for the replicas
}

// fullTime is the duration of a full campaign.
const fullTime = 5 * time.Minute

// Scale scales the fault count of a full campaign to the time available. The result is at least 1.
func Scale(n int, d time.Duration) int {
	return max(1, int(float64(n)*min(1, d.Seconds()/fullTime.Seconds())))
}

// Full returns the settings of a full campaign, with counts scaled to the time available.
func Full(d time.Duration) Settings {
	return Settings{
		Time: d, Late: d, Kills: Scale(200, d), Stops: Scale(20, d), Lease: 4 * time.Second, Deploy: true, Guests: 6,
		Pollers: 4, Streams: 8, Typed: 3, Receivers: 4, Emitters: 4, Transactions: true, Pause: 40 * time.Millisecond,
	}
}

// A Campaign is a cluster with its consumers and faults.
type Campaign struct {
	Settings
	db        Database
	slots     []*Slot
	balancer  *httptest.Server
	reception *reception
	hc        *http.Client
	ledger    *ledger
	consumers []consumer
	newer     atomic.Bool // a replica of the next build is running
	abort     context.CancelFunc

	mu       sync.Mutex
	failures []error
	names    []string       // of faults, in order of the report
	done     map[string]int // faults, by name
	wanted   map[string]int
	windows  []window // in which deliveries may be repeated
	unleased []window // in which no replica can have a lease
	deaths   []death
	killed   []time.Time // regardless of the shards that the replica owned
}

// A window is a period with a fault of a slot or, if slot is nil, of the database.
type window struct {
	slot     *Slot
	from, to time.Time
	why      string
}

// A death records that the replica that owned the outbox was killed.
type death struct {
	at   time.Time
	next time.Time // when the first occurrence committed after it arrived
}

func (c *Campaign) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.failures) < 100 {
		c.failures = append(c.failures, err)
	}
	if c.First {
		c.abort()
	}
}

func (c *Campaign) happened(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done[what]++
}

// Run executes a campaign and returns its report. The error describes the findings.
func Run(ctx context.Context, s Settings) (rep *Report, err error) {
	c := &Campaign{Settings: s, ledger: newLedger(), done: map[string]int{}, wanted: map[string]int{},
		hc: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
	defer c.hc.CloseIdleConnections()
	ctx, c.abort = context.WithCancel(ctx)
	defer c.abort()
	if c.db, err = s.Start(ctx, s.Dir); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.db.Stop()) }()
	callbacks := ""
	if s.Receivers > 0 {
		if c.reception, err = newReception(c.fail); err != nil {
			return nil, err
		}
		defer c.reception.server.Close()
		callbacks = c.reception.server.URL
	}
	if err := c.createSlots(callbacks); err != nil {
		return nil, err
	}
	defer func() {
		for _, s := range c.slots {
			s.kill()
			err = errors.Join(err, s.log.(io.Closer).Close())
		}
	}()
	var addrs []string
	for _, s := range c.slots {
		if err := s.start(ctx); err != nil {
			return nil, err
		}
		addrs = append(addrs, s.options.addr)
	}
	c.balancer = httptest.NewServer(newBalancer(addrs))
	defer c.balancer.Close()
	if err := c.subscribe(ctx); err != nil {
		return nil, err
	}
	if c.Restores > 0 {
		return nil, c.runRestores(ctx)
	}
	return c.drive(ctx)
}

// Replicas is the number of replicas in the cluster.
const Replicas = 3

// clockOffset is the environment variable that contains the clock offset of a replica in seconds. It affects only
// replicas built by make cluster (build/main.go). clocks contains the offsets for the slots.
const clockOffset = "MCPE_CAMPAIGN_CLOCK"

var clocks = [Replicas]time.Duration{-time.Hour, 0, 2 * time.Hour}

// createSlots creates the slots, each with an address and a log.
func (c *Campaign) createSlots(callbacks string) error {
	for i := range Replicas {
		// All listeners stay open until every slot has one, so that addresses differ; a slot reuses its address.
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer ln.Close()
		log, err := os.Create(filepath.Join(c.Dir, fmt.Sprintf("replica%d.log", i)))
		if err != nil {
			return err
		}
		env := append(slices.Clone(c.Env), fmt.Sprintf("%s=%d", clockOffset, int(clocks[i].Seconds())))
		s := &Slot{number: i, program: c.Program, env: env, log: log, options: replicaOptions{
			name: fmt.Sprintf("replica%d", i), addr: ln.Addr().String(), database: c.db.URL(i), lease: c.Lease,
			source: fmt.Sprintf("127.0.0.%d", i+2), callbacks: callbacks}}
		s.lost = func() {
			// Deliveries that the replica could not store as owner may be repeated, even by the same replica. Requests
			// in flight arrive slightly later.
			c.happened(leaseLost)
			c.Window("its replica lost the lease", s, time.Now().Add(-2*c.Lease), time.Now().Add(storeTime))
		}
		c.slots = append(c.slots, s)
	}
	return nil
}

// subscribe creates the consumers. All consumers start at a cursor before the first ticket.
func (c *Campaign) subscribe(ctx context.Context) error {
	base := func(kind, severity string, exact bool) caller {
		return caller{base: c.balancer.URL, hc: c.hc, ledger: c.ledger, record: newRecord(kind, severity, exact)}
	}
	first := &poller{base("poll", "", true)}
	if _, err := first.poll(ctx); err != nil || first.cursor == nil {
		return fmt.Errorf("the first poll: %w", err)
	}
	filters := []string{"", "high", "low"}
	add := func(n int, make func(severity string) (consumer, *caller)) {
		for i := range n {
			x, at := make(filters[i%len(filters)])
			at.cursor = first.cursor
			c.consumers = append(c.consumers, x)
		}
	}
	add(c.Pollers, func(s string) (consumer, *caller) { p := &poller{base("poll", s, true)}; return p, &p.caller })
	add(c.Streams, func(s string) (consumer, *caller) { p := &streamer{base("stream", s, true)}; return p, &p.caller })
	for i := range c.Typed {
		mode := []string{"push", "poll"}[i%2]
		add(1, func(s string) (consumer, *caller) {
			p := &typed{base("client, "+mode, s, false), mode, i%4 < 2}
			if p.defaults {
				p.kind += ", default options"
			}
			return p, &p.caller
		})
	}
	var failed error
	n := 0
	add(c.Receivers, func(s string) (consumer, *caller) {
		p, err := newHook(base("webhook", s, false), c.reception)
		if n++; n%2 == 0 {
			p.kind, p.ttl, p.every = "webhook, refreshed", 30*time.Second, 2*time.Second
		}
		failed = errors.Join(failed, err)
		return p, &p.caller
	})
	return failed
}

// drive causes faults for the planned time, waits for work in progress and evaluates the result.
func (c *Campaign) drive(ctx context.Context) (*Report, error) {
	consuming, stopConsuming := context.WithCancel(ctx)
	defer stopConsuming()
	var consumers, work sync.WaitGroup
	for _, x := range c.consumers {
		x.result().arrivals, x.result().again = c.arrived, c.fail
		consumers.Go(func() { x.run(consuming) })
	}
	begin := time.Now()
	busy, stop := context.WithCancel(ctx)
	defer stop()
	for i := range c.Emitters {
		e := c.emitter(fmt.Sprintf("e%d", i), i)
		work.Go(func() { e.run(busy) })
	}
	var guests sync.WaitGroup
	visiting, leave := context.WithCancel(ctx)
	defer leave()
	if c.reception != nil {
		for i := range c.Guests {
			g, err := newGuest(c, i)
			if err != nil {
				return nil, err
			}
			guests.Go(func() { g.run(visiting) })
		}
		for i := range min(operated, c.Guests) {
			g, err := newGuest(c, c.Guests+i)
			if err != nil {
				return nil, err
			}
			guests.Go(func() { g.runOperated(visiting) })
		}
		guests.Go(func() { c.exceedQuota(visiting) })
	}
	// On a slow machine the faults can take longer, up to c.Late.
	faulty, end := context.WithTimeout(ctx, c.Time+c.Late)
	defer end()
	var faults sync.WaitGroup
	c.faults(faulty, &faults)
	Sleep(ctx, c.Time)
	faults.Wait()
	if c.Transactions {
		c.commitLate(ctx)
	}
	leave()
	guests.Wait()
	stop()
	work.Wait()
	for _, s := range c.slots { // even if a fault has ended their replica
		s.Lock()
		if s.running() == nil {
			if err := s.restart(ctx); err != nil {
				c.fail(fmt.Errorf("restarting a replica after the faults: %w", err))
			}
		}
		s.Unlock()
	}
	if c.reception != nil {
		c.reception.settle()
	}
	if c.Transactions {
		c.waitForEmptyOutbox(ctx)
	}
	c.settle(ctx)
	stopConsuming()
	consumers.Wait()
	r := c.judge(ctx, time.Since(begin))
	c.mu.Lock()
	found := len(c.failures) > 0
	c.mu.Unlock()
	for _, s := range c.slots {
		if found {
			s.dump()
		} else if err := s.end(); err != nil {
			c.fail(fmt.Errorf("ending a replica: %w", err))
		}
	}
	r.failures = c.failures
	return r, errors.Join(c.failures...)
}

// commitLate commits transactions after others that began later. Their rows in the outbox precede rows that have
// already been moved (REP-20).
func (c *Campaign) commitLate(ctx context.Context) {
	e := c.emitter("late", 1)
	for i := range 3 {
		both := make([]ticket, 2)
		for j := range both {
			both[j] = ticket{ID: fmt.Sprintf("late-%d-%d", i, j), Title: TicketTitle,
				Severity: severities[j], Opened: events.NewTime(time.Now().UTC())}
		}
		if ctx.Err() == nil {
			e.open(ctx, "/transaction?hold=1s", both, both...)
		}
	}
}

// emptyTime is the maximum time after the last fault until the outbox must be empty.
const emptyTime = 20 * time.Second

// waitForEmptyOutbox waits until the outbox is empty.
func (c *Campaign) waitForEmptyOutbox(ctx context.Context) {
	var waiting int
	var err error
	for end := time.Now().Add(emptyTime); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		if waiting, err = c.db.Waiting(ctx); err == nil && waiting == 0 {
			return
		}
	}
	c.fail(errors.Join(fmt.Errorf("%d occurrences are still in the outbox %v after the last fault", waiting, emptyTime), err))
}

// settle waits until every consumer has received all expected occurrences.
func (c *Campaign) settle(ctx context.Context) {
	for end := time.Now().Add(settleTime); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		if !slices.ContainsFunc(c.consumers, func(x consumer) bool {
			return len(x.result().missing(c.ledger.expected(x.result().severity))) > 0
		}) {
			break
		}
	}
	Sleep(ctx, 500*time.Millisecond) // wait for unexpected deliveries
}

// arrived records when the first occurrence committed after the death of the outbox's owner arrives.
func (c *Campaign) arrived(id string, at time.Time) {
	e, ok := c.ledger.get(id)
	if !ok || !e.outbox {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.deaths {
		if d := &c.deaths[i]; d.next.IsZero() && e.Opened.After(d.at) {
			d.next = at
		}
	}
}

// lockAnySlot locks and returns a random slot that is not locked.
func (c *Campaign) lockAnySlot() *Slot {
	for {
		if s := c.slots[rand.IntN(len(c.slots))]; s.turn.TryLock() {
			return s
		}
		time.Sleep(time.Millisecond)
	}
}
