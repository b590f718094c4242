// Package conform is the judge of `mcpe-conform`. It checks a server from outside against the requirements of the
// Events extension, and reports for each one the request, the answer and the expected answer.
//
// It speaks the wire protocol directly, because a client library would hide faults. Start with [Run]. check.go defines
// a check; the files checks_*.go have one function per check, with the ID of its requirement in docs/requirements.md.
// message.go has the messages, which http.go and stdio.go carry. watch.go waits for occurrences, and receiver.go
// receives webhooks. Package verdict has the findings and reports, shared with the judge of receivers. Package
// wrongserver has a server with deliberate faults, which tests the checks.
package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Options selects the server to judge and the checks to run.
type Options struct {
	Target peer.Target
	// Event names the event type to test. If it is empty, Run chooses an occurring type for each delivery mode.
	Event string
	// Args are the arguments of the subscriptions as KEY=VALUE.
	Args []string
	// Receiver is the address at which webhooks arrive. Without one, Run skips the requirements of webhooks.
	Receiver peer.Receiver
	// Revision is the protocol revision to speak; if empty, the server's newest.
	Revision string
	// OtherToken is another caller's token, for checks that need two callers; "" for none.
	OtherToken string
	// SSRF also tries callbacks at private addresses.
	SSRF bool
	// Slow also runs checks that need time, for up to 20 minutes.
	Slow bool
	// Restart is a shell command that restarts the server of Target.URL and exits; "" for none.
	Restart string
	// Wait is how long to wait for an occurrence, at most MaxWait.
	Wait time.Duration
	// Stderr receives the standard error of the server's command.
	Stderr io.Writer

	// pace is nil except in tests.
	pace *pace
	// door is an open Receiver for tests; it only affects the choice of checks.
	door *peer.Door
	only func(check) bool
	// restart replaces Restart in tests.
	restart func() error
	// dial and loopback replace the network in tests: dial reaches servers over HTTP, loopback opens a listener on
	// loopback.
	dial     dialer
	loopback func() (net.Listener, error)
	// process replaces the process of Target.Command in tests.
	process func() *process
}

// A dialer connects to an address.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// A pace holds the waiting times for results that only time can show.
type pace struct {
	// handshake bounds answers to requests of the handshake, and call bounds all other answers.
	handshake, call time.Duration
	// heartbeat bounds the first heartbeat; a server that sends one every 30 s is slow but correct.
	heartbeat time.Duration
	// settle is how long messages in flight may take to arrive.
	settle time.Duration
	// quiet is how long silence has to last after an end.
	quiet time.Duration
	// poll is the minimum time between two polls for occurrences.
	poll time.Duration
	// arrive is how far one mode may lag behind another.
	arrive time.Duration
	// retry is the minimum pause before a delivery is retried, and hang is how long a callback hangs.
	retry, hang time.Duration
	// run bounds the whole run, except for slow checks.
	run  time.Duration
	slow *slowPace
}

var realPace = pace{handshake: 10 * time.Second, call: 12 * time.Second, heartbeat: 35 * time.Second,
	settle: 500 * time.Millisecond, quiet: 3 * time.Second, poll: 200 * time.Millisecond, arrive: 5 * time.Second,
	retry: time.Second / 5, hang: 4 * time.Second, run: 110 * time.Second, slow: &realSlow}

// MaxWait is the maximum of Options.Wait, so that a run ends within two minutes.
const MaxWait = 25 * time.Second

const cleanupTime = 6 * time.Second

// Check returns an error for invalid options, before anything is connected.
func (o Options) Check() error {
	if err := o.Target.Check(); err != nil {
		return err
	}
	if err := o.Receiver.Check(); err != nil {
		return err
	}
	switch {
	case o.Wait <= 0 || o.Wait > MaxWait:
		return fmt.Errorf("--wait %v: must be above 0 and at most %v", o.Wait, MaxWait)
	case o.Revision != "" && o.Revision != wire.RevisionStateless && o.Revision != wire.RevisionLegacy:
		return fmt.Errorf("--revision %s: must be %s or %s", o.Revision, wire.RevisionStateless, wire.RevisionLegacy)
	case o.OtherToken != "" && o.OtherToken == o.Target.Token:
		return errors.New("--other-token: it is the same token as --token")
	case o.Restart != "" && o.Target.URL == "":
		return errors.New("--restart goes with the URL of a server")
	case len(o.Args) > 0 && o.Event == "":
		return errors.New("--arg goes with --event")
	}
	return peer.CheckPairs(o.Args)
}

func usagef(format string, args ...any) error { return verdict.Usagef(format, args...) }

// A run judges one server.
type run struct {
	o    Options
	link link
	// revision and session are the results of the handshake; hello is its answer.
	revision, session string
	hello             *exchange
	capabilities      map[string]json.RawMessage
	listed            *exchange
	// types are the event types in events/list; poll, push and hook are the ones under test.
	types            []*subject
	poll, push, hook *subject
	until            time.Time // when to stop waiting for occurrences
	receiver         *receiver
	// nobody reports whether the server has no principal for this caller.
	nobody bool
	// main is the subscription whose deliveries are checked.
	main *subscription
	// witness follows a type through all its modes. It starts after the attempt to create main.
	witness *witness
	// retrial refuses deliveries. It starts when main was created.
	retrial *retrial
	// delivered reports whether main received a delivery in time; nil until a check has waited for one.
	delivered *bool
	// families counts the errors of each code family.
	families map[wire.Dialect]*exchange
	// made holds the webhook subscriptions that may exist.
	made map[string]map[string]any
	// tried is set by the first check of a delivery mode, and hung is the request without an answer when the run ended.
	tried bool
	hung  []byte
	// last is the latest exchange, for a check that fails without an answer.
	last *exchange

	// again is the result of the restart; nil before it.
	again *restarted

	// failed is the answer to a subscription of the callback failedAt, which failed its challenge; nil before it.
	failed   *exchange
	failedAt *callback
	// noted holds the first odd message of each kind.
	noted map[oddity]*exchange
	// passed is the last request id from before the handshake, or 0; answers up to that id are not judged.
	passed int

	// The Redactor removes secrets from everything that the report shows.
	verdict.Redactor

	mu  sync.Mutex
	ids int
}

