package bridge

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/inbox"
	"github.com/mcpe-gen/mcpe-gen/internal/filelock"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

const (
	// answerTime is how long a hub may take to respond, excluding the wait of events_wait.
	answerTime = 20 * time.Second
	// awaitTime is how long a single call for the channel waits.
	awaitTime = 10 * time.Minute
	// attachTime is the timeout for one attempt to attach.
	attachTime = 5 * time.Second
	// leaveTime is the timeout for deregistering a window from its hub.
	leaveTime = 2 * time.Second
	// These are the limits of the delay between two attempts to attach or to become the leader.
	rejoinMin = 10 * time.Millisecond
	rejoinMax = 200 * time.Millisecond
	// joinTime is how long a window tries to attach to a bridge that holds the lock. That bridge may be starting or
	// shutting down.
	joinTime = 10 * time.Second
	// retryMax is the maximum delay between two such periods for a window that has lost its hub.
	retryMax = 10 * time.Second
)

// A window serves one agent. It has the tools and a reading position. It is attached to the leader's hub, which can be
// in the same process. If the leader ends, the window attaches to the next hub or its bridge becomes the leader.
type window struct {
	o     Options
	dir   string
	id    string
	print func(string)

	ctx context.Context // done when the window ends
	end context.CancelFunc

	agent *agentTransport
	// pace limits the rate of results, and channel limits the rate of notifications.
	pace, channel *pace
	// turn is held while batches are taken for a result, until the result has been written and the batches are recorded
	// as read. A crash of all bridges therefore repeats at most one result.
	turn chan struct{}
	// settling receives the settlement of the current result.
	settling chan settlement

	leader *leader // used only by join

	mu      sync.Mutex
	l       *link
	changed chan struct{} // closed when l changes
	// unconfirmed holds the batches that the window has shown but no hub has confirmed. The window reports them to the
	// next hub.
	unconfirmed settlement
}

// A link is a connection to a hub.
type link struct {
	conn    net.Conn
	session *mcp.ClientSession
	pid     int
	done    chan struct{} // closed when it ends
}

func newWindow(o Options, dir string, print func(string)) *window {
	perMinute := o.Config.Limits.BatchesPerMinute
	w := &window{o: o, dir: dir, id: rand.Text()[:16], print: print, pace: newPace(perMinute), channel: newPace(perMinute),
		turn: make(chan struct{}, 1), settling: make(chan settlement, 1), changed: make(chan struct{})}
	w.ctx, w.end = context.WithCancel(context.Background())
	return w
}

// printMessage prints a message to the user.
func (w *window) printMessage(format string, args ...any) {
	w.print(plain.Text(plain.Cut(fmt.Sprintf(format, args...), maxText)))
}

