package main

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

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

const (
	// principal is everybody's bearer token and user id.
	principal = "alice"
	// answerTime bounds a request.
	answerTime = 4 * time.Second
	// settleTime is how long after the last fault everything may take to arrive.
	settleTime = time.Minute
	// lateTime is how much longer than planned the faults may take.
	lateTime = 20 * time.Second
)

// settings say how long a campaign is and what happens in it.
type settings struct {
	time                               time.Duration
	kills, stops, restarts, cuts       int
	wakes, locks, crowds               int
	terminations, hushes               int
	guests                             int  // whose subscriptions come and go
	restores                           int  // rounds, each with an older backup; in the place of all other faults
	first                              bool // it ends with its first finding
	lease                              time.Duration
	pollers, streams, typed, receivers int
	emitters                           int
	pause                              time.Duration // of an emitter
	deploy                             bool
	slow                               time.Duration // how long the database is slow
	delay                              time.Duration // of each of its answers then
	dir                                string        // for the replicas' logs
	program                            string        // that replicas run
	env                                []string      // for them
}

// fullTime is how long a campaign with the counts of full takes.
const fullTime = 5 * time.Minute

// full is the campaign in full, its counts scaled to the time that there is.
func full(d time.Duration) settings {
	scale := func(n int) int { return max(1, int(float64(n)*min(1, d.Seconds()/fullTime.Seconds()))) }
	return settings{
		time: d, kills: scale(200), stops: scale(20), restarts: scale(10), cuts: scale(200), lease: 4 * time.Second,
		wakes: scale(25), locks: scale(10), crowds: scale(5), terminations: scale(50), hushes: scale(20), guests: 6,
		pollers: 4, streams: 8, typed: 3, receivers: 4, emitters: 4,
		pause: 40 * time.Millisecond, deploy: true, slow: d / 10, delay: 200 * time.Millisecond,
	}
}

// A campaign is a cluster with its consumers, and what happens to it.
type campaign struct {
	settings
	db        *database
	slots     []*slot
	balancer  *httptest.Server
	reception *reception
	hc        *http.Client
	ledger    *ledger
	consumers []consumer
	newer     atomic.Bool // the next build runs somewhere
	abort     context.CancelFunc

	mu       sync.Mutex
	failures []error
	done     map[string]int // faults, by name
	wanted   map[string]int
	windows  []window // in which deliveries may be repeated
	unleased []window // in which nobody can have a lease
	deaths   []death
	killed   []time.Time // whatever the replica owned
}

// A window is a time in which something was wrong with a slot, or with the database when slot is nil.
type window struct {
	slot     *slot
	from, to time.Time
}

// A death is the kill of the replica that owned the outbox.
type death struct {
	at   time.Time
	next time.Time // when something came that was committed after it
}

func (c *campaign) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.failures) < 100 {
		c.failures = append(c.failures, err)
	}
	if c.first {
		c.abort()
	}
}

func (c *campaign) happened(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done[what]++
}

// run runs a campaign and returns what came of it. The error says what must not have happened.
func run(ctx context.Context, s settings) (rep *report, err error) {
	c := &campaign{settings: s, ledger: newLedger(), done: map[string]int{}, wanted: map[string]int{},
		hc: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
	defer c.hc.CloseIdleConnections()
	ctx, c.abort = context.WithCancel(ctx)
	defer c.abort()
	if c.db, err = startDatabase(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.db.stop()) }()
	if err := c.db.with(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CREATE TABLE campaign_tickets (id text PRIMARY KEY)")
		return err
	}); err != nil {
		return nil, err
	}
	callbacks := ""
	if s.receivers > 0 {
		if c.reception, err = newReception(c.fail); err != nil {
			return nil, err
		}
		defer c.reception.server.Close()
		callbacks = c.reception.server.URL
	}
	if err := c.place(callbacks); err != nil {
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
	c.balancer = httptest.NewServer(balance(addrs))
	defer c.balancer.Close()
	if err := c.subscribe(ctx); err != nil {
		return nil, err
	}
	if c.restores > 0 {
		return nil, c.restoring(ctx)
	}
	return c.drive(ctx)
}

// replicas is how many the cluster has.
const replicas = 3

// clockOffset is the variable by which a replica that make cluster has built is told how many seconds its clock is
// ahead (build/main.go); clocks are those of the slots.
const clockOffset = "MCPE_CAMPAIGN_CLOCK"

var clocks = [replicas]time.Duration{-time.Hour, 0, 2 * time.Hour}

// place makes the slots, each with an address and a log.
func (c *campaign) place(callbacks string) error {
	for i := range replicas {
		// Kept until all have one, so that they differ; an address is used again and again.
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer ln.Close()
		log, err := os.Create(filepath.Join(c.dir, fmt.Sprintf("replica%d.log", i)))
		if err != nil {
			return err
		}
		env := append(slices.Clone(c.env), fmt.Sprintf("%s=%d", clockOffset, int(clocks[i].Seconds())))
		s := &slot{program: c.program, env: env, log: log, options: replicaOptions{
			name: fmt.Sprintf("replica%d", i), addr: ln.Addr().String(), database: c.db.url(i), lease: c.lease,
			source: fmt.Sprintf("127.0.0.%d", i+2), callbacks: callbacks}}
		s.lost = func() {
			// What it could not write down as the owner any more is delivered again, by itself even. Requests that
			// are under way come a little later.
			c.happened(leaseLost)
			c.window(window{s, time.Now().Add(-2 * c.lease), time.Now().Add(unwritten)})
		}
		c.slots = append(c.slots, s)
	}
	return nil
}

