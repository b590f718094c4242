package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// Pauses between readings of events/list.
const (
	// relistPause is the shortest between two that changes cause.
	relistPause = time.Second
	// slowRelist is by how much the readings by time are rarer where the server tells of changes: what
	// it tells may be lost.
	slowRelist = 6
	// lastingListen is what a listen stream must have lived for its end to be a first one.
	lastingListen = 10 * time.Second
)

// Bounds of one reading of events/list, beside that of its bytes, Options.MaxMessage.
const (
	maxPages       = 1_000
	maxDescriptors = 10_000
)

// A Descriptor is one event type as the server's events/list describes it. See LIST-2.
type Descriptor struct {
	// Name is the event name, Description what people and models read.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Delivery are the delivery modes that the type offers: "poll", "push" and "webhook".
	Delivery []string `json:"delivery"`
	// InputSchema and PayloadSchema are JSON Schemas as the server published them; {} where it has none.
	InputSchema   json.RawMessage `json:"inputSchema"`
	PayloadSchema json.RawMessage `json:"payloadSchema"`
	// Meta is the entry's _meta, or nil.
	Meta map[string]any `json:"_meta,omitempty"`
}

// A reading is what events/list said.
type reading struct {
	list    []Descriptor
	leftOut []*DescriptorError
}

// A catalog is the client's copy of the server's event types.
type catalog struct {
	reading chan struct{} // held while one goroutine reads the list for all

	mu    sync.Mutex
	last  reading
	at    time.Time // of the last reading
	known bool
	again bool // the next reading keeps its distance from the last
}

func (c *catalog) init() { c.reading = make(chan struct{}, 1) }

func (c *catalog) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last.list, c.known, c.again = nil, false, false // what was left out stays known until the next reading
}

// forgetOld forgets what was not read just now: many may ask for it at once.
func (c *catalog) forgetOld() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) >= relistPause {
		c.last.list, c.known = nil, false
	}
}

// untilRead is how long to wait before what was forgotten is read again.
func (c *catalog) untilRead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known || !c.again {
		return 0
	}
	return relistPause - time.Since(c.at)
}

// forgetAgain forgets what is read again after a pause, since a server may make many ask for it.
func (c *catalog) forgetAgain() {
	c.forget()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.again = true
}

func (c *catalog) leftOut() []*DescriptorError {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.last.leftOut)
}

func (c *catalog) get() ([]Descriptor, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.list, c.known
}

// list reads events/list and keeps the answer.
func (c *Client) list(ctx context.Context, s *session) ([]Descriptor, error) {
	all, err := c.readList(ctx, s, newCall(nil))
	if err != nil {
		return nil, err
	}
	c.keep(all)
	return slices.Clone(all.list), nil
}

func (c *Client) readList(ctx context.Context, s *session, own *call) (all reading, err error) {
	cursor, held := "", int64(0)
	unusable := func(format string, args ...any) (reading, error) {
		return reading{}, &AnswerError{Method: wire.MethodList, Err: fmt.Errorf(format, args...)}
	}
	seen := map[string]bool{}
	for range maxPages {
		bounded, cancel := context.WithTimeoutCause(ctx, c.opts.CallTimeout, errTimeout(wire.MethodList))
		raw, err := s.call(bounded, wire.MethodList, wire.ListParams{Cursor: cursor}, own)
		cancel()
		if err != nil {
			return reading{}, fmt.Errorf("client: %s: %w", wire.MethodList, err)
		}
		if held += int64(len(raw)); held > c.opts.MaxMessage {
			return unusable("%w", errTooLarge(fmt.Sprintf("the list, with %d bytes after %d entries of /events,", held, len(all.list)+len(all.leftOut)), c.opts.MaxMessage))
		}
		page, err := wire.DecodeListPage(raw)
		if err != nil {
			return unusable("%w", err)
		}
		if n := len(all.list) + len(all.leftOut) + len(page.Entries); n > maxDescriptors {
			return unusable("it has %d entries and more, at most %d are read", n, maxDescriptors)
		}
		all.add(page.Entries)
		if page.NextCursor == "" {
			return all, nil
		}
		if n := len(page.NextCursor); n > maxCursor {
			return unusable("nextCursor has %d bytes, more than %d", n, maxCursor)
		}
		if seen[page.NextCursor] {
			return unusable("it does not end: nextCursor comes again")
		}
		cursor = page.NextCursor
		seen[cursor] = true
	}
	return unusable("it has more than %d pages", maxPages)
}

