package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/github"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/github/githubclient"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

const (
	// downTime is how long a killed server stays down. sendPause is how long GitHub waits before it resends an event
	// that the server did not accept.
	downTime  = 2 * time.Second
	sendPause = 200 * time.Millisecond
	// shownEvents is the number of recent events on the page. maxWaiting is the number of events that may wait to be
	// accepted.
	shownEvents = 8
	maxWaiting  = 100
	// actionTime is the timeout of a call to the operator API.
	actionTime = 10 * time.Second
)

// A stage consists of the processes that the page controls: a server of GitHub events, which can be killed, and a
// subscriber for each delivery mode.
type stage struct {
	program, issue string
	argv           []string // of the server, with its address
	base           string   // of the server, across restarts
	operator       string   // the operator's token
	endpoint       *endpoint
	secret         webhook.Secret
	subscription   string // by webhook

	killing chan struct{} // requests to kill the server
	queue   chan string   // events that GitHub still has to send

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at each change
	server   *process      // nil while it is down
	kills    int
	made     map[string]time.Time // the time when GitHub began to send each event
	accepted int                  // the number of these that a server has accepted
	ways     map[string]*modeSubscriber
}

// A modeSubscriber is the subscriber for a delivery mode.
type modeSubscriber struct {
	paused bool
	pause  bool          // the requested state, which a reader carries out
	turn   chan struct{} // of capacity 1: signals that pause has changed
	has    map[string]bool
	last   []arrival // the newest first
}

type arrival struct {
	ID   string `json:"id"`
	Took int64  `json:"tookMs"` // since GitHub began to send it
}

var wayNames = []string{events.ModePoll, events.ModePush, events.ModeWebhook}

func newStage(bin, bodies string) *stage {
	s := &stage{program: filepath.Join(bin, "github"), issue: filepath.Join(bodies, "issues.opened.json"), secret: webhook.NewSecret(),
		killing: make(chan struct{}, 1), queue: make(chan string, maxWaiting), changed: make(chan struct{}), made: map[string]time.Time{}, ways: map[string]*modeSubscriber{}}
	for _, name := range wayNames {
		s.ways[name] = &modeSubscriber{turn: make(chan struct{}, 1), has: map[string]bool{}}
	}
	return s
}

// run starts the server and the subscribers, calls ready, and stops them when ctx ends. The server stores its state in
// dir.
func (s *stage) run(ctx context.Context, dir, tokens string, ready func()) (err error) {
	if s.endpoint, err = newEndpoint(); err != nil {
		return err
	}
	defer s.endpoint.server.Close()
	s.endpoint.setSecrets(s.secret)
	s.endpoint.onTaken = func(id string) { s.arrived(events.ModeWebhook, id) }
	argv, operator, err := consoleArguments(dir, tokens, s.endpoint)
	if err != nil {
		return err
	}
	s.operator = operator
	if s.server, s.base, err = startServer(ctx, s.program, append(argv, "-http", "127.0.0.1:0")); err != nil {
		return err
	}
	defer func() {
		if s.server != nil {
			s.server.kill()
		}
	}()
	s.argv = append(argv, "-http", strings.TrimPrefix(s.base, "http://"))
	sub, err := subscribe(ctx, s.base, s.endpoint.url, s.secret)
	if err != nil {
		return err
	}
	s.subscription = sub.ID
	side, ctx := errgroup.WithContext(ctx)
	subscribed := make(chan struct{}, 2)
	for _, mode := range []string{events.ModePoll, events.ModePush} {
		side.Go(func() error { return s.runReader(ctx, mode, subscribed) })
	}
	side.Go(func() error { return s.serve(ctx) })
	side.Go(func() error { return s.deliver(ctx) })
	for range cap(subscribed) {
		select {
		case <-subscribed:
		case <-ctx.Done():
			return side.Wait()
		}
	}
	ready()
	return side.Wait()
}

// serve kills the server on request, restarts it after downTime, and stops it when ctx ends.
func (s *stage) serve(ctx context.Context) error {
	refresh := time.NewTicker(consoleRefresh)
	defer refresh.Stop()
	server := s.server
	for {
		select {
		case <-ctx.Done():
			return server.end()
		case <-server.done:
			if ctx.Err() != nil { // Ctrl-C in a terminal has already reached the server
				return nil
			}
			return fmt.Errorf("%s ended: %w", server.name, server.err)
		case <-refresh.C:
			if _, err := subscribe(ctx, s.base, s.endpoint.url, s.secret); err != nil && ctx.Err() == nil {
				return err
			}
			continue
		case <-s.killing:
		}
		s.change(func() { s.server, s.kills = nil, s.kills+1 })
		server.kill()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(downTime):
		}
		next, _, err := startServer(ctx, s.program, s.argv)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		server = next
		s.change(func() { s.server = next })
	}
}

// deliver simulates GitHub. It sends each event until a server accepts it.
func (s *stage) deliver(ctx context.Context) error {
	for {
		var id string
		select {
		case id = <-s.queue:
		case <-ctx.Done():
			return nil
		}
		for post(ctx, s.base+"/github", s.issue, "issues", id) != nil {
			select {
			case <-time.After(sendPause):
			case <-ctx.Done():
				return nil
			}
		}
		s.change(func() { s.accepted++ })
	}
}

