package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// Intervals between calls of events/list.
const (
	// minRelistInterval is the minimum interval between two reads triggered by changes.
	minRelistInterval = time.Second
	// relistFactor is the factor by which Relist is increased if the server notifies the client of changes. The list is
	// still reread, because notifications can be lost.
	relistFactor = 6
	// minListenDuration is how long a listen stream must have been open for its end to reset the backoff.
	minListenDuration = 10 * time.Second
)

// Limits for one read of events/list. Options.MaxMessage also limits its size in bytes.
const (
	maxPages       = 1_000
	maxDescriptors = 10_000
)

// A Descriptor describes one event type in the server's events/list. See LIST-2.
type Descriptor struct {
	// Name is the event name. Description describes the type to people and models.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Delivery lists the delivery modes that the type offers: "poll", "push" and "webhook".
	Delivery []string `json:"delivery"`
	// InputSchema and PayloadSchema are the JSON Schemas that the server published, or {} if it published none.
	InputSchema   json.RawMessage `json:"inputSchema"`
	PayloadSchema json.RawMessage `json:"payloadSchema"`
	// Meta is the entry's _meta, or nil.
	Meta map[string]any `json:"_meta,omitempty"`
}

// A listResult is the result of one read of events/list.
type listResult struct {
	list    []Descriptor
	leftOut []*DescriptorError
}

// A catalog is the client's copy of the server's event types.
type catalog struct {
	reading chan struct{} // held while one goroutine reads the list for all callers

	mu    sync.Mutex
	last  listResult
	at    time.Time // of the last read
	known bool
	again bool // the next read waits until relistPause after the last
}

func (c *catalog) init() { c.reading = make(chan struct{}, 1) }

func (c *catalog) invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last.list, c.known, c.again = nil, false, false // leftOut stays until the next read
}

// invalidateOld discards the cached list unless it was read within minRelistInterval, because many subscriptions may
// call it at the same time.
func (c *catalog) invalidateOld() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) >= minRelistInterval {
		c.last.list, c.known = nil, false
	}
}

// readDelay returns how long to wait before the next read of a discarded list.
func (c *catalog) readDelay() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known || !c.again {
		return 0
	}
	return minRelistInterval - time.Since(c.at)
}

// invalidateDelayed discards the cached list and delays the next read, because a server can cause many such calls.
func (c *catalog) invalidateDelayed() {
	c.invalidate()
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

// listEventTypes calls events/list and caches the result.
func (c *Client) listEventTypes(ctx context.Context, s *session) ([]Descriptor, error) {
	all, err := c.readList(ctx, s, newCall(nil))
	if err != nil {
		return nil, err
	}
	c.storeList(all)
	return slices.Clone(all.list), nil
}

func (c *Client) readList(ctx context.Context, s *session, own *call) (all listResult, err error) {
	cursor, held := "", int64(0)
	unusable := func(format string, args ...any) (listResult, error) {
		return listResult{}, &AnswerError{Method: wire.MethodList, Err: fmt.Errorf(format, args...)}
	}
	seen := map[string]bool{}
	for range maxPages {
		bounded, cancel := context.WithTimeoutCause(ctx, c.opts.CallTimeout, errTimeout(wire.MethodList))
		raw, err := s.call(bounded, wire.MethodList, wire.ListParams{Cursor: cursor}, own)
		cancel()
		if err != nil {
			return listResult{}, fmt.Errorf("client: %s: %w", wire.MethodList, err)
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

// add adds the decoded entries. It decodes each entry separately, so a malformed entry does not affect the others.
func (r *listResult) add(entries []json.RawMessage) {
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

// storeList caches a list result and compares its entries with the types of all live subscriptions.
func (c *Client) storeList(all listResult) {
	c.catalog.mu.Lock()
	c.catalog.last, c.catalog.known, c.catalog.at = all, true, time.Now()
	c.catalog.mu.Unlock()
	for _, bad := range all.leftOut {
		c.log.Warn("skipping an invalid entry of events/list", "err", bad)
	}
	for _, sub := range c.registry() {
		if d, ok := find(all.list, sub.name); ok {
			sub.checkDescriptor(d)
		}
	}
}

// registry returns the live subscriptions.
func (c *Client) registry() []*subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.subs))
}

func find(all []Descriptor, name string) (Descriptor, bool) {
	i := slices.IndexFunc(all, func(d Descriptor) bool { return d.Name == name })
	if i < 0 {
		return Descriptor{}, false
	}
	return all[i], true
}

func namesOf(all []Descriptor) []string {
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = clip([]byte(d.Name))
	}
	return names
}

// describe returns the descriptor of the named event type. It reads the list if the cached list does not contain the
// name. Concurrent callers share one read.
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
	if err := sleep(ctx, c.catalog.readDelay()); err != nil {
		return Descriptor{}, err
	}
	all, err := c.listEventTypes(ctx, s)
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
		return d, &unknownEventError{event: name, has: namesOf(all), err: events.NewError(wire.NotFound, map[string]string{"kind": "event"})}
	}
	return d, nil
}

// watchCatalog refreshes the catalog after each list_changed and, while there are subscriptions, at intervals (CLI-9).
// It returns when the session ends.
func (c *Client) watchCatalog(s *session) {
	notified := s.listChanged
	if notified && s.stateless {
		listening := make(chan bool, 1)
		c.runInBackground(func() { c.watchListChanged(s, listening) })
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
		every *= relistFactor
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var again <-chan time.Time // after a failed read of a change
	pauses := backoffState{Backoff: c.opts.Backoff}
	for changed := false; ; {
		select {
		case <-s.ctx.Done():
			return
		case <-s.board.listChanged:
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
		// One read covers all changes during this pause.
		if sleep(s.ctx, minRelistInterval-time.Since(began)) != nil {
			return
		}
	}
}

// refresh rereads the list and reports whether it succeeded. If it fails, the cached list is kept.
func (c *Client) refresh(s *session) (ok bool) {
	all, err := c.listEventTypes(s.ctx, s)
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

// watchListChanged requests list_changed with subscriptions/listen, as stateless sessions require (D8), and reopens the
// stream when it ends. It sends one value to served, which states whether the server supports the filter, and returns
// if the server does not.
func (c *Client) watchListChanged(s *session, served chan<- bool) {
	known := false
	report := func(ok bool) {
		if !known {
			known = true
			served <- ok
		}
	}
	pauses := backoffState{Backoff: c.opts.Backoff}
	var answers availability // to the listen requests
	for s.ctx.Err() == nil {
		began, acknowledged := time.Now(), false
		p := &methodParams{body: listenParams{Notifications: map[string]bool{wire.ListenFilter: true}}}
		err := c.listen(s.ctx, s, p, &answers, func(ack wire.Members) bool {
			acknowledged = string(wire.FirstMember(ack["notifications"], wire.ListenFilter)) == "true"
			if acknowledged {
				report(true)
			}
			return acknowledged
		})
		if !acknowledged && !known && !isUnreachable(err) {
			report(false)
			return
		}
		lasted := time.Since(began) >= minListenDuration
		if lasted {
			pauses.reset()
		}
		if sleep(s.ctx, pauses.next(lasted || isUnreachable(err))) != nil {
			return
		}
		wake(s.board.listChanged) // changes while no stream was open were not notified
	}
}