// Run judges the server and returns the report. It fails with a *verdict.UsageError for invalid options, and with
// *Unreachable if it finds no MCP server with events. If ctx ends first, Run returns its error and a report of the
// findings so far.
func Run(ctx context.Context, o Options) (*verdict.Report, error) {
	if err := o.Check(); err != nil {
		return nil, usagef("%v", err)
	}
	if o.pace == nil {
		o.pace = &realPace
	}
	r := &run{o: o, families: map[wire.Dialect]*exchange{}, made: map[string]map[string]any{}, noted: map[oddity]*exchange{}}
	r.Hide(o.Target.Token)
	r.Hide(o.OtherToken)
	door, err := o.door, error(nil)
	if door == nil {
		door, err = o.Receiver.Open()
	}
	if err != nil {
		return nil, err
	}
	if door != nil {
		r.receiver = newReceiver(door)
		defer r.receiver.close()
	}
	began := time.Now()
	trying, cancel := context.WithTimeout(ctx, o.pace.run)
	defer cancel()
	stderr := o.Stderr
	if stderr == nil {
		stderr = io.Discard
	}
	defer func() {
		if r.link != nil {
			r.link.close()
		}
	}()
	if err := r.connect(trying, stderr); err != nil {
		return nil, err
	}
	report := &verdict.Report{Target: o.Target.String(), Revision: r.Shown([]byte(r.revision))}
	if err := r.catalog(trying); err != nil {
		return nil, err
	}
	if err := r.choose(); err != nil {
		return nil, err
	}
	// End the subscriptions and streams that checks have left, even if the run was interrupted.
	defer r.cleanUp(context.WithoutCancel(ctx))
	watching, stop := context.WithCancel(trying)
	watchers := r.watch(watching)
	var selected []check
	var needed need
	for _, c := range checks() {
		if o.only == nil || o.only(c) {
			selected = append(selected, c)
			needed |= c.needs
		}
	}
	var slow, restarts []check
	for _, c := range selected {
		switch {
		case c.needs&needSlow != 0 && o.Slow:
			slow = append(slow, c)
			continue
		case c.needs&needRestart != 0 && (o.Restart != "" || o.restart != nil):
			restarts = append(restarts, c)
			continue
		}
		// By now the subscriptions that this caller may create are known.
		if c.needs&(needMain|needWitness) != 0 && r.witness == nil && needed&needWitness != 0 {
			r.beginWitness(watching, watchers)
		}
		if c.needs&needMain != 0 && r.main != nil && r.retrial == nil && needed&needRetrial != 0 {
			r.beginRetrial(watching, watchers)
		}
		report.Findings = append(report.Findings, r.try(trying, c))
	}
	// Occurrences are complete only while they are being watched.
	lacking := func(all []check) []error {
		lacks := make([]error, len(all))
		for i, c := range all {
			lacks[i] = r.lacks(trying, c)
		}
		return lacks
	}
	lackSlow, lackRestart := lacking(slow), lacking(restarts)
	limit := o.pace.run
	if trying.Err() == nil {
		limit = o.pace.slow.run
	}
	stop()
	watchers.Wait()
	report.Findings = append(report.Findings, r.slowly(ctx, slow, lackSlow)...)
	for i, c := range restarts {
		report.Findings = append(report.Findings, r.finding(ctx, c, lackRestart[i]))
	}
	report.Seconds = time.Since(began).Seconds()
	report.Count()
	if report.End(ctx, limit, r.Shown(r.hung)); !r.tried && report.Unfinished == nil {
		report.Unfinished = &verdict.Unfinished{Reason: "no delivery mode of an event type was tried"}
	}
	return report, ctx.Err()
}

// nextID returns a JSON-RPC id that was not used before.
func (r *run) nextID() json.RawMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids++
	return fmt.Appendf(nil, "%d", r.ids)
}

// call sends a request of the method and waits for the answer.
func (r *run) call(ctx context.Context, method string, params map[string]any) (*exchange, error) {
	return r.send(ctx, request{id: r.nextID(), method: method, params: params})
}

// send sends a request and waits for the answer.
func (r *run) send(ctx context.Context, q request) (*exchange, error) {
	return r.sendWithin(ctx, q, r.o.pace.call)
}

func (r *run) sendWithin(ctx context.Context, q request, timeout time.Duration) (*exchange, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
	defer cancel()
	body := q.encode(r.revision)
	r.mu.Lock()
	r.last = &exchange{request: body}
	r.mu.Unlock()
	f, err := r.link.start(ctx, q, body)
	if err != nil {
		return &exchange{request: body}, err
	}
	defer f.stop()
	x, err := f.response(ctx, body)
	r.mu.Lock()
	r.last = x
	if f.session != "" && q.method == methodInitialize {
		r.session = f.session
	}
	r.mu.Unlock()
	return x, err
}

// open starts a stream. The caller stops it.
func (r *run) open(ctx context.Context, q request) (*flow, []byte, error) {
	body := q.encode(r.revision)
	r.mu.Lock()
	r.last = &exchange{request: body}
	r.mu.Unlock()
	f, err := r.link.start(ctx, q, body)
	return f, body, err
}