// join attaches the window to the leader or makes this bridge the leader. It retries until patience has elapsed.
func (w *window) join(ctx context.Context, patience time.Duration) (*link, error) {
	begun := time.Now()
	for pause := rejoinMin; ; pause = min(2*pause, rejoinMax) {
		l, problem := w.attach(ctx)
		if problem == nil {
			return l, nil
		}
		if _, refused := errors.AsType[*toolError](problem); refused || w.leader != nil {
			return nil, problem
		}
		leader, err := startLeader(ctx, w.o, w.dir, w.print)
		held, isHeld := errors.AsType[*filelock.HeldError](err)
		switch {
		case err == nil:
			w.leader = leader
			continue
		case !isHeld:
			return nil, err
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case time.Since(begun) > patience:
			return nil, fmt.Errorf("another bridge has the state in %s: it is %s, and this window cannot attach to it: %w; end it, or name another directory with --state", w.dir, held.Holder, problem)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// attach connects to the leader's hub, which can be in the same process.
func (w *window) attach(ctx context.Context) (_ *link, err error) {
	ctx, cancel := context.WithTimeout(ctx, attachTime)
	defer cancel()
	var conn net.Conn
	if w.leader != nil {
		var theirs net.Conn
		conn, theirs = net.Pipe()
		w.leader.h.serve(theirs)
	} else if conn, err = w.o.meet.dial(ctx, w.dir); err != nil {
		return nil, err
	}
	l, err := connect(ctx, conn, w.o.Version)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	shown := w.unconfirmed
	w.mu.Unlock()
	servers, settings := configDigests(w.o.Config)
	var answer attachResult
	err = l.call(ctx, opAttach, attachParams{Protocol: protocol, Window: w.id, Servers: servers, Settings: settings, Shown: shown}, &answer)
	if err != nil {
		l.close()
		return nil, err
	}
	w.recordConfirmation(shown)
	if l.pid = answer.PID; answer.Differs {
		w.printMessage("the bridge that leads, pid %d, has another configuration, which counts until it ends", l.pid)
	}
	return l, nil
}

// connect establishes a link over a connection.
func connect(ctx context.Context, conn net.Conn, version string) (*link, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "mcpe-gen-bridge-window", Version: version}, nil)
	session, err := client.Connect(ctx, &mcp.IOTransport{Reader: conn, Writer: conn, MaxLineLength: -1}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		conn.Close()
		return nil, err
	}
	l := &link{conn: conn, session: session, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		session.Wait()
	}()
	return l, nil
}

// close ends a link. The hub releases the batches that were taken over the link.
func (l *link) close() {
	l.conn.Close() // makes waiting calls fail
	l.session.Close()
	<-l.done
}

// A toolError is the error of a request that the hub rejected. Repeating the request does not help.
type toolError struct{ text string }

func (e *toolError) Error() string { return e.text }

// call sends a request to the hub. Any error other than a toolError is a connection error.
func (l *link) call(ctx context.Context, op string, in, out any) error {
	res, err := l.session.CallTool(ctx, &mcp.CallToolParams{Name: op, Arguments: in})
	if err != nil {
		return err
	}
	text := ""
	if len(res.Content) == 1 {
		if c, ok := res.Content[0].(*mcp.TextContent); ok {
			text = c.Text
		}
	}
	if res.IsError {
		return &toolError{text}
	}
	return json.Unmarshal([]byte(text), out)
}

// setLink makes l the link for all calls. If l is nil, calls wait for a link.
func (w *window) setLink(l *link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.l = l
	close(w.changed)
	w.changed = make(chan struct{})
}

// link waits for a connection to a hub.
func (w *window) link(ctx context.Context, not *link) (*link, error) {
	for {
		w.mu.Lock()
		l, changed := w.l, w.changed
		w.mu.Unlock()
		if l != nil && l != not {
			return l, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// call sends a request to the leader. If the leader ends before it responds, call sends the request to the next leader.
func (w *window) call(ctx context.Context, op string, in, out any) error {
	var l *link
	for {
		next, err := w.link(ctx, l)
		if err != nil {
			return fmt.Errorf("no bridge leads: %w", err)
		}
		l = next
		err = l.call(ctx, op, in, out)
		if _, failed := errors.AsType[*toolError](err); err == nil || failed {
			return err
		}
		if ctx.Err() != nil {
			if op == opTake {
				l.close() // the hub releases the batches that it may have taken
			}
			return fmt.Errorf("the bridge that leads, pid %d, does not answer; is it stopped? %w", l.pid, err)
		}
		l.close()
	}
}

// keepAttached keeps the window attached until ctx is done. l is its initial link.
func (w *window) keepAttached(ctx context.Context, l *link) {
	for {
		w.setLink(l)
		select {
		case <-l.done:
			w.setLink(nil)
		case <-ctx.Done():
			l.close()
			return
		}
		for pause := pauseMin; ; pause = min(2*pause, retryMax) {
			next, err := w.join(ctx, joinTime)
			if l = next; err == nil {
				break
			}
			if ctx.Err() == nil {
				w.printMessage("%v; trying again", err)
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
		}
	}
}

// leave deregisters the window from its hub, which deletes its reading position.
func (w *window) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	if err := w.call(ctx, opLeave, struct{}{}, &struct{}{}); err != nil {
		w.printMessage("ending: %v", err)
	}
}

// stopLeading stops the leader if it runs in this window's bridge.
func (w *window) stopLeading() error {
	if w.leader == nil {
		return nil
	}
	return w.leader.stop()
}

// settleShown settles the results of the agent's calls in order until over is closed.
func (w *window) settleShown(over <-chan struct{}) {
	for {
		var s settlement
		select {
		case s = <-w.settling:
		case <-over:
			select {
			case s = <-w.settling:
			default:
				return
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		if err := w.settle(ctx, s); err != nil {
			w.printMessage("marking events as read: %v; they will be shown again", err)
		}
		cancel()
		<-w.turn
	}
}

// settle reports shown batches to the hub. If the hub ends before it confirms them, the next hub receives the report.
func (w *window) settle(ctx context.Context, s settlement) error {
	w.mu.Lock()
	w.unconfirmed.Read = append(w.unconfirmed.Read, s.Read...)
	w.unconfirmed.Announced = append(w.unconfirmed.Announced, s.Announced...)
	w.unconfirmed.Missed += s.Missed
	said := w.unconfirmed
	w.mu.Unlock()
	said.Lease = s.Lease
	err := w.call(ctx, opSettle, said, &struct{}{})
	if _, failed := errors.AsType[*toolError](err); err == nil || failed {
		w.recordConfirmation(said)
	}
	return err
}

// recordConfirmation records that a hub has confirmed the shown batches.
func (w *window) recordConfirmation(s settlement) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := func(of []uint64) func(uint64) bool {
		return func(n uint64) bool { return slices.Contains(of, n) }
	}
	w.unconfirmed.Read = slices.DeleteFunc(slices.Clone(w.unconfirmed.Read), known(s.Read))
	w.unconfirmed.Announced = slices.DeleteFunc(slices.Clone(w.unconfirmed.Announced), known(s.Announced))
	w.unconfirmed.Missed = max(w.unconfirmed.Missed-s.Missed, 0)
}

// sequencesOf returns the sequence numbers of batches.
func sequencesOf(batches []batchRow) (all []uint64, err error) {
	for i := range batches {
		s, ok := inbox.ParseID(batches[i].ID)
		if !ok {
			return nil, fmt.Errorf("%q is not the id of a batch", batches[i].ID)
		}
		all = append(all, s)
	}
	return all, nil
}

// forward returns a tool handler that forwards the agent's call to the leader.
func (w *window) forward(op string) func(context.Context, *mcp.CallToolRequest) (any, error) {
	return func(ctx context.Context, req *mcp.CallToolRequest) (any, error) {
		ctx, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		var result json.RawMessage
		err := w.call(ctx, op, req.Params.Arguments, &result)
		return result, err
	}
}