// add reads entries one by one: one that is malformed must not hide the others.
func (r *reading) add(entries []json.RawMessage) {
	for _, raw := range entries {
		read, err := wire.DecodeDescriptor(raw)
		d := Descriptor(read)
		if _, twice := find(r.list, d.Name); err == nil && twice {
			err = errors.New("/name repeats an earlier entry")
		}
		if err != nil {
			r.leftOut = append(r.leftOut, &DescriptorError{Event: d.Name, index: len(r.list) + len(r.leftOut), Err: err})
			continue
		}
		r.list = append(r.list, d)
	}
}

func errTimeout(method string) error {
	return fmt.Errorf("client: no answer to %s in time: %w", method, context.DeadlineExceeded)
}

// keep stores what was read and tells every live subscription.
func (c *Client) keep(all reading) {
	c.catalog.mu.Lock()
	c.catalog.last, c.catalog.known, c.catalog.at = all, true, time.Now()
	c.catalog.mu.Unlock()
	for _, bad := range all.leftOut {
		c.log.Warn("skipping an invalid entry of events/list", "err", bad)
	}
	for _, sub := range c.registry() {
		if d, ok := find(all.list, sub.name); ok {
			sub.compare(d)
		}
	}
}

// registry is a copy of the registry.
func (c *Client) registry() []*subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	subs := make([]*subscription, 0, len(c.subs))
	for s := range c.subs {
		subs = append(subs, s)
	}
	return subs
}

func find(all []Descriptor, name string) (Descriptor, bool) {
	i := slices.IndexFunc(all, func(d Descriptor) bool { return d.Name == name })
	if i < 0 {
		return Descriptor{}, false
	}
	return all[i], true
}

// describe returns the descriptor of the event type of that name, reading the list when what is
// known of it lacks the name. Subscriptions that ask at the same time share one reading.
func (c *Client) describe(ctx context.Context, s *session, name string) (Descriptor, error) {
	select {
	case c.catalog.reading <- struct{}{}:
		defer func() { <-c.catalog.reading }()
	case <-ctx.Done():
		return Descriptor{}, context.Cause(ctx)
	}
	if all, known := c.catalog.get(); known {
		if d, ok := find(all, name); ok {
			return d, nil
		}
	}
	if err := sleep(ctx, c.catalog.untilRead()); err != nil {
		return Descriptor{}, err
	}
	all, err := c.list(ctx, s)
	if err != nil {
		return Descriptor{}, err
	}
	d, ok := find(all, name)
	if !ok {
		for _, bad := range c.catalog.leftOut() {
			if bad.Event == name {
				return d, bad
			}
		}
		return d, events.NewError(wire.NotFound, map[string]string{"kind": "event"})
	}
	return d, nil
}