// runReader runs a subscriber by poll or push. While the subscriber is paused, it does not have a subscription. It then
// continues from its cursor.
func (s *stage) runReader(ctx context.Context, mode string, subscribed chan<- struct{}) error {
	c, err := client.Connect(ctx, client.HTTP(s.base+"/mcp", &http.Client{Transport: bearer{}}), client.Options{Mode: mode, WaitForServer: true,
		Backoff: client.Backoff{Min: 100 * time.Millisecond, Max: time.Second}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return ignoreCanceled(ctx, err)
	}
	defer c.Close()
	w, cursor := s.ways[mode], ""
	for first := true; ; first = false {
		sub, err := githubclient.SubscribeIssuesOpened(ctx, c, github.IssuesOpenedArguments{}, client.WithManualAck(), client.WithCursor(cursor))
		if err != nil {
			return ignoreCanceled(ctx, err)
		}
		s.change(func() { w.paused = false })
		if first {
			subscribed <- struct{}{}
		}
		if cursor, err = s.readUntilPaused(ctx, mode, sub); err != nil || ctx.Err() != nil {
			return ignoreCanceled(ctx, err)
		}
		for s.applyPause(w) {
			select {
			case <-w.turn:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// readUntilPaused reads events until the subscriber is paused. It returns the cursor from which to continue.
func (s *stage) readUntilPaused(ctx context.Context, mode string, sub *githubclient.IssuesOpenedSubscription) (cursor string, err error) {
	var closer sync.WaitGroup
	done := make(chan struct{})
	closer.Go(func() {
		select {
		case <-s.ways[mode].turn:
		case <-ctx.Done():
		case <-done:
		}
		sub.Close()
	})
	defer closer.Wait()
	defer close(done)
	for ev, err := range sub.Events() {
		switch {
		case client.Final(err):
			return "", err
		case err != nil: // a gap, for example; the subscription continues
			continue
		}
		s.arrived(mode, ev.ID)
		if err := sub.Subscription().Ack(); err != nil {
			return "", err
		}
	}
	return sub.Subscription().Cursor(), nil
}

// A bearer is a RoundTripper that adds the subscribers' token.
type bearer struct{}

func (bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return http.DefaultTransport.RoundTrip(r)
}

// ignoreCanceled returns err, or nil if ctx has ended.
func ignoreCanceled(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// send makes GitHub send another event.
func (s *stage) send() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := fmt.Sprint("event-", len(s.made)+1)
	select {
	case s.queue <- id:
	default:
		return fmt.Errorf("%d events wait for the server: wait until it has them", maxWaiting)
	}
	s.made[id] = time.Now()
	s.notify()
	return nil
}

var errAway = errors.New("the server is away: wait until it is back")

// kill requests that the server be killed.
func (s *stage) kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return errAway
	}
	select {
	case s.killing <- struct{}{}:
	default: // a request is already pending
	}
	return nil
}

// pause pauses or resumes a subscriber. For the webhook subscriber, it calls the operator API to suspend deliveries.
func (s *stage) pause(ctx context.Context, name string, paused bool) error {
	w := s.ways[name]
	if w == nil {
		return fmt.Errorf("no subscriber %q: want poll, push or webhook", name)
	}
	if name == events.ModeWebhook {
		if err := s.operate(ctx, map[bool]string{true: "pause", false: "unpause"}[paused]); err != nil {
			return err
		}
	}
	s.change(func() {
		if w.pause = paused; name == events.ModeWebhook {
			w.paused = paused
		}
	})
	select {
	case w.turn <- struct{}{}:
	default: // the previous change is still unread
	}
	return nil
}

// operate pauses or resumes the webhook subscription.
func (s *stage) operate(ctx context.Context, verb string) error {
	s.mu.Lock()
	away := s.server == nil
	s.mu.Unlock()
	if away {
		return errAway
	}
	ctx, cancel := context.WithTimeout(ctx, actionTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+"/ops/api/subscriptions/"+s.subscription+"/"+verb, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.operator)
	req.Header.Set("Idempotency-Key", rand.Text())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("%s: the server answered %s: %s", verb, resp.Status, text)
	}
	return nil
}

// arrived records that a subscriber has received an event. Delivery is at least once, so it ignores duplicates.
func (s *stage) arrived(name, id string) {
	s.change(func() {
		w := s.ways[name]
		if w.has[id] {
			return
		}
		w.has[id] = true
		w.last = slices.Insert(w.last, 0, arrival{id, time.Since(s.made[id]).Milliseconds()})
		w.last = w.last[:min(len(w.last), shownEvents)]
	})
}

// applyPause applies the requested state and reports whether the reader should pause.
func (s *stage) applyPause(w *modeSubscriber) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.paused = w.pause
	s.notify()
	return w.pause
}

func (s *stage) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.notify()
}

// notify signals a change. s.mu must be held.
func (s *stage) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}