// subscribe makes the consumers. All begin at the cursor of before the first ticket.
func (c *campaign) subscribe(ctx context.Context) error {
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
	add(c.pollers, func(s string) (consumer, *caller) { p := &poller{base("poll", s, true)}; return p, &p.caller })
	add(c.streams, func(s string) (consumer, *caller) { p := &streamer{base("stream", s, true)}; return p, &p.caller })
	for i := range c.typed {
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
	add(c.receivers, func(s string) (consumer, *caller) {
		p, err := newHook(base("webhook", s, false), c.reception)
		if n++; n%2 == 0 {
			p.kind, p.ttl, p.every = "webhook, refreshed", 30*time.Second, 2*time.Second
		}
		failed = errors.Join(failed, err)
		return p, &p.caller
	})
	return failed
}

// drive lets things happen until the time is over, waits for what is under way, and judges.
func (c *campaign) drive(ctx context.Context) (*report, error) {
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
	for i := range c.emitters {
		e := &emitter{name: fmt.Sprintf("e%d", i), base: c.balancer.URL, ledger: c.ledger, hc: c.hc, pause: c.pause,
			outbox: i%2 == 1, newer: &c.newer, failure: c.fail}
		work.Go(func() { e.run(busy) })
	}
	var guests sync.WaitGroup
	visiting, leave := context.WithCancel(ctx)
	defer leave()
	if c.reception != nil {
		for i := range c.guests {
			g, err := newGuest(c, i)
			if err != nil {
				return nil, err
			}
			guests.Go(func() { g.run(visiting) })
		}
		guests.Go(func() { c.throng(visiting) })
	}
	// A slow machine gets more time for the faults, but not for ever.
	faulty, end := context.WithTimeout(ctx, c.time+lateTime)
	defer end()
	var faults sync.WaitGroup
	c.faults(faulty, &faults)
	sleep(ctx, c.time)
	faults.Wait()
	c.late(ctx)
	leave()
	guests.Wait()
	stop()
	work.Wait()
	for _, s := range c.slots { // whatever happened to them
		s.turn.Lock()
		if s.running() == nil {
			if err := s.restart(ctx); err != nil {
				c.fail(err)
			}
		}
		s.turn.Unlock()
	}
	if c.reception != nil {
		c.reception.settle()
	}
	c.emptied(ctx)
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
			c.fail(err)
		}
	}
	r.failures = c.failures
	return r, errors.Join(c.failures...)
}

// late lets transactions commit seconds after others that began later: their rows of the outbox appear below those that
// have been moved (REP-20).
func (c *campaign) late(ctx context.Context) {
	e := &emitter{base: c.balancer.URL, ledger: c.ledger, hc: c.hc, failure: c.fail}
	for i := range 3 {
		both := make([]ticket, 2)
		for j := range both {
			both[j] = ticket{ID: fmt.Sprintf("late-%d-%d", i, j), Title: ticketTitle,
				Severity: severities[j], Opened: events.NewTime(time.Now().UTC())}
		}
		if ctx.Err() == nil {
			e.open(ctx, "/transaction?hold=1s", both, both...)
		}
	}
}

// emptyTime is how long after the last fault the outbox may take to be empty.
const emptyTime = 20 * time.Second

// emptied waits until nothing is in the outbox.
func (c *campaign) emptied(ctx context.Context) {
	var waiting int
	var err error
	for end := time.Now().Add(emptyTime); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		err = c.db.with(ctx, func(conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT count(*) FROM mcpe.outbox").Scan(&waiting)
		})
		if err == nil && waiting == 0 {
			return
		}
	}
	c.fail(errors.Join(fmt.Errorf("%d occurrences are in the outbox %v after the last fault", waiting, emptyTime), err))
}

// settle waits until every consumer has what it has to get.
func (c *campaign) settle(ctx context.Context) {
	for end := time.Now().Add(settleTime); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		if !slices.ContainsFunc(c.consumers, func(x consumer) bool {
			return len(x.result().missing(c.ledger.expected(x.result().severity))) > 0
		}) {
			break
		}
	}
	sleep(ctx, 500*time.Millisecond) // what should not come would come
}

// arrived notes how long after the death of the outbox's owner the outbox went on.
func (c *campaign) arrived(id string, at time.Time) {
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

func (c *campaign) window(w window) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.windows = append(c.windows, w)
}

// anySlot is a random one, with its turn, which nobody else has.
func (c *campaign) anySlot() *slot {
	for {
		if s := c.slots[rand.IntN(len(c.slots))]; s.turn.TryLock() {
			return s
		}
		time.Sleep(time.Millisecond)
	}
}
