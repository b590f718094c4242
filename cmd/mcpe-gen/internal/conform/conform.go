// Package conform is the judge behind `mcpe-gen conform`: it tries the requirements of the Events
// extension that can be seen from outside against any server that speaks it, and says for each one
// what was sent, what came back and what was expected.
//
// It speaks the wire itself, with nothing of the client's that would smooth over a fault. Start with
// [Run]; check.go says what a check is, and the checks are in the files checks_*.go, each one function
// with the ID of its requirement in docs/requirements.md. Messages are in message.go, carried by
// http.go and stdio.go; watch.go waits for occurrences, and receiver.go is called back by webhooks.
// Package verdict has the findings and reports, shared with the judge of receivers.
// Package wrongserver holds the server that does wrong on purpose, by which the checks are tested.
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

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Options says what to judge and how.
type Options struct {
	Target peer.Target
	// Event names the event type to try; when empty, one that occurs is taken for each delivery mode.
	Event string
	// Args are the arguments of its subscriptions as KEY=VALUE.
	Args []string
	// Receiver is where webhooks come in; without one their requirements are skipped.
	Receiver peer.Receiver
	// Revision is the protocol revision to speak; empty is the newest that the server knows.
	Revision string
	// OtherToken is that of another caller, for what depends on who calls; "" for none.
	OtherToken string
	// SSRF also tries callbacks at private addresses.
	SSRF bool
	// Slow also tries what time alone shows, which takes up to 20 minutes.
	Slow bool
	// Restart is a command for the system's shell that starts the server of Target.URL anew and ends; "" for none.
	Restart string
	// Wait is how long to wait for an occurrence, at most MaxWait.
	Wait time.Duration
	// Stderr receives what a command writes to its standard error.
	Stderr io.Writer

	// pace is nil for the real one.
	pace *pace
	// door is an open Receiver, and only chooses the checks, for tests.
	door *peer.Door
	only func(check) bool
	// restart stands for Restart in tests.
	restart func() error
	// dial and loopback stand for the network in tests: how servers over HTTP are reached, and a listener on loopback.
	dial     dialer
	loopback func() (net.Listener, error)
	// process stands for the one of Target.Command in tests.
	process func() *process
}

// A dialer connects to an address.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// A pace is how long is waited where nothing but time can tell.
type pace struct {
	// handshake and call bound the answers to a request of the handshake and to any other.
	handshake, call time.Duration
	// heartbeat is for the first one; a server that sends one every 30 s is slow, and right.
	heartbeat time.Duration
	// settle is how long what is under way may still arrive.
	settle time.Duration
	// quiet is how long there has to be silence after an end.
	quiet time.Duration
	// poll is the shortest time between two polls for occurrences.
	poll time.Duration
	// arrive is how long one way of following may be behind another.
	arrive time.Duration
	// retry is the shortest pause before a delivery is tried again, and hang how long a callback hangs.
	retry, hang time.Duration
	// run bounds all of it, but for what is slow.
	run  time.Duration
	slow *slowPace
}

var realPace = pace{handshake: 10 * time.Second, call: 12 * time.Second, heartbeat: 35 * time.Second,
	settle: 500 * time.Millisecond, quiet: 3 * time.Second, poll: 200 * time.Millisecond, arrive: 5 * time.Second,
	retry: time.Second / 5, hang: 4 * time.Second, run: 110 * time.Second, slow: &realSlow}

// MaxWait bounds Options.Wait, so that a run ends within two minutes.
const MaxWait = 25 * time.Second

const cleanupTime = 6 * time.Second

// Check refuses options that cannot work, before anything is connected.
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

// A run is one judgement.
type run struct {
	o    Options
	link link
	// revision and session are what the handshake agreed on; hello is its answer.
	revision, session string
	hello             *exchange
	capabilities      map[string]json.RawMessage
	listed            *exchange
	// types are what events/list names; poll, push and hook the ones that are tried.
	types            []*subject
	poll, push, hook *subject
	until            time.Time // how long occurrences are waited for
	receiver         *receiver
	// nobody tells that the server knows no principal for us.
	nobody bool
	// main is the subscription whose deliveries are judged.
	main *subscription
	// witness follows a type by all its modes, from when main was made or could not be.
	witness *witness
	// retrial refuses deliveries, from when main was made.
	retrial *retrial
	// delivered tells whether something was delivered to it in time; nil while nobody has waited.
	delivered *bool
	// families counts the errors of each code family.
	families map[wire.Dialect]*exchange
	// made are the webhook subscriptions that may exist.
	made map[string]map[string]any
	// tried is set by the first check of a delivery mode, and hung is the request without an answer when the run ended.
	tried bool
	hung  []byte
	// last is the latest exchange, for a check that ends without an answer.
	last *exchange

	// again is the restart that was made; nil before.
	again *restarted

	// failed is what a callback, failedAt, that failed its challenge was answered; nil before.
	failed   *exchange
	failedAt *callback
	// noted are the first messages of the run that are odd, by what is.
	noted map[oddity]*exchange
	// passed is the last id of a request from before the handshake, 0 for none: answers to those are not judged.
	passed int

	// What is shown of the run is without its secrets.
	verdict.Redactor

	mu  sync.Mutex
	ids int
}

// Run judges the server. Beside usage errors, of type *verdict.UsageError, it fails with *Unreachable when there
// is no MCP server with events. What was found before ctx ended is in the report, with ctx's error.
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
	// Ends what a check left behind, also when the run was interrupted.
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
		// Which subscriptions the server makes for this caller is known by now.
		if c.needs&(needMain|needWitness) != 0 && r.witness == nil && needed&needWitness != 0 {
			r.beginWitness(watching, watchers)
		}
		if c.needs&needMain != 0 && r.main != nil && r.retrial == nil && needed&needRetrial != 0 {
			r.beginRetrial(watching, watchers)
		}
		report.Findings = append(report.Findings, r.try(trying, c))
	}
	// What has occurred is known while it is watched.
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

// nextID is a JSON-RPC id that was not used before.
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

// open begins a stream. The caller stops it.
func (r *run) open(ctx context.Context, q request) (*flow, []byte, error) {
	body := q.encode(r.revision)
	r.mu.Lock()
	r.last = &exchange{request: body}
	r.mu.Unlock()
	f, err := r.link.start(ctx, q, body)
	return f, body, err
}