// watch keeps the catalog fresh while the session lives: on list_changed where the server sends it,
// else by time as long as there are subscriptions (CLI-9).
func (c *Client) watch(s *session) {
	notified := s.listChanged
	if notified && s.stateless {
		listening := make(chan bool, 1)
		c.background(func() { c.listen(s, listening) })
		select {
		case notified = <-listening:
		case <-s.ctx.Done():
			return
		}
	}
	if notified {
		c.log.Debug("catalog follows list_changed")
	}
	every := c.opts.Relist
	if notified {
		every *= slowRelist
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var again <-chan time.Time // after a reading of a change that failed
	pauses := pauses{Backoff: c.opts.Backoff}
	for changed := false; ; {
		select {
		case <-s.ctx.Done():
			return
		case <-s.board.changed:
			changed = true
		case <-again:
		case <-tick.C:
			if len(c.registry()) == 0 {
				continue
			}
		}
		began := time.Now()
		again = nil
		if c.refresh(s) {
			pauses.reset()
			changed = false
		} else if changed {
			again = time.After(pauses.next(false))
		}
		// What changes meanwhile is read in one go.
		if sleep(s.ctx, relistPause-time.Since(began)) != nil {
			return
		}
	}
}

// refresh reads the list again and reports whether it could. Until it is read what was known of it stays.
func (c *Client) refresh(s *session) (ok bool) {
	all, err := c.list(s.ctx, s)
	if err != nil {
		if s.ctx.Err() == nil {
			c.log.Warn("reloading the catalog failed", "err", err)
		}
		return false
	}
	if c.opts.OnCatalog != nil {
		c.opts.OnCatalog(all)
	}
	return true
}

// listen asks for list_changed by subscriptions/listen, which the stateless era needs (D8), and
// asks again when the stream ends. It reports once whether the server serves the filter, and
// returns when it does not.
func (c *Client) listen(s *session, served chan<- bool) {
	known := false
	report := func(ok bool) {
		if !known {
			known = true
			served <- ok
		}
	}
	pauses := pauses{Backoff: c.opts.Backoff}
	var answers presence // those to the listen requests
	for s.ctx.Err() == nil {
		began := time.Now()
		acknowledged, err := c.listenOnce(s, &answers, func() { report(true) })
		if !acknowledged && !known && !isAway(err) {
			report(false)
			return
		}
		lasted := time.Since(began) >= lastingListen
		if lasted {
			pauses.reset()
		}
		if sleep(s.ctx, pauses.next(lasted || isAway(err))) != nil {
			return
		}
		wake(s.board.changed) // what changed while nobody listened was not told
	}
}

// listenOnce asks once, and returns when the stream has ended, with whether the server had agreed. err is nil
// when that is all there is to say.
func (c *Client) listenOnce(s *session, answers *presence, acknowledged func()) (ok bool, err error) {
	// The SDK fills in _meta for calls through its own functions only: take it from one.
	own := newCall(nil)
	if _, err := c.readList(s.ctx, s, own); err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	c2 := newCall(newInflow(s.board.shared))
	c2.presence = answers
	p := &listenParams{Notifications: map[string]bool{wire.ListenFilter: true}}
	own.mu.Lock()
	p.Meta = own.meta
	own.mu.Unlock()
	c.background(func() {
		// It returns when the request is written, and keeps the call alive until ctx ends.
		_, err := c.send(withCall(ctx, c2), methodListen, &mcp.ClientRequest[*listenParams]{Session: s.cs, Params: p})
		if err != nil {
			c2.end()
		}
	})
	trust := s.board.trust()
	answer := time.NewTimer(c.opts.CallTimeout)
	defer answer.Stop()
	for {
		select {
		case f := <-c2.in.frames:
			c2.in.took(f)
			if f.method != notificationListenAck || ok {
				continue
			}
			var ack struct {
				Notifications map[string]json.RawMessage `json:"notifications"`
			}
			if wire.Decode(f.params, &ack) != nil || string(ack.Notifications[wire.ListenFilter]) != "true" {
				return false, nil
			}
			ok = true
			answer.Stop()
			acknowledged()
		case <-c2.ended:
			if len(c2.in.frames) > 0 {
				continue // what came before the end
			}
			return ok, c2.reason()
		case <-answer.C:
			return false, nil
		case <-trust.Done():
			return ok, nil
		case <-ctx.Done():
			return ok, nil
		}
	}
}
