// Package conform implements the server checks of `mcpe-conform`. It tests a running server against the requirements of
// the Events extension. For each requirement, it reports the request, the response and the expected response.
//
// It implements the wire protocol directly because a client library would hide faults. Start with [Run]. check.go
// defines a check. Each checks_*.go file has one function per check, with the ID of its requirement in
// docs/requirements.md. message.go defines the messages that http.go and stdio.go send and receive. watch.go waits for
// occurrences, and receiver.go receives webhooks. Package verdict defines the findings and reports, which package
// receivers shares. Package wrongserver implements a server with deliberate faults, which the tests of the checks use.
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

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/draw"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Options configures the server to test and the checks to execute.
type Options struct {
	Target peer.Target
	// Event names the event type to test. If it is empty, Run chooses a type with occurrences for each delivery mode.
	Event string
	// Args are the arguments of the subscriptions, in the form KEY=VALUE.
	Args []string
	// Receiver is the address that receives webhooks. If it is not set, Run skips the webhook requirements.
	Receiver peer.Receiver
	// Revision is the protocol revision to use. If it is empty, Run uses the newest revision that the server supports.
	Revision string
	// OtherToken is the token of another caller, for checks that need two callers. It is optional.
	OtherToken string
	// SSRF enables checks with callbacks at private addresses.
	SSRF bool
	// Slow enables long-running checks, which take up to 20 minutes.
	Slow bool
	// Restart is a shell command that restarts the server of Target.URL and then exits. It is optional.
	Restart string
	// Emit is a shell command that emits MCPE_CONFORM_N events of the type MCPE_CONFORM_EVENT together. It is optional.
	Emit string
	// AllowQuiet accepts a run that judges no event of a delivery mode.
	AllowQuiet bool
	// Seed chooses the values that the checks draw. A run with the same seed draws the same values.
	Seed uint64
	// Wait is how long to wait for an occurrence. It must not exceed MaxWait.
	Wait time.Duration
	// Stderr receives the standard error output of the server's command. If it is nil, the output is discarded.
	Stderr io.Writer

	// pace is set only by tests.
	pace *pace
	// door is an open Receiver for tests. selectsCheck selects the checks to run in tests.
	door         *peer.Door
	selectsCheck func(check) bool
	// restart runs Restart, and emit runs Emit. Tests replace them. Without a command, they are nil.
	restart func(context.Context) error
	emit    func(ctx context.Context, event string, n int) error
	// dial and loopback replace the network in tests. dial connects to HTTP servers, and loopback opens a listener on
	// the loopback interface.
	dial     dialer
	loopback func() (net.Listener, error)
	// process replaces the process of Target.Command in tests.
	process func() *process
}

// A dialer connects to an address.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// A pace holds the timeouts and delays of a run.
type pace struct {
	// handshake is the timeout for handshake requests. call is the timeout for all other requests.
	handshake, call time.Duration
	// heartbeat is the timeout for the first heartbeat. A server that sends one every 30 s is slow but correct.
	heartbeat time.Duration
	// settle is how long messages in flight may take to arrive.
	settle time.Duration
	// quiet is how long to wait for unexpected messages after a subscription or stream has ended.
	quiet time.Duration
	// emit is the time between two runs of the emit command.
	emit time.Duration
	// poll is the minimum time between two polls for occurrences.
	poll time.Duration
	// maxLag is how far one mode may lag behind another.
	maxLag time.Duration
	// limited is the longest wait that the server may ask for when it limits requests.
	limited time.Duration
	// retry is the minimum delay before a delivery is retried. hang is how long a callback withholds its response.
	retry, hang time.Duration
	// run is the timeout of the whole run, excluding slow checks.
	run  time.Duration
	slow *slowPace
}

var realPace = pace{handshake: 10 * time.Second, call: 12 * time.Second, heartbeat: 35 * time.Second,
	settle: 500 * time.Millisecond, quiet: 3 * time.Second, emit: time.Second, poll: 200 * time.Millisecond, maxLag: 5 * time.Second,
	limited: 10 * time.Second, retry: time.Second / 5, hang: 4 * time.Second, run: 110 * time.Second, slow: &realSlow}

// MaxWait is the maximum of Options.Wait. It ensures that a run ends within two minutes.
const MaxWait = 25 * time.Second

const cleanupTime = 6 * time.Second

// Check returns an error if the options are invalid. It does not connect to the server.
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

// A run judges one server.
type run struct {
	o    Options
	link link
	// revision and session are the results of the handshake. hello is the server's response to it.
	revision, session string
	hello             *exchange
	capabilities      map[string]json.RawMessage
	// listed is the first page of events/list. entries holds the entries of all pages, up to listFault.
	listed    *exchange
	entries   []entry
	listFault error
	// names holds the names of all event types.
	names map[string]bool
	// types are the event types from events/list. poll, push and hook are the ones under test in each mode.
	types            []*subject
	poll, push, hook *subject
	watchEnd         time.Time // when to stop waiting for occurrences
	receiver         *receiver
	// mainSubscription is the subscription that the delivery checks examine.
	mainSubscription *subscription
	// witness follows an event type in all of its modes. It starts after the attempt to create main.
	witness *witness
	// retrial refuses deliveries. It starts once main has been created.
	retrial *retrial
	// quiet follows the type of polls with arguments that exclude its events. It starts together with the witness.
	quiet *quiet
	// hasDelivery reports whether main received a delivery in time. It is nil until a check has waited for one.
	hasDelivery *bool
	// errorsByFamily holds an error response for each code family.
	errorsByFamily map[wire.Dialect]*exchange
	// failed holds the names of the checks that have failed.
	failed map[string]bool
	// gate delays requests while the server limits them. granted holds the methods, with the event type or the key, that
	// the server has granted to the caller.
	gate    gate
	granted map[string]bool
	// barred holds, by mode, the reason why the caller may not use any type that offers it.
	barred map[string]error
	// subscriptions holds the webhook subscriptions that may exist.
	subscriptions map[string]map[string]any
	// opened holds the keys of subscriptions that the current check created.
	opened []map[string]any
	// triedMode is set by the first check that needs a delivery mode. pendingRequest is the request that was unanswered
	// when the run ended.
	triedMode      bool
	pendingRequest []byte
	// lastExchange is the latest exchange. A check that fails without a response reports it.
	lastExchange *exchange

	// emitError is the latest error of the emit command.
	emitError error
	// restartResult is the result of the restart, or nil before the restart.
	restartResult *restartState

	// oddities holds the first odd message of each kind.
	oddities map[oddity]*exchange
	// ignoredID is the last request ID before the end of the handshake, or 0. Responses up to that ID are not checked.
	ignoredID int

	// draw draws the values of the checks.
	draw *draw.Source

	// The Redactor removes secrets from everything that the report shows.
	verdict.Redactor

	mu  sync.Mutex
	ids int
}

// Run tests the server and returns the report. It returns a *cli.Exit if the options are invalid, and an
// *Unreachable if it does not find an MCP server with events. If ctx ends first, Run returns its error and a report of
// the findings so far.
func Run(ctx context.Context, o Options) (*verdict.Report, error) {
	if err := o.Check(); err != nil {
		return nil, cli.Refusef("%v", err)
	}
	if o.pace == nil {
		o.pace = &realPace
	}
	if o.Restart != "" {
		o.restart = func(ctx context.Context) error { return runShell(ctx, o.Restart, o.pace.slow.restartTime) }
	}
	if o.Emit != "" {
		o.emit = o.runEmit
	}
	r := &run{o: o, names: map[string]bool{}, failed: map[string]bool{}, draw: draw.New(o.Seed), errorsByFamily: map[wire.Dialect]*exchange{}, subscriptions: map[string]map[string]any{}, granted: map[string]bool{}, barred: map[string]error{}, oddities: map[oddity]*exchange{}}
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
	defer func() {
		if r.link != nil {
			r.link.close()
		}
	}()
	if err := r.connect(trying); err != nil {
		return nil, err
	}
	report := &verdict.Report{Target: o.Target.String(), Seed: o.Seed, Revision: r.Shown([]byte(r.revision))}
	if err := r.readCatalog(trying); err != nil {
		return nil, err
	}
	if err := r.chooseSubject(); err != nil {
		return nil, err
	}
	// End the subscriptions and streams that checks left open, even if the run was interrupted.
	defer r.cleanUp(context.WithoutCancel(ctx))
	if o.emit != nil {
		emitting, stop := context.WithCancel(ctx)
		var emitter sync.WaitGroup
		emitter.Go(func() { r.emitEvents(emitting) })
		defer func() { stop(); emitter.Wait() }()
	}
	watching, stop := context.WithCancel(trying)
	watchers := r.watchTypes(watching)
	var selected []check
	var needed need
	for _, c := range checks() {
		if o.selectsCheck == nil || o.selectsCheck(c) {
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
		case c.needs&needRestart != 0 && o.restart != nil:
			restarts = append(restarts, c)
			continue
		}
		// By now the subscriptions that this caller may create are known.
		if c.needs&(needMain|needWitness) != 0 && r.witness == nil && needed&needWitness != 0 {
			r.beginWitness(watching, watchers)
		}
		if c.needs&(needMain|needQuiet) != 0 && r.quiet == nil && r.poll != nil && needed&needQuiet != 0 {
			r.beginQuiet(watching, watchers)
		}
		if c.needs&needMain != 0 && r.mainSubscription != nil && r.retrial == nil && needed&needRetrial != 0 {
			r.beginRetrial(watching, watchers)
		}
		report.Findings = append(report.Findings, r.tryCheck(trying, c))
	}
	// Occurrences are recorded only while they are being watched.
	lacking := func(all []check) []error {
		lacks := make([]error, len(all))
		for i, c := range all {
			lacks[i] = r.skipReason(trying, c)
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
	report.Findings = append(report.Findings, r.runSlow(ctx, slow, lackSlow)...)
	for i, c := range restarts {
		report.Findings = append(report.Findings, r.runCheck(ctx, c, lackRestart[i]))
	}
	report.Seconds = time.Since(began).Seconds()
	report.Count()
	report.End(ctx, limit, r.Shown(r.pendingRequest))
	if why := r.unusedMode(); why != nil && report.Unfinished == nil {
		report.Unfinished = &verdict.Unfinished{Reason: why.Error()}
	}
	return report, ctx.Err()
}
